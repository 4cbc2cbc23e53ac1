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

// Timeouts and sizes of the HTTP client of the Log.
const (
	dialTimeout  = 10 * time.Second
	pingAfter    = 15 * time.Second // without traffic on a connection with calls
	pingTimeout  = 15 * time.Second // for the answer to a ping, before the connection is closed
	idleTimeout  = 2 * time.Minute  // for a connection without calls
	learnTimeout = 5 * time.Second  // for an answer over HTTP/2, after sessions were refused
	streamBuffer = 1 << 20          // bytes read from the network for a slow follower
	frameSize    = 128 << 10
	idleHTTP1    = 64 // connections kept with HTTP/1.1
)

// doer makes HTTP requests. It adds the token. With its own transports it omits the additions of
// [http.Client]: redirects, cookies, timeouts.
type doer struct {
	token *atomic.Pointer[string]
	do    func(*http.Request) (*http.Response, error) // uses the client of the caller, or main
	main  *http.Transport                             // nil: the client of the caller is used
	// http1 replaces main, without TLS, if main gets no answer; with TLS the handshake selects
	// HTTP/2. Nil: there is no replacement.
	http1    *http.Transport
	useHTTP1 atomic.Bool
	proto    atomic.Pointer[string] // of the last answer, such as "HTTP/2.0"; nil: there was none
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

// newTransport returns a transport without protocols, which the caller must set.
func newTransport(o *Options, open *connections) *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         open.dial,
		TLSClientConfig:     o.TLS.Clone(),
		TLSHandshakeTimeout: dialTimeout,
		IdleConnTimeout:     idleTimeout,
		MaxIdleConnsPerHost: idleHTTP1,
		DisableCompression:  true, // the RPC layer compresses
		Protocols:           new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: pingAfter, PingTimeout: pingTimeout,
			MaxReceiveBufferPerStream: streamBuffer, MaxReadFrameSize: frameSize,
		},
	}
}

// Do makes one request. It may change the header of the request, which the RPC client does not
// use again.
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
		spoken := response.Proto // a copy, so that the response can be freed
		d.proto.Store(&spoken)
	}
	return plainly(response)
}

// learn determines whether requests get answers over HTTP/2, by a request that any server
// answers. If it gets no answer, later requests use HTTP/1.1. If no connection can be made,
// nothing changes.
func (d *doer) learn(r *http.Request) {
	if d.http1 == nil {
		return
	}
	response, err := d.main.RoundTrip(r)
	if err == nil {
		_ = response.Body.Close() // only the fact of an answer matters
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" {
		return
	}
	d.useHTTP1.Store(err != nil)
}

// spoken returns the protocol of the last answer, or "" if there was none.
func (d *doer) spoken() string {
	if p := d.proto.Load(); p != nil {
		return *p
	}
	return ""
}

// close closes all connections, except those of the client of the caller.
func (d *doer) close() {
	for _, t := range []*http.Transport{d.main, d.http1} {
		if t != nil {
			t.CloseIdleConnections()
		}
	}
	d.open.closeAll()
}

// connections are the connections of one transport, which itself closes only idle ones.
type connections struct {
	dialer net.Dialer
	mu     sync.Mutex
	closed bool
	open   map[*connection]struct{}
}

// connection is a network connection that is registered in connections until it is closed.
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
		_ = conn.Conn.Close() // no data is left to send
	}
}
