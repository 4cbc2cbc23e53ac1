package feedtopic

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/follow"
	"github.com/mainstemdev/mainstem/internal/wake"
)

// defaultLinger is how long a follower goes on when nobody waits any more: a consumer
// that is busy with what it got comes back.
const defaultLinger = 5 * time.Second

// Followers follow the spaces that somebody waits for.
type Followers struct {
	log    mainstem.Log
	logger *slog.Logger
	linger time.Duration

	ctx  context.Context // ends at Close
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu struct {
		sync.Mutex
		closed bool
		hubs   map[string]*hub // by space
	}
}

// NewFollowers returns followers of log, which stays the caller's. logger receives what
// they could not do; nil discards it.
func NewFollowers(log mainstem.Log, logger *slog.Logger) *Followers {
	f := &Followers{log: log, logger: logger, linger: defaultLinger}
	if logger == nil {
		f.logger = slog.New(slog.DiscardHandler)
	}
	f.ctx, f.stop = context.WithCancel(context.Background())
	f.mu.hubs = map[string]*hub{}
	return f
}

// SetLinger changes how long a follower goes on when nobody waits any more. Call it
// before anybody does.
func (f *Followers) SetLinger(d time.Duration) { f.linger = d }

// Len returns how many spaces somebody waits for, or did until just now.
func (f *Followers) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.mu.hubs)
}

// Close ends what waits and the goroutines. Closing twice is allowed.
func (f *Followers) Close() {
	f.mu.Lock()
	f.mu.closed = true
	hubs := f.mu.hubs
	f.mu.hubs = map[string]*hub{}
	f.mu.Unlock()
	f.stop()
	for _, h := range hubs {
		h.retire()
	}
	f.wg.Wait()
}

// Notify sends to wake, which has capacity 1, when something is committed to the
// topic, until stop is called. What is committed after Notify has returned is not
// missed; wake may also receive when there is nothing new. One follower serves all who
// wait for a space, and ends some seconds after the last of them.
func (t *Topic) Notify(partition int32, wake chan<- struct{}) (stop func(), err error) {
	if err := t.check(partition); err != nil {
		return nil, err
	}
	w := &waiter{prefix: t.view.KeyPrefix(), wake: wake}
	for {
		h, err := t.f.hub(t.view.Space())
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
func (f *Followers) hub(space string) (*hub, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.closed {
		return nil, closed()
	}
	h := f.mu.hubs[space]
	if h == nil {
		h = &hub{f: f, space: space}
		h.mu.waiters = map[*waiter]struct{}{}
		f.mu.hubs[space] = h
	}
	return h, nil
}

// waiter is somebody who waits for records whose keys begin with prefix.
type waiter struct {
	prefix []byte
	wake   chan<- struct{}
}

func (w *waiter) signal() {
	wake.Signal(w.wake)
}

// hub follows a space and wakes those who wait for it. It lives from the
// first who waits until some time after the last.
//
// Lock order: hub.mu, then Followers.mu.
type hub struct {
	f     *Followers
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
		head, err := h.f.log.Head(h.f.ctx)
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

// startLocked starts the follower, unless the followers are closed.
func (h *hub) startLocked(after mainstem.Position) bool {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	if h.f.mu.closed {
		return false
	}
	var ctx context.Context
	ctx, h.mu.stop = context.WithCancel(h.f.ctx)
	h.f.wg.Go(func() { h.follow(ctx, after) })
	return true
}

func (h *hub) remove(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.mu.waiters, w)
	if len(h.mu.waiters) == 0 && !h.mu.retired && h.mu.idle == nil {
		h.mu.idle = time.AfterFunc(h.f.linger, h.quit)
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
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	if h.f.mu.hubs[h.space] == h {
		delete(h.f.mu.hubs, h.space)
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
	err := follow.Feed(ctx, h.f.log, mainstem.Filter{Spaces: []string{h.space}, After: after}, func(rec *mainstem.Record) bool {
		h.wake(rec.Key)
		return true
	}, func(err error) {
		h.f.logger.Warn("following a space failed and is tried again", "space", h.space, "error", err)
	})
	if errors.Is(err, mainstem.ErrClosed) {
		h.quitAll()
	}
}

// quitAll ends the hub because the log is closed: a new one would fail to start.
func (h *hub) quitAll() {
	h.retire()
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	if h.f.mu.hubs[h.space] == h {
		delete(h.f.mu.hubs, h.space)
	}
}

// wake wakes those who wait for key.
func (h *hub) wake(key []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.mu.waiters {
		if bytes.HasPrefix(key, w.prefix) {
			w.signal()
		}
	}
}
