// Package alertserver is the alert tables of a server, as components of package server: the
// tables, the listener for clients of OMNIbus (see alert/omnibus), and the ways in, which make
// alerts of what others send (see alert/ingest).
//
//	a := alertserver.New()
//	a.Config.Omnibus = "127.0.0.1:8081"
//	c := server.DefaultConfig()
//	c.Components = append(c.Components, a.Components()...)
//	s, err := server.Open(ctx, c)
//
// The tables begin first and end last. The ways in begin after the HTTP listener of the server
// and end before it, so that readers see the last alert that came in. /readyz of the server asks
// the tables. A mistake in a file of users or mappings is a [server.FileError] with its line.
//
// [UserFile] changes the files that say who may use the tables.
//
// A [Coordinator] is a program of its own: it has no log, and asks object servers of alert
// tables, wherever they are (see alert/coordinator).
package alertserver

import (
	"context"
	"fmt"
	"net"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/server"
)

// Alerts is the alert tables of a server and the ways to them. It belongs to one server; its
// methods may be called from many goroutines.
type Alerts struct {
	// Config must not change after the server was opened.
	Config Config

	// Start sets these; nothing changes them while the other components run.
	host   *server.Host
	tables *alert.Server // nil if alerts are off
	users  *watchedUsers // nil if nobody is asked for a password

	omnibus omnibusListener
	ingest  ingestListeners
}

var (
	_ server.Configured = (*Alerts)(nil)
	_ server.Listening  = (*Alerts)(nil)
	_ server.Required   = (*Alerts)(nil)
	_ server.Intake     = (*ingestListeners)(nil)
)

// New returns alert tables that are off until their Config says where clients are.
func New() *Alerts {
	a := &Alerts{Config: Config{Automations: true}}
	a.omnibus.alerts, a.ingest.alerts = a, a
	return a
}

// Components returns what a server has to run, in the order in which it must be started: the
// tables, the listener for clients of OMNIbus, and the ways in.
func (a *Alerts) Components() []server.Component {
	return []server.Component{a, &a.omnibus, &a.ingest}
}

// Name implements [server.Component].
func (a *Alerts) Name() string { return "alerts" }

// Settings implements [server.Configured].
func (a *Alerts) Settings() any { return &a.Config }

// Tables returns the alert tables, nil before Start and if they are off. They belong to the
// server: do not close them.
func (a *Alerts) Tables() *alert.Server { return a.tables }

// OmnibusAddr returns the address that the server listens on for clients of OMNIbus, nil before
// Start and if that is off.
func (a *Alerts) OmnibusAddr() net.Addr { return a.omnibus.at }

// SyslogAddr returns the address that the server listens on for syslog, nil before Start and if
// that is off. It is that of TCP; UDP has the same port.
func (a *Alerts) SyslogAddr() net.Addr { return a.ingest.syslogAt }

// WebhookAddr returns the address that the server listens on for alerts of Prometheus, nil before
// Start and if that is off.
func (a *Alerts) WebhookAddr() net.Addr { return a.ingest.webhookAt }

// Listeners implements [server.Listening], for all of its components.
func (a *Alerts) Listeners() []server.Listener {
	var all []server.Listener
	for _, l := range []server.Listener{
		{Name: "omnibus", Clients: "OMNIbus clients", Addr: a.OmnibusAddr()},
		{Name: "syslog", Clients: "syslog", Addr: a.SyslogAddr()},
		{Name: "webhook", Clients: "Prometheus", Addr: a.WebhookAddr()},
	} {
		if l.Addr != nil {
			all = append(all, l)
		}
	}
	return all
}

// Start reads the alert tables into memory.
func (a *Alerts) Start(ctx context.Context, h *server.Host) error {
	if !a.Config.keepsAlerts() {
		return nil
	}
	users, err := watchUsers(a.Config.OmnibusUsers, h.Logger)
	if err != nil {
		return err
	}
	o := a.Config.options()
	o.Logger, o.Memory, o.MaxResultBytes = h.Logger, h.Memory, int(h.Memory.Limit()/4)
	tables, err := alert.Open(ctx, h.Log, o)
	if err != nil {
		return fmt.Errorf("open the alert tables: %w", err)
	}
	h.Metrics.MustRegister(automations{tables})
	a.host, a.tables, a.users = h, tables, users
	return nil
}

// Stop ends the automations and releases the memory.
func (a *Alerts) Stop(context.Context) error {
	if a.tables == nil {
		return nil
	}
	return a.tables.Close()
}

// Ready implements [server.Required]: it returns nil if the alert tables answer queries and show
// all that the log holds.
func (a *Alerts) Ready(ctx context.Context) error {
	if a.tables == nil {
		return nil
	}
	head, err := a.host.Log.Head(ctx)
	if err == nil {
		err = a.tables.Wait(ctx, head) // by way of the goroutine that writes
	}
	if err == nil {
		var rows *alert.Rows
		if rows, err = a.tables.Query(ctx, "select top 1 Identifier from alerts.status"); err == nil {
			err = rows.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("the alert tables do not answer: %w", err)
	}
	return nil
}
