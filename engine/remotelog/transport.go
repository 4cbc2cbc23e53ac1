package remotelog

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Times and sizes of the Log's own HTTP client.
const (
	dialTimeout  = 10 * time.Second
	pingAfter    = 15 * time.Second // of silence on a connection with calls
	pingTimeout  = 15 * time.Second // for the answer, before the connection is dead
	idleTimeout  = 2 * time.Minute  // for a connection without calls
	learnTimeout = 5 * time.Second  // for an answer over HTTP/2, where sessions are refused
	streamBuffer = 1 << 20          // bytes taken from the network for a follower that is slow
	frameSize    = 128 << 10
	idleHTTP1    = 64 // connections kept with HTTP/1.1
)

// doer makes HTTP requests. It adds the token, and with transports of its own it
// leaves out what [http.Client] does on top: redirects, cookies, timeouts.
type doer struct {
	token *atomic.Pointer[string]
	do    func(*http.Request) (*http.Response, error) // of the caller's client, or of main
	main  *http.Transport                             // nil: the caller's client is used
	// http1 is used in place of main where that gets no answer, without TLS, of which HTTP/2
	// is a part of the handshake. Nil: main must do.
	http1    *http.Transport
	useHTTP1 atomic.Bool
	proto    atomic.Pointer[string] // of the last answer, as "HTTP/2.0"; nil: there was none
	open     *connections
}

// newDoer returns a doer for a server at u that presents a token.
func newDoer(u *url.URL, o *Options, token *atomic.Pointer[string]) *doer {
	d := &doer{token: token, open: &connections{open: map[*connection]struct{}{}}}
	if o.HTTPClient != nil {
		d.do = o.HTTPClient.Do
		return d
	}
	d.main = newTransport(o, d.open)
	d.do = d.main.RoundTrip
	switch p := d.main.Protocols; {
	case o.HTTP1:
		p.SetHTTP1(true)
	case u.Scheme == "https":
		p.SetHTTP2(true)
		p.SetHTTP1(o.Protocol != GRPC)
	default:
		p.SetUnencryptedHTTP2(true)
		if o.Transport == Auto && !o.onlyRPC() {
			d.http1 = newTransport(o, d.open)
			d.http1.Protocols.SetHTTP1(true)
		}
	}
	return d
}

// newTransport returns a transport without protocols.
func newTransport(o *Options, open *connections) *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         open.dial,
		TLSClientConfig:     o.TLS.Clone(),
		TLSHandshakeTimeout: dialTimeout,
		IdleConnTimeout:     idleTimeout,
		MaxIdleConnsPerHost: idleHTTP1,
		DisableCompression:  true, // the RPC layer has its own
		Protocols:           new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: pingAfter, PingTimeout: pingTimeout,
			MaxReceiveBufferPerStream: streamBuffer, MaxReadFrameSize: frameSize,
		},
	}
}

// Do makes one request. The request is the RPC client's and not used by others, so
// its header may be changed.
func (d *doer) Do(r *http.Request) (*http.Response, error) {
	if token := *d.token.Load(); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	do := d.do
	if d.useHTTP1.Load() {
		do = d.http1.RoundTrip
	}
	response, err := do(r)
	if err != nil {
		return nil, err
	}
	if p := d.proto.Load(); p == nil || *p != response.Proto {
		spoken := response.Proto // and not the whole response
		d.proto.Store(&spoken)
	}
	return plainly(response)
}

// learn finds out whether requests get answers over HTTP/2, by one that any server answers
// somehow. Those that get none are made over HTTP/1.1 from then on. Where nobody can be
// reached, nothing is learnt.
func (d *doer) learn(r *http.Request) {
	if d.http1 == nil {
		return
	}
	response, err := d.main.RoundTrip(r)
	if err == nil {
		_ = response.Body.Close() // its content says nothing
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" {
		return
	}
	d.useHTTP1.Store(err != nil)
}

// spoken returns the protocol of the last answer, empty if there was none.
func (d *doer) spoken() string {
	if p := d.proto.Load(); p != nil {
		return *p
	}
	return ""
}

// close closes all connections but those of the caller's client.
func (d *doer) close() {
	for _, t := range []*http.Transport{d.main, d.http1} {
		if t != nil {
			t.CloseIdleConnections()
		}
	}
	d.open.closeAll()
}

// connections are those of one transport, which closes only idle ones itself.
type connections struct {
	dialer net.Dialer
	mu     sync.Mutex
	closed bool
	open   map[*connection]struct{}
}

// connection is a network connection that is known to its connections.
type connection struct {
	net.Conn
	all *connections
}

func (c *connections) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := c.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = conn.Close() // unused
		return nil, net.ErrClosed
	}
	tracked := &connection{conn, c}
	c.open[tracked] = struct{}{}
	return tracked, nil
}

// Close closes the connection.
func (c *connection) Close() error {
	c.all.mu.Lock()
	delete(c.all.open, c)
	c.all.mu.Unlock()
	return c.Conn.Close()
}

func (c *connections) closeAll() {
	c.mu.Lock()
	open := c.open
	c.closed, c.open = true, map[*connection]struct{}{}
	c.mu.Unlock()
	for conn := range open {
		_ = conn.Conn.Close() // nothing is left to send
	}
}
