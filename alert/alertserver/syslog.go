package alertserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/ingest"
	"github.com/mainstemdev/mainstem/internal/readfile"
	"github.com/mainstemdev/mainstem/server"
)

// certificateTimeout is how long a sender of syslog may take to show its certificate.
const certificateTimeout = 10 * time.Second

// startSyslog listens for syslog messages.
func (p *ingestListeners) startSyslog(ctx context.Context, h *server.Host, m *ingest.Mapping) error {
	address := p.alerts.Config.Syslog
	var o ingest.SyslogOptions
	o.Mapping, o.Logger = m, h.Logger
	secure, err := p.syslogTLS(h.TLS)
	if err != nil {
		return err
	}
	stream, packets, err := listenSyslog(ctx, address, secure == nil)
	if err != nil {
		e := &mainstem.Error{
			Kind: mainstem.KindUnavailable, Op: "listen for syslog on " + address, Err: err,
			Hint: "choose another address with --alert-syslog, or turn it off with --alert-syslog ''",
		}
		if errors.Is(err, syscall.EACCES) {
			e.Hint = "ports below 1024, as 514 of syslog, are for privileged programs: take another, such as 1514, to which senders or a relay send"
		}
		return e
	}
	if p.syslog, err = ingest.OpenSyslog(p.sink(ingest.Syslog), &o); err != nil {
		err = errors.Join(err, stream.Close())
		if packets != nil {
			err = errors.Join(err, packets.Close())
		}
		return err
	}
	p.syslogAt = stream.Addr()
	if secure != nil {
		stream = &syslogListener{stream, secure, p.stopping}
	}
	p.listen("syslog over TCP", func() error { return p.syslog.ServeTCP(stream) })
	if packets != nil {
		p.listen("syslog over UDP", func() error { return p.syslog.ServeUDP(packets) })
	}
	if server.Reachable(address) && secure == nil {
		h.Logger.Warn("other machines can raise alerts by syslog, which has no authentication", "alert-syslog", address)
	}
	h.Metrics.MustRegister(ingestCounters{ingest.Syslog, p.syslog.Counters})
	return nil
}

// listen runs serve until it returns. An error ends the server.
func (p *ingestListeners) listen(name string, serve func() error) {
	p.listening.Go(func() {
		// A server that is stopped at once may close the receiver before it is given the socket.
		if err := serve(); err != nil && !errors.Is(err, mainstem.ErrClosed) {
			p.alerts.host.Failed(fmt.Errorf("%s: %w", name, err))
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
func (p *ingestListeners) syslogTLS(own *tls.Config) (*tls.Config, error) {
	file := p.alerts.Config.SyslogCA
	if file == "" {
		return nil, nil
	}
	pem, err := readfile.All(file, readfile.Text)
	if err != nil {
		return nil, &server.FileError{Setting: "alert-syslog-ca", Err: &mainstem.Error{Kind: mainstem.KindInvalid, Op: "syslog", Err: err}}
	}
	c := own.Clone()
	c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, &server.FileError{Setting: "alert-syslog-ca", Err: mainstem.Errorf(mainstem.KindInvalid, "syslog", "%s holds no PEM certificate", file)}
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
		ctx, cancel := context.WithTimeout(c.stopping, certificateTimeout)
		defer cancel()
		if err := c.HandshakeContext(ctx); err != nil {
			return 0, err
		}
		c.known = true
	}
	return c.Conn.Read(p)
}
