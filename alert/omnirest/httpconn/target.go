package httpconn

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/redact"
)

// Target is a server. It is read-only and may be shared.
type Target struct {
	addr string // host:port
	host string // of the header
	base string // path, without a slash at its end
	tls  *tls.Config
}

// ParseTarget returns the target that baseURL names: http:// or https://, a host, a
// port, and the path below which everything is. config is for https://; nil means the
// system's authorities.
func ParseTarget(baseURL string, config *tls.Config) (*Target, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "http", "%q is no URL: %w", redact.Address(baseURL), redact.Error(err, baseURL))
	}
	if u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "http", "%q: want http://host:port/path or https://host:port/path, and nothing else", redact.Address(baseURL))
	}
	t := &Target{host: u.Host, base: strings.TrimRight(u.EscapedPath(), "/")}
	port := "80"
	switch u.Scheme {
	case "http":
	case "https":
		port = "443"
		if config == nil {
			config = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		t.tls = config.Clone()
		t.tls.NextProtos = []string{"http/1.1"}
		if t.tls.ServerName == "" {
			t.tls.ServerName = u.Hostname()
		}
	default:
		return nil, mainstem.Refusef(mainstem.KindInvalid, "http", "%q: the scheme is neither http nor https", baseURL)
	}
	if u.Port() != "" {
		port = u.Port()
	}
	t.addr = net.JoinHostPort(u.Hostname(), port)
	return t, nil
}

// String returns the URL of the target.
func (t *Target) String() string {
	if t.tls != nil {
		return "https://" + t.host + t.base
	}
	return "http://" + t.host + t.base
}

// Dial connects, with TLS if the target has it.
func (t *Target) Dial(ctx context.Context) (*Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", t.addr)
	if err != nil {
		return nil, failure(ctx, mainstem.NotWritten, err)
	}
	raw := nc
	if t.tls != nil {
		c := tls.Client(nc, t.tls)
		if err := c.HandshakeContext(ctx); err != nil {
			_ = nc.Close()
			return nil, failure(ctx, mainstem.NotWritten, err)
		}
		nc = c
	}
	return &Conn{target: t, nc: nc, raw: raw, br: bufio.NewReaderSize(nc, readBuffer)}, nil
}

// failure is an error of the network, or of ctx if it is done.
func failure(ctx context.Context, o mainstem.Outcome, err error) error {
	if ctx.Err() != nil {
		e := mainstem.Ended(ctx, "http", time.Time{}, "the server's answer")
		e.Outcome = o
		return e
	}
	return &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "http", Outcome: o, Err: err}
}
