package httpconn

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
)

// The defaults of [PoolOptions].
const (
	DefaultMaxConns    = 64
	DefaultIdleTimeout = time.Minute
)

// PoolOptions configures [NewPool]. Nil and zero fields mean the defaults.
type PoolOptions struct {
	MaxConns    int           // at the same time; requests beyond wait. Default [DefaultMaxConns]
	IdleTimeout time.Duration // how long a connection may be unused. Default [DefaultIdleTimeout]
}

// Pool does requests of one target on connections that it keeps. It may be used by
// many goroutines. All of its requests must be of one credential if the server
// authenticates connections.
type Pool struct {
	target  *Target
	timeout time.Duration
	slots   chan struct{}

	mu struct {
		sync.Mutex
		idle   []idleConn // the newest last
		closed bool
	}
}

type idleConn struct {
	c     *Conn
	since time.Time
}

// NewPool returns a pool without connections.
func NewPool(t *Target, o *PoolOptions) *Pool {
	var opts PoolOptions
	if o != nil {
		opts = *o
	}
	if opts.MaxConns <= 0 {
		opts.MaxConns = DefaultMaxConns
	}
	if opts.IdleTimeout <= 0 {
		opts.IdleTimeout = DefaultIdleTimeout
	}
	return &Pool{target: t, timeout: opts.IdleTimeout, slots: make(chan struct{}, opts.MaxConns)}
}

// Do sends a request on a connection of its own and returns the head of the answer,
// which must be closed. It waits for a connection until ctx ends. A request that
// certainly was not sent because a kept connection was dead is sent on a new one.
func (p *Pool) Do(ctx context.Context, r *Request) (*Response, error) {
	select {
	case p.slots <- struct{}{}:
	default:
		select {
		case p.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, failure(ctx, mainstem.NotWritten, ctx.Err())
		}
	}
	resp, err := p.do(ctx, r)
	if err != nil {
		<-p.slots
		return nil, err
	}
	resp.pool = p
	return resp, nil
}

func (p *Pool) do(ctx context.Context, r *Request) (*Response, error) {
	for {
		c, kept, err := p.conn(ctx)
		if err != nil {
			return nil, err
		}
		resp, err := c.Do(ctx, r)
		if err == nil {
			return resp, nil
		}
		_ = c.Close()
		if !kept || ctx.Err() != nil || !notSent(err) {
			return nil, err
		}
	}
}

// conn returns the connection that was used last, or a new one.
func (p *Pool) conn(ctx context.Context) (c *Conn, kept bool, err error) {
	for {
		p.mu.Lock()
		if p.mu.closed {
			p.mu.Unlock()
			return nil, false, &mainstem.Error{Kind: mainstem.KindClosed, Op: "http", Outcome: mainstem.NotWritten, Err: net.ErrClosed}
		}
		n := len(p.mu.idle)
		if n == 0 {
			p.mu.Unlock()
			c, err := p.target.Dial(ctx)
			return c, false, err
		}
		last := p.mu.idle[n-1]
		p.mu.idle = p.mu.idle[:n-1]
		p.mu.Unlock()
		if time.Since(last.since) < p.timeout && last.c.Alive() {
			return last.c, true, nil
		}
		_ = last.c.Close()
	}
}

// put takes back the connection of a request that is done.
func (p *Pool) put(c *Conn) {
	now := time.Now()
	var old []idleConn
	p.mu.Lock()
	if p.mu.closed || c.broken.Load() {
		old = append(old, idleConn{c: c})
	} else {
		for len(p.mu.idle) > 0 && now.Sub(p.mu.idle[0].since) >= p.timeout {
			old = append(old, p.mu.idle[0])
			p.mu.idle = p.mu.idle[1:]
		}
		p.mu.idle = append(p.mu.idle, idleConn{c, now})
	}
	p.mu.Unlock()
	for _, i := range old {
		_ = i.c.Close()
	}
	<-p.slots
}

// Close closes the connections that are not in use; those in use are closed when
// their answers are. Later requests fail with Closed. Closing twice is allowed.
func (p *Pool) Close() error {
	p.mu.Lock()
	idle := p.mu.idle
	p.mu.idle, p.mu.closed = nil, true
	p.mu.Unlock()
	for _, i := range idle {
		_ = i.c.Close()
	}
	return nil
}

// notSent reports whether a request certainly did not reach the server as a whole.
func notSent(err error) bool {
	e, ok := err.(*mainstem.Error)
	return ok && e.Outcome == mainstem.NotWritten && e.Kind == mainstem.KindUnavailable
}
