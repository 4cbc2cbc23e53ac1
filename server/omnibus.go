package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/omnibus"
)

// omnibusPart is the alert tables, and the listener for clients of OMNIbus.
type omnibusPart struct {
	tables   *alert.Server // nil if alerts are off
	users    *usersFile    // nil if nobody is asked for a password
	handler  *omnibus.Handler
	server   *http.Server // nil until it listens
	address  net.Addr
	figures  []prometheus.Collector
	finished chan struct{} // closed when the listener's goroutine has ended
}

// startAlerts reads the alert tables into memory.
func (n *Server) startAlerts(ctx context.Context) error {
	if !n.config.keepsAlerts() {
		return nil
	}
	users, err := openUsers(n.config.OmnibusUsers, n.logger)
	if err != nil {
		return err
	}
	o := n.config.alertOptions()
	o.Logger, o.Memory, o.MaxResultBytes = n.logger, n.memory, int(n.memory.Limit()/4)
	tables, err := alert.Open(ctx, n.log, o)
	if err != nil {
		return fmt.Errorf("open the alert tables: %w", err)
	}
	n.omnibus.tables, n.omnibus.users = tables, users
	return n.countAlerts(&automationFigures{tables})
}

// stopAlerts ends the automations and releases the memory.
func (n *Server) stopAlerts(context.Context) error {
	if n.omnibus.tables == nil {
		return nil
	}
	for _, c := range n.omnibus.figures {
		n.metrics.registry.Unregister(c)
	}
	return n.omnibus.tables.Close()
}

// showsAlerts returns nil if the alert tables answer queries and show all that the log
// holds.
func (n *Server) showsAlerts(ctx context.Context) error {
	tables := n.omnibus.tables
	if tables == nil {
		return nil
	}
	head, err := n.engine.Head(ctx)
	if err == nil {
		err = tables.Wait(ctx, head) // by way of the goroutine that writes
	}
	if err == nil {
		var rows *alert.Rows
		if rows, err = tables.Query(ctx, "select top 1 Identifier from alerts.status"); err == nil {
			err = rows.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("the alert tables do not answer: %w", err)
	}
	return nil
}

// startOmnibus begins to listen before it returns, so that a server that started can be
// reached.
func (n *Server) startOmnibus(ctx context.Context) error {
	c := &n.config
	if c.Omnibus == "" {
		return nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.Omnibus)
	if err != nil {
		return &mainstem.Error{
			Kind: mainstem.KindUnavailable, Op: "listen for OMNIbus clients on " + c.Omnibus, Err: err,
			Hint: "choose another address with --omnibus, or turn it off with --omnibus ''",
		}
	}
	p := &n.omnibus
	o := &omnibus.Options{Logger: n.logger, Memory: n.memory}
	if p.users != nil {
		o.Users = p.users
	}
	if p.handler, err = omnibus.New(p.tables, o); err == nil {
		err = n.countAlerts(p.handler.Collectors()...)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("start the OMNIbus server: %w", err), l.Close())
	}
	p.address, p.finished = l.Addr(), make(chan struct{})
	p.server = n.newServer(c.Omnibus, p.users != nil, p.handler)
	serve := func() error { return p.server.Serve(l) }
	if n.tls != nil {
		serve = func() error { return p.server.ServeTLS(l, "", "") }
	}
	go func() {
		defer close(p.finished)
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			n.fail(fmt.Errorf("omnibus listener: %w", err))
		}
	}()
	return nil
}

// stopOmnibus ends the feeds, stops listening, lets other requests end until ctx
// does, and cuts the rest.
func (n *Server) stopOmnibus(ctx context.Context) error {
	p := &n.omnibus
	if p.server == nil {
		return nil
	}
	ended := make(chan error, 1)
	go func() { ended <- p.handler.Close() }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	err = errors.Join(err, p.server.Shutdown(ctx))
	if err != nil {
		err = fmt.Errorf("requests were cut off: %w", errors.Join(err, p.server.Close()))
	}
	<-p.finished
	return err
}

// countAlerts lets Prometheus see collectors until the server stops.
func (n *Server) countAlerts(all ...prometheus.Collector) error {
	for _, c := range all {
		if err := n.metrics.registry.Register(c); err != nil {
			return fmt.Errorf("metrics of alerts: %w", err)
		}
		n.omnibus.figures = append(n.omnibus.figures, c)
	}
	return nil
}

// OmnibusAddr returns the address that the server listens on for clients of OMNIbus,
// nil before Start and if that is off.
func (n *Server) OmnibusAddr() net.Addr { return n.omnibus.address }

// Alerts returns the alert tables, nil before Start and if they are off. They belong
// to the server: do not close them.
func (n *Server) Alerts() *alert.Server { return n.omnibus.tables }

// alertOptions are how the alert tables are opened.
func (c *Config) alertOptions() *alert.Options {
	o := &alert.Options{Name: c.AlertServerName}
	if !c.AlertAutomations {
		o.Every = -1
	}
	return o
}

// keepsAlerts reports whether the server has alert tables: for those who read them, or for
// those who raise alerts.
func (c *Config) keepsAlerts() bool {
	return c.Omnibus != "" || c.AlertSyslog != "" || c.AlertWebhook != ""
}

// checkOmnibus refuses what cannot be served, and an address that others can reach
// unless it is protected.
func (c *Config) checkOmnibus() error {
	if c.AlertServerName != "" && !c.keepsAlerts() {
		return errors.New("alert-server-name is of no use without omnibus, alert-syslog or alert-webhook")
	}
	if c.OmnibusUsers != "" && c.Omnibus == "" && c.AlertWebhook == "" {
		return errors.New("omnibus-users is of no use without omnibus or alert-webhook")
	}
	if err := c.alertOptions().Validate(); err != nil {
		return fmt.Errorf("alert-server-name is %q: %w", c.AlertServerName, err)
	}
	if c.Omnibus == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.Omnibus); err != nil {
		return fmt.Errorf("omnibus is %q: want HOST:PORT, as in 127.0.0.1:8081, or nothing to turn it off", c.Omnibus)
	}
	var missing []string
	if c.OmnibusUsers == "" {
		missing = append(missing, "users with passwords (set omnibus-users, and make them with mainstem alerts user set)")
	}
	return c.CheckReach("omnibus", c.Omnibus, missing, "to let everyone on that network change the alerts")
}

// automationFigures are what the automations of the alert tables have done, at the
// time of the scrape.
type automationFigures struct{ tables *alert.Server }

var (
	automationRuns     = automationFigure("runs_total", "Times that an automation ran; of one on rows, the rows.")
	automationFailures = automationFigure("failures_total", "Runs of an automation that ended in an error.")
	automationRows     = automationFigure("rows_total", "Rows that an automation with an interval changed.")
	automationSeconds  = automationFigure("seconds_total", "Time that an automation with an interval has run.")
	automationEnabled  = automationFigure("enabled", "1 if an automation is enabled, else 0.")
)

func automationFigure(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("mainstem_alert_automation_"+name, help, []string{"name"}, nil)
}

// Describe implements prometheus.Collector.
func (f *automationFigures) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{automationRuns, automationFailures, automationRows, automationSeconds, automationEnabled} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (f *automationFigures) Collect(ch chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, v float64, name string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, name)
	}
	for _, a := range f.tables.Automations() {
		count(automationRuns, float64(a.Runs), a.Name)
		count(automationFailures, float64(a.Failures), a.Name)
		count(automationRows, float64(a.Rows), a.Name)
		count(automationSeconds, a.Total.Seconds(), a.Name)
		enabled := 0.0
		if a.Enabled {
			enabled = 1
		}
		ch <- prometheus.MustNewConstMetric(automationEnabled, prometheus.GaugeValue, enabled, a.Name)
	}
}
