package feedtopic

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/follow"
	"github.com/mainstemdev/mainstem/internal/wake"
)

// waiter is somebody who waits for records whose keys begin with prefix.
type waiter struct {
	prefix []byte
	wake   chan<- struct{}
}

// hub wakes the waiters of a space. They have no keys: Record compares prefixes instead.
type hub = follow.Hub[struct{}, *waiter]

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
		hubs   map[string]*hub // by space; without those that have ended
	}
}

// OpenFollowers returns the followers of log, which stays the caller's. logger receives what
// they could not do; nil discards it.
func OpenFollowers(log mainstem.Log, logger *slog.Logger) *Followers {
	f := &Followers{log: log, logger: logger}
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
	f.mu.Unlock()
	f.stop()
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
		ok, err := h.Add(t.f.ctx, w, nil)
		if err != nil {
			return nil, err
		}
		if ok {
			return sync.OnceFunc(func() { h.Remove(w, nil) }), nil
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
	if h := f.mu.hubs[space]; h != nil {
		return h, nil
	}
	h := &hub{Log: f.log, Space: space, Ctx: f.ctx, Linger: f.linger, Once: true, Start: f.start}
	h.Record = func(rec *mainstem.Record) {
		h.Wake(struct{}{}, func(w *waiter) {
			if bytes.HasPrefix(rec.Key, w.prefix) {
				wake.Signal(w.wake)
			}
		})
	}
	h.Signal = func(_ struct{}, w *waiter) { wake.Signal(w.wake) }
	h.Failed = func(err error) {
		f.logger.Warn("following a space failed and is tried again", "space", space, "error", err)
	}
	h.Ended = func(error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.mu.hubs, space)
	}
	f.mu.hubs[space] = h
	return h, nil
}

// start runs follow in a goroutine that Close waits for, unless the followers are closed.
func (f *Followers) start(follow func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.closed {
		return closed()
	}
	f.wg.Go(follow)
	return nil
}
