package eventtopic

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
)

// defaultLinger is how long a follower goes on when nobody waits any more: a consumer
// that is busy with what it got comes back.
const defaultLinger = 5 * time.Second

// Pauses of a follower before it tries again after an error of the log.
const (
	minPause = 10 * time.Millisecond
	maxPause = time.Second
)

// Notify sends to wake, which has capacity 1, when something is committed to the
// topic, until stop is called. What is committed after Notify has returned is not
// missed; wake may also receive when there is nothing new. One follower serves all who
// wait for a store, and ends some seconds after the last of them.
func (t *Topic) Notify(partition int32, wake chan<- struct{}) (stop func(), err error) {
	if err := t.check(partition); err != nil {
		return nil, err
	}
	w := &waiter{prefix: t.prefix, wake: wake}
	for {
		h, err := t.c.hub(t.store.Space())
		if err != nil {
			return nil, err
		}
		ok, err := h.add(w)
		if err != nil {
			return nil, err
		}
		if ok {
			return func() { h.remove(w) }, nil
		}
	}
}

// hub returns the hub of a space, making one if there is none.
func (c *Catalog) hub(space string) (*hub, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return nil, closed()
	}
	h := c.mu.hubs[space]
	if h == nil {
		h = &hub{c: c, space: space}
		h.mu.waiters = map[*waiter]struct{}{}
		c.mu.hubs[space] = h
	}
	return h, nil
}

// waiter is somebody who waits for streams whose names begin with prefix.
type waiter struct {
	prefix []byte
	wake   chan<- struct{}
}

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // it is awake already
	}
}

// hub follows the space of a store and wakes those who wait for it. It lives from the
// first who waits until some time after the last.
//
// Lock order: hub.mu, then Catalog.mu.
type hub struct {
	c     *Catalog
	space string
	mu    struct {
		sync.Mutex
		waiters map[*waiter]struct{}
		stop    context.CancelFunc // of the follower; nil before it runs
		idle    *time.Timer        // retires the hub; nil while somebody waits
		retired bool
	}
}

// add registers w and makes sure that a follower runs; false if the hub has ended.
func (h *hub) add(w *waiter) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.retired {
		return false, nil
	}
	if h.mu.stop == nil {
		// The caller looks at the topic after this: what it does not find there is behind
		// the head, and the follower will meet it.
		head, err := h.c.log.Head(h.c.ctx)
		if err != nil {
			return false, err
		}
		if !h.startLocked(head) {
			return false, closed()
		}
	}
	if h.mu.idle != nil {
		h.mu.idle.Stop()
		h.mu.idle = nil
	}
	h.mu.waiters[w] = struct{}{}
	return true, nil
}

// startLocked starts the follower, unless the catalog is closed.
func (h *hub) startLocked(after mainstem.Position) bool {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	if h.c.mu.closed {
		return false
	}
	var ctx context.Context
	ctx, h.mu.stop = context.WithCancel(h.c.ctx)
	h.c.wg.Go(func() { h.follow(ctx, after) })
	return true
}

func (h *hub) remove(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.mu.waiters, w)
	if len(h.mu.waiters) == 0 && !h.mu.retired && h.mu.idle == nil {
		h.mu.idle = time.AfterFunc(h.c.linger, h.quit)
	}
}

// quit retires the hub unless somebody waits again.
func (h *hub) quit() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.mu.waiters) > 0 {
		return
	}
	h.retireLocked()
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	if h.c.mu.hubs[h.space] == h {
		delete(h.c.mu.hubs, h.space)
	}
}

// retire ends the hub and wakes everybody.
func (h *hub) retire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.retireLocked()
}

func (h *hub) retireLocked() {
	h.mu.retired = true
	if h.mu.stop != nil {
		h.mu.stop()
	}
	if h.mu.idle != nil {
		h.mu.idle.Stop()
	}
	for w := range h.mu.waiters {
		w.signal()
	}
}

// follow wakes those who wait until ctx ends or the log is closed.
func (h *hub) follow(ctx context.Context, after mainstem.Position) {
	pause := minPause
	for ctx.Err() == nil {
		for rec, err := range h.c.log.Feed(ctx, mainstem.Filter{Spaces: []string{h.space}, After: after, Follow: true}) {
			if errors.Is(err, mainstem.ErrClosed) {
				h.quitAll()
				return
			}
			if err != nil {
				if ctx.Err() == nil {
					h.c.logger.Warn("following an event store failed and is tried again", "space", h.space, "error", err)
				}
				break
			}
			after, pause = rec.Position, minPause
			h.wake(rec.Key)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			pause = min(2*pause, maxPause)
		}
	}
}

// quitAll ends the hub because the log is closed: a new one would fail to start.
func (h *hub) quitAll() {
	h.retire()
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	if h.c.mu.hubs[h.space] == h {
		delete(h.c.mu.hubs, h.space)
	}
}

// wake wakes those who wait for the stream called key.
func (h *hub) wake(key []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.mu.waiters {
		if bytes.HasPrefix(key, w.prefix) {
			w.signal()
		}
	}
}
