package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/ingest"
	"github.com/mainstemdev/mainstem/alert/omnibus"
	"github.com/mainstemdev/mainstem/internal/readfile"
	"github.com/mainstemdev/mainstem/wire/rpc"
)

// ingestPart is what makes alerts of what other systems send.
type ingestPart struct {
	syslog  *ingest.SyslogReceiver // nil if there is none
	webhook *ingest.Webhook        // the same
	server  *http.Server           // of the webhook
	sinks   []*ingest.ServerSink
	figures []prometheus.Collector

	syslogAt, webhookAt net.Addr
	listening           sync.WaitGroup
}

// startIngest begins to listen before it returns. It comes after all those who read
// alerts, and so it stops before them: they see the last that came in.
func (n *Server) startIngest(ctx context.Context) error {
	c := &n.config
	if c.AlertSyslog == "" && c.AlertWebhook == "" {
		return nil
	}
	mappings, err := n.loadMappings()
	if err == nil && c.AlertSyslog != "" {
		err = n.startSyslog(ctx, mappings.For(ingest.Syslog))
	}
	if err == nil && c.AlertWebhook != "" {
		err = n.startWebhook(ctx, mappings.For(ingest.Alertmanager))
	}
	if err != nil {
		return errors.Join(err, n.stopIngest(ctx))
	}
	return nil
}

// loadMappings reads the mapping file, for the columns that the tables have now.
func (n *Server) loadMappings() (*ingest.Mappings, error) {
	o := &ingest.MappingOptions{Columns: ingest.ServerColumns(n.omnibus.tables)}
	if n.config.AlertMapping == "" {
		return ingest.DefaultMappings(o)
	}
	m, err := ingest.LoadMappings(n.config.AlertMapping, o)
	if err != nil {
		return nil, &FileError{"alert-mapping", err}
	}
	return m, nil
}

// sink returns where a receiver writes to.
func (n *Server) sink(s ingest.Source) ingest.Sink {
	sink := ingest.OpenServer(n.omnibus.tables, string(s))
	n.ingest.sinks = append(n.ingest.sinks, sink)
	return sink
}

// startSyslog listens for syslog messages.
func (n *Server) startSyslog(ctx context.Context, m *ingest.Mapping) error {
	p, c := &n.ingest, &n.config
	var o ingest.SyslogOptions
	o.Mapping, o.Logger = m, n.logger
	secure, err := n.syslogTLS()
	if err != nil {
		return err
	}
	stream, packets, err := listenSyslog(ctx, c.AlertSyslog, secure == nil)
	if err != nil {
		e := &mainstem.Error{
			Kind: mainstem.KindUnavailable, Op: "listen for syslog on " + c.AlertSyslog, Err: err,
			Hint: "choose another address with --alert-syslog, or turn it off with --alert-syslog ''",
		}
		if errors.Is(err, syscall.EACCES) {
			e.Hint = "ports below 1024, as 514 of syslog, are for privileged programs: take another, such as 1514, to which senders or a relay send"
		}
		return e
	}
	if p.syslog, err = ingest.OpenSyslog(n.sink(ingest.Syslog), &o); err != nil {
		err = errors.Join(err, stream.Close())
		if packets != nil {
			err = errors.Join(err, packets.Close())
		}
		return err
	}
	p.syslogAt = stream.Addr()
	if secure != nil {
		stream = &syslogListener{stream, secure, n.stopping}
	}
	n.listen("syslog over TCP", func() error { return p.syslog.ServeTCP(stream) })
	if packets != nil {
		n.listen("syslog over UDP", func() error { return p.syslog.ServeUDP(packets) })
	}
	return n.countIngest(&ingestFigures{ingest.Syslog, p.syslog.Counters})
}

// listen runs serve until it returns. An error ends the server.
func (n *Server) listen(name string, serve func() error) {
	n.ingest.listening.Go(func() {
		if err := serve(); err != nil && !errors.Is(err, http.ErrServerClosed) {
			n.fail(fmt.Errorf("%s: %w", name, err))
		}
	})
}

// listenAttempts is how many ports that the system chose for TCP are tried with UDP.
const listenAttempts = 20

// listenSyslog listens by TCP and, if asked, on the same port by UDP.
func listenSyslog(ctx context.Context, address string, both bool) (net.Listener, net.PacketConn, error) {
	var lc net.ListenConfig
	var err error
	for range listenAttempts {
		var l net.Listener
		if l, err = lc.Listen(ctx, "tcp", address); err != nil || !both {
			return l, nil, err
		}
		var packets net.PacketConn
		if packets, err = lc.ListenPacket(ctx, "udp", l.Addr().String()); err == nil {
			return l, packets, nil
		}
		_ = l.Close()
		if _, port, _ := net.SplitHostPort(address); port != "0" {
			break
		}
	}
	return nil, nil, err
}

// syslogTLS returns how syslog comes by TLS (RFC 5425), nil if it does not.
func (n *Server) syslogTLS() (*tls.Config, error) {
	file := n.config.AlertSyslogCA
	if file == "" {
		return nil, nil
	}
	pem, err := readfile.All(file, readfile.Text)
	if err != nil {
		return nil, &FileError{"alert-syslog-ca", &mainstem.Error{Kind: mainstem.KindInvalid, Op: "syslog", Err: err}}
	}
	c := n.tls.Clone()
	c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, &FileError{"alert-syslog-ca", &mainstem.Error{Kind: mainstem.KindInvalid, Op: "syslog", Err: fmt.Errorf("%s holds no PEM certificate", file)}}
	}
	return c, nil
}

// syslogListener accepts connections with TLS.
type syslogListener struct {
	net.Listener
	config   *tls.Config
	stopping context.Context // ends what has not yet begun
}

// Accept returns a connection that has yet to show its certificate.
func (l *syslogListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &syslogConn{Conn: tls.Server(conn, l.config), stopping: l.stopping}, nil
}

// syslogConn bounds the time for a certificate: a connection may be idle for as long as
// its sender has nothing to say, but not before it has said who it is.
type syslogConn struct {
	*tls.Conn
	stopping context.Context
	known    bool
}

// Read implements net.Conn.
func (c *syslogConn) Read(p []byte) (int, error) {
	if !c.known {
		ctx, cancel := context.WithTimeout(c.stopping, headerTimeout)
		defer cancel()
		if err := c.HandshakeContext(ctx); err != nil {
			return 0, err
		}
		c.known = true
	}
	return c.Conn.Read(p)
}

// startWebhook listens for alerts of Prometheus.
func (n *Server) startWebhook(ctx context.Context, m *ingest.Mapping) error {
	p, c := &n.ingest, &n.config
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.AlertWebhook)
	if err != nil {
		return &mainstem.Error{
			Kind: mainstem.KindUnavailable, Op: "listen for alerts of Prometheus on " + c.AlertWebhook, Err: err,
			Hint: "choose another address with --alert-webhook, or turn it off with --alert-webhook ''",
		}
	}
	var o ingest.WebhookOptions
	o.Mapping, o.Logger, o.Memory = m, n.logger, n.memory
	if p.webhook, err = ingest.OpenWebhook(n.sink(ingest.Alertmanager), &o); err != nil {
		return errors.Join(err, l.Close())
	}
	p.webhookAt = l.Addr()
	p.server = n.newServer(c.AlertWebhook, n.asksWhoPosts(), n.mayPost(p.webhook))
	p.server.ReadTimeout = cmp.Or(c.BodyTimeout, rpc.DefaultBodyTimeout)
	serve := func() error { return p.server.Serve(l) }
	if n.tls != nil {
		serve = func() error { return p.server.ServeTLS(l, "", "") }
	}
	n.listen("alerts of Prometheus", serve)
	return n.countIngest(&ingestFigures{ingest.Alertmanager, p.webhook.Counters})
}

func (n *Server) asksWhoPosts() bool { return n.token != "" || n.omnibus.users != nil }

// mayPost lets requests through that carry the token, or the name and password of a user
// who may write. Without token and users it takes all.
func (n *Server) mayPost(next http.Handler) http.Handler {
	if !n.asksWhoPosts() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.carriesToken(r) {
			next.ServeHTTP(w, r)
			return
		}
		name, password, ok := r.BasicAuth()
		if !ok || n.omnibus.users == nil {
			unauthorized(w)
			return
		}
		id, err := n.omnibus.users.Authenticate(r.Context(), name, password)
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

// stopIngest stops listening and writes what was received, as long as ctx lasts.
func (n *Server) stopIngest(ctx context.Context) error {
	p := &n.ingest
	var errs []error
	if p.syslog != nil {
		errs = append(errs, p.syslog.Close(ctx))
	}
	if p.server != nil {
		if err := p.server.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("requests were cut off: %w", errors.Join(err, p.server.Close())))
		}
	}
	if p.webhook != nil {
		errs = append(errs, p.webhook.Close(ctx))
	}
	p.listening.Wait()
	for _, s := range p.sinks {
		errs = append(errs, s.Close())
	}
	for _, f := range p.figures {
		n.metrics.registry.Unregister(f)
	}
	p.syslog, p.server, p.webhook, p.sinks, p.figures = nil, nil, nil, nil, nil
	return errors.Join(errs...)
}

// SyslogAddr returns the address that the server listens on for syslog, nil before Start
// and if that is off. It is that of TCP; UDP has the same port.
func (n *Server) SyslogAddr() net.Addr { return n.ingest.syslogAt }

// WebhookAddr returns the address that the server listens on for alerts of Prometheus, nil
// before Start and if that is off.
func (n *Server) WebhookAddr() net.Addr { return n.ingest.webhookAt }

// checkIngest refuses what cannot be served, and addresses that others can reach unless
// they are protected.
func (c *Config) checkIngest() error {
	if c.AlertMapping != "" && c.AlertSyslog == "" && c.AlertWebhook == "" {
		return errors.New("alert-mapping is of no use without alert-syslog or alert-webhook")
	}
	return errors.Join(c.checkSyslog(), c.checkWebhook())
}

func (c *Config) checkSyslog() error {
	if c.AlertSyslog == "" {
		if c.AlertSyslogCA != "" {
			return errors.New("alert-syslog-ca is of no use without alert-syslog")
		}
		return nil
	}
	if _, _, err := net.SplitHostPort(c.AlertSyslog); err != nil {
		return fmt.Errorf("alert-syslog is %q: want HOST:PORT, as in 127.0.0.1:1514, or nothing to turn it off", c.AlertSyslog)
	}
	if c.AlertSyslogCA != "" && c.TLSCert == "" {
		return errors.New("alert-syslog-ca needs a certificate of the server: set tls-cert and tls-key")
	}
	if c.AlertSyslogCA != "" || c.Insecure || !Reachable(c.AlertSyslog) {
		return nil
	}
	return fmt.Errorf("alert-syslog is %q, which other machines can reach, and syslog knows neither passwords nor secrecy; "+
		"set alert-syslog-ca to take it by TLS from senders with certificates, listen on 127.0.0.1 for a relay, or set insecure to take alerts from everyone on that network", c.AlertSyslog)
}

func (c *Config) checkWebhook() error {
	if c.AlertWebhook == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.AlertWebhook); err != nil {
		return fmt.Errorf("alert-webhook is %q: want HOST:PORT, as in 127.0.0.1:9099, or nothing to turn it off", c.AlertWebhook)
	}
	var missing []string
	if c.Token == "" && c.TokenFile == "" && c.OmnibusUsers == "" {
		missing = append(missing, "a token or users with passwords (set token-file or omnibus-users)")
	}
	return c.CheckReach("alert-webhook", c.AlertWebhook, missing, "to take alerts from everyone on that network")
}
