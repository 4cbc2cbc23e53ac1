package alertserver

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/mainstemdev/mainstem/alert/omnibus"
	"github.com/mainstemdev/mainstem/server"
)

// omnibusListener is the listener for clients of OMNIbus, a component.
type omnibusListener struct {
	alerts  *Alerts
	at      net.Addr
	running *server.HTTPListener // nil unless it listens
}

// Name implements [server.Component].
func (p *omnibusListener) Name() string { return "omnibus" }

// Start begins to listen before it returns, so that a server that started can be reached.
func (p *omnibusListener) Start(ctx context.Context, h *server.Host) error {
	address := p.alerts.Config.Omnibus
	if address == "" {
		return nil
	}
	l, err := server.Listen(ctx, address, "listen for OMNIbus clients", "choose another address with --omnibus, or turn it off with --omnibus ''")
	if err != nil {
		return err
	}
	o := &omnibus.Options{Logger: h.Logger, Memory: h.Memory}
	if p.alerts.users != nil {
		o.Users = p.alerts.users
	}
	handler, err := omnibus.New(p.alerts.tables, o)
	if err != nil {
		return errors.Join(fmt.Errorf("start the OMNIbus server: %w", err), l.Close())
	}
	h.Metrics.MustRegister(handler.Collectors()...)
	p.at = l.Addr()
	p.running = h.Serve(l, server.HTTPServer{
		Name: "omnibus listener", Address: address, Authenticated: p.alerts.users != nil, Handler: handler, End: handler.Close,
	})
	if server.Reachable(address) && (h.TLS == nil || p.alerts.users == nil) {
		h.Logger.Warn("other machines can reach and change this server's alerts without TLS or without authentication", "omnibus", address)
	}
	return nil
}

// Stop ends the feeds, stops listening, lets other requests end until ctx does, and cuts the rest.
func (p *omnibusListener) Stop(ctx context.Context) error {
	if p.running == nil {
		return nil
	}
	return p.running.Stop(ctx)
}
