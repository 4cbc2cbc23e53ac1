package remotelog

import (
	"context"
	"net"
	"net/http"
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
	streamBuffer = 1 << 20          // bytes taken from the network for a follower that is slow
	frameSize    = 128 << 10
	idleHTTP1    = 64 // connections kept with HTTP/1.1
)

// doer makes HTTP requests. It adds the token, and with a transport of its own it
// leaves out what [http.Client] does on top: redirects, cookies, timeouts.
type doer struct {
	do    func(*http.Request) (*http.Response, error)
	token *atomic.Pointer[string]
}

// Do makes one request. The request is the RPC client's and not used by others, so
// its header may be changed.
func (d *doer) Do(r *http.Request) (*http.Response, error) {
	if token := *d.token.Load(); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return d.do(r)
}

// newDoer returns a doer for o that presents a token, and what closes its connections.
func newDoer(o *Options, token *atomic.Pointer[string]) (d *doer, close func()) {
	d = &doer{token: token}
	if o.HTTPClient != nil {
		d.do = o.HTTPClient.Do
		return d, func() {}
	}
	connections := &connections{open: map[*connection]struct{}{}}
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         connections.dial,
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
	if o.HTTP1 {
		t.Protocols.SetHTTP1(true)
	} else {
		t.Protocols.SetHTTP2(true)
		t.Protocols.SetUnencryptedHTTP2(true)
	}
	d.do = t.RoundTrip
	return d, func() {
		t.CloseIdleConnections()
		connections.closeAll()
	}
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
