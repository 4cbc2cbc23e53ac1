package coordinator

import (
	"context"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
)

// pooled is a connection of a pool.
type pooled struct {
	conn   Conn
	key    credentialKey
	server int // of the cluster
	born   time.Time
	idle   time.Time // since when
	aborts bool      // closed while in use; guarded by the pool
}

// pool holds the connections of one cluster. A connection is only ever given to a
// request with the very credential that it was made with.
//
// Invariant: len(idle) + len(busy) + connecting + closing <= max, so that a server never
// sees more connections than that.
type pool struct {
	max      int
	keepIdle time.Duration
	lifetime time.Duration
	connect  func(ctx context.Context, c Credential) (Conn, int, error)

	mu struct {
		sync.Mutex
		idle       []*pooled // the longest unused first
		busy       map[*pooled]struct{}
		connecting int
		closing    int
		waiting    []*waiter // the longest waiting first
		current    int       // the server that connections should be to
		closed     bool
	}
}

// waiter is a request that waits for a connection or the right to make one.
type waiter struct {
	key   credentialKey
	ready chan *pooled // nil: make one
}

func newPool(o *OMNIConfig, connect func(context.Context, Credential) (Conn, int, error)) *pool {
	p := &pool{max: o.MaxConnections, keepIdle: o.ConnectionIdle, lifetime: o.ConnectionLifetime, connect: connect}
	p.mu.busy = map[*pooled]struct{}{}
	return p
}

// acquire returns a connection for a credential: one that is idle, a new one, or what
// comes while it waits, until wait is over.
func (p *pool) acquire(ctx context.Context, key credentialKey, c Credential, wait time.Duration) (*pooled, error) {
	var stale []*pooled
	p.mu.Lock()
	if p.mu.closed {
		p.mu.Unlock()
		return nil, mainstem.Refusef(mainstem.KindClosed, "coordinator", "the coordinator is closed")
	}
	got, stale := p.takeLocked(key, stale)
	var w *waiter
	switch {
	case got != nil:
		p.mu.busy[got] = struct{}{}
	case len(p.mu.waiting) == 0 && p.openLocked() < p.max:
		p.mu.connecting++
	default:
		// One place for each that waits: an idle connection of others, the one unused for longest,
		// makes room, unless one of its own just did.
		if len(stale) == 0 && len(p.mu.idle) > 0 {
			stale = append(stale, p.mu.idle[0])
			p.mu.idle = p.mu.idle[1:]
		}
		w = &waiter{key: key, ready: make(chan *pooled, 1)}
		p.mu.waiting = append(p.mu.waiting, w)
	}
	p.mu.closing += len(stale)
	p.mu.Unlock()
	p.discard(stale)
	if w != nil {
		var err error
		if got, err = p.wait(ctx, w, wait); err != nil {
			return nil, err
		}
	}
	if got != nil {
		return got, nil
	}
	return p.make(ctx, key, c)
}

// takeLocked takes the newest usable idle connection of a credential. What it finds
// unusable it appends to stale.
func (p *pool) takeLocked(key credentialKey, stale []*pooled) (*pooled, []*pooled) {
	now := time.Now()
	for i := len(p.mu.idle) - 1; i >= 0; i-- {
		c := p.mu.idle[i]
		if c.key != key {
			continue
		}
		p.mu.idle = append(p.mu.idle[:i], p.mu.idle[i+1:]...)
		if p.usableLocked(c, now) && c.conn.Alive() {
			return c, stale
		}
		stale = append(stale, c)
	}
	return nil, stale
}

func (p *pool) usableLocked(c *pooled, now time.Time) bool {
	return c.server == p.mu.current && now.Sub(c.idle) < p.keepIdle && now.Sub(c.born) < p.lifetime && !c.aborts
}

func (p *pool) openLocked() int {
	return len(p.mu.idle) + len(p.mu.busy) + p.mu.connecting + p.mu.closing
}

// wait waits until somebody gives w a connection, or the right to make one.
func (p *pool) wait(ctx context.Context, w *waiter, most time.Duration) (*pooled, error) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	var err error
	select {
	case got := <-w.ready:
		return got, nil
	case <-timer.C:
		err = mainstem.Refusef(mainstem.KindUnavailable, "coordinator", "all %d connections are in use, and none became free in %v: raise omnibus.max_connections", p.max, most)
	case <-ctx.Done():
		err = canceled(ctx)
	}
	p.mu.Lock()
	for i, o := range p.mu.waiting {
		if o == w {
			p.mu.waiting = append(p.mu.waiting[:i], p.mu.waiting[i+1:]...)
			p.mu.Unlock()
			return nil, err
		}
	}
	p.mu.Unlock()
	got := <-w.ready // it was given something meanwhile
	switch {
	case ctx.Err() == nil:
		return got, nil
	case got != nil:
		p.release(got, false)
	default:
		p.gave()
	}
	return nil, err
}

// make connects, with a place that is counted already.
func (p *pool) make(ctx context.Context, key credentialKey, c Credential) (*pooled, error) {
	conn, server, err := p.connect(ctx, c)
	if err != nil {
		p.gave()
		return nil, err
	}
	got := &pooled{conn: conn, key: key, server: server, born: time.Now()}
	p.mu.Lock()
	p.mu.connecting--
	p.mu.busy[got] = struct{}{}
	p.mu.Unlock()
	return got, nil
}

// gave gives back a place that did not become a connection.
func (p *pool) gave() {
	p.mu.Lock()
	p.mu.connecting--
	p.nextLocked()
	p.mu.Unlock()
}

// nextLocked gives a free place to the caller that waits for longest.
func (p *pool) nextLocked() {
	if len(p.mu.waiting) == 0 || p.openLocked() >= p.max {
		return
	}
	w := p.mu.waiting[0]
	p.mu.waiting = p.mu.waiting[1:]
	p.mu.connecting++
	w.ready <- nil
}

// release gives back a connection. One that is broken, or not to the current server, is
// closed; any other goes to who waits for longest, if that is the same credential.
func (p *pool) release(c *pooled, broken bool) {
	now := time.Now()
	c.idle = now
	var stale []*pooled
	alive := !broken && c.conn.Alive()
	p.mu.Lock()
	delete(p.mu.busy, c)
	switch {
	case !alive || p.mu.closed || !p.usableLocked(c, now):
		stale = append(stale, c)
	case len(p.mu.waiting) == 0:
		for len(p.mu.idle) > 0 && !p.usableLocked(p.mu.idle[0], now) {
			stale = append(stale, p.mu.idle[0])
			p.mu.idle = p.mu.idle[1:]
		}
		p.mu.idle = append(p.mu.idle, c)
	case p.mu.waiting[0].key == c.key:
		w := p.mu.waiting[0]
		p.mu.waiting = p.mu.waiting[1:]
		p.mu.busy[c] = struct{}{}
		w.ready <- c
	default:
		stale = append(stale, c)
	}
	p.mu.closing += len(stale)
	p.mu.Unlock()
	p.discard(stale)
}

// move makes server the current one: idle connections to others are closed by the next
// sweep, those in use when they are released.
func (p *pool) move(server int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.current = server
}

// abort ends what is running on connections to a server.
func (p *pool) abort(server int) {
	var running []Conn
	p.mu.Lock()
	for c := range p.mu.busy {
		if c.server == server {
			c.aborts = true
			running = append(running, c.conn)
		}
	}
	p.mu.Unlock()
	for _, c := range running {
		_ = c.Close()
	}
}

// sweep closes idle connections that nobody should use any more.
func (p *pool) sweep() {
	now := time.Now()
	var stale []*pooled
	p.mu.Lock()
	kept := p.mu.idle[:0]
	for _, c := range p.mu.idle {
		if p.usableLocked(c, now) && c.conn.Alive() {
			kept = append(kept, c)
		} else {
			stale = append(stale, c)
		}
	}
	clear(p.mu.idle[len(kept):])
	p.mu.idle = kept
	p.mu.closing += len(stale)
	p.mu.Unlock()
	p.discard(stale)
}

// close closes idle connections; those in use are closed when they are released.
func (p *pool) close() {
	p.mu.Lock()
	p.mu.closed = true
	idle := p.mu.idle
	p.mu.idle = nil
	p.mu.closing += len(idle)
	p.mu.Unlock()
	p.discard(idle)
}

// counts returns how many connections are in use and idle, and how many requests wait.
func (p *pool) counts() (busy, idle, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.mu.busy) + p.mu.connecting, len(p.mu.idle), len(p.mu.waiting)
}

// discard closes connections that nobody uses, and then gives their places to who waits.
// They are counted as closing.
func (p *pool) discard(stale []*pooled) {
	if len(stale) == 0 {
		return
	}
	for _, c := range stale {
		_ = c.conn.Close() // nobody uses it: what it says helps nobody
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.closing -= len(stale)
	for range stale {
		p.nextLocked()
	}
}
