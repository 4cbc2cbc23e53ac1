package alertserver

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/ingest"
	"github.com/mainstemdev/mainstem/alert/omnibus"
	"github.com/mainstemdev/mainstem/server"
)

// ingestListeners are the ways in, a component: they make alerts of what other systems send.
type ingestListeners struct {
	alerts  *Alerts
	syslog  *ingest.SyslogReceiver // nil if there is none
	webhook *ingest.Webhook        // the same
	server  *server.HTTPListener   // of the webhook
	sinks   []*ingest.ServerSink

	syslogAt, webhookAt net.Addr
	listening           sync.WaitGroup     // the goroutines that listen for syslog
	stopping            context.Context    // done when Stop begins
	stop                context.CancelFunc // ends stopping
}

// Name implements [server.Component].
func (p *ingestListeners) Name() string { return "ingest" }

// Intake implements [server.Intake].
func (p *ingestListeners) Intake() {}

// Start begins to listen before it returns.
func (p *ingestListeners) Start(ctx context.Context, h *server.Host) error {
	c := &p.alerts.Config
	if c.Syslog == "" && c.Webhook == "" {
		return nil
	}
	p.stopping, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	mappings, err := p.loadMappings()
	if err == nil && c.Syslog != "" {
		err = p.startSyslog(ctx, h, mappings.For(ingest.Syslog))
	}
	if err == nil && c.Webhook != "" {
		err = p.startWebhook(ctx, h, mappings.For(ingest.Alertmanager))
	}
	if err != nil {
		return errors.Join(err, p.Stop(ctx))
	}
	return nil
}

// loadMappings reads the mapping file, for the columns that the tables have now.
func (p *ingestListeners) loadMappings() (*ingest.Mappings, error) {
	o := &ingest.MappingOptions{Columns: ingest.ServerColumns(p.alerts.tables)}
	if p.alerts.Config.Mapping == "" {
		return ingest.DefaultMappings(o)
	}
	m, err := ingest.LoadMappings(p.alerts.Config.Mapping, o)
	if err != nil {
		return nil, &server.FileError{Setting: "alert-mapping", Err: err}
	}
	return m, nil
}

// sink returns where a receiver writes to.
func (p *ingestListeners) sink(s ingest.Source) ingest.Sink {
	sink := ingest.OpenServer(p.alerts.tables, string(s))
	p.sinks = append(p.sinks, sink)
	return sink
}

// startWebhook listens for alerts of Prometheus.
func (p *ingestListeners) startWebhook(ctx context.Context, h *server.Host, m *ingest.Mapping) error {
	address := p.alerts.Config.Webhook
	l, err := server.Listen(ctx, address, "listen for alerts of Prometheus", "choose another address with --alert-webhook, or turn it off with --alert-webhook ''")
	if err != nil {
		return err
	}
	var o ingest.WebhookOptions
	o.Mapping, o.Logger, o.Memory = m, h.Logger, h.Memory
	if p.webhook, err = ingest.OpenWebhook(p.sink(ingest.Alertmanager), &o); err != nil {
		return errors.Join(err, l.Close())
	}
	p.webhookAt = l.Addr()
	authenticated := h.Token != "" || p.alerts.users != nil
	var handler http.Handler = p.webhook
	if authenticated {
		handler = p.mayPost(handler)
	}
	p.server = h.Serve(l, server.HTTPServer{
		Name: "alerts of Prometheus", Address: address, Authenticated: authenticated, Handler: handler, ReadTimeout: h.BodyTimeout,
	})
	if server.Reachable(address) && (h.TLS == nil || !authenticated) {
		h.Logger.Warn("other machines can raise alerts without TLS or without authentication", "alert-webhook", address)
	}
	h.Metrics.MustRegister(ingestCounters{ingest.Alertmanager, p.webhook.Counters})
	return nil
}

// mayPost lets requests through that carry the token, or the name and password of a user
// who may write.
func (p *ingestListeners) mayPost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.alerts.host.CarriesToken(r) {
			next.ServeHTTP(w, r)
			return
		}
		name, password, ok := r.BasicAuth()
		if !ok || p.alerts.users == nil {
			unauthorized(w)
			return
		}
		id, err := p.alerts.users.Authenticate(r.Context(), name, password)
		switch {
		case errors.Is(err, mainstem.ErrDenied):
			unauthorized(w)
		case err != nil:
			http.Error(w, "the password cannot be checked now", http.StatusServiceUnavailable)
		case id.Role < omnibus.Writer:
			http.Error(w, "the user may only read: want the role writer", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func unauthorized(w http.ResponseWriter) {
	w.Header().Add("WWW-Authenticate", `Basic realm="mainstem", charset="UTF-8"`)
	w.Header().Add("WWW-Authenticate", `Bearer realm="mainstem"`)
	http.Error(w, "want the token of the server, or the name and password of one of its users of alerts", http.StatusUnauthorized)
}

// Stop stops listening and writes what was received, as long as ctx lasts.
func (p *ingestListeners) Stop(ctx context.Context) error {
	if p.stop == nil {
		return nil
	}
	p.stop()
	var errs []error
	if p.syslog != nil {
		errs = append(errs, p.syslog.Close(ctx))
	}
	if p.server != nil {
		errs = append(errs, p.server.Stop(ctx))
	}
	if p.webhook != nil {
		errs = append(errs, p.webhook.Close(ctx))
	}
	p.listening.Wait()
	for _, s := range p.sinks {
		errs = append(errs, s.Close())
	}
	p.syslog, p.server, p.webhook, p.sinks, p.stop = nil, nil, nil, nil, nil
	return errors.Join(errs...)
}
