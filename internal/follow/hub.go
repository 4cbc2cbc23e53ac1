package follow

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wake"
)

// DefaultLinger is how long the follower of a [Hub] continues without a waiter: a consumer that is
// busy with its records will wait again soon.
const DefaultLinger = 5 * time.Second

// Hub wakes waiters of type W when records of one space are committed, each for the keys of type K
// that it waits for. Log, Space, Ctx, Start, Record, Signal and Ended must be set. Fields are not
// changed while a follower runs.
//
// Lock order: Hub.mu; then the locks that Start and Ended take, or the lock of waiters; then the
// locks that Signal takes.
type Hub[K, W comparable] struct {
	Log    mainstem.Log
	Space  string
	Ctx    context.Context // ends when the owner closes
	Linger time.Duration   // default [DefaultLinger]
	// Once retires the hub when its follower ends: the owner then makes another hub.
	Once bool

	// Start runs follow in a goroutine. When the owner closes, it ends Ctx and waits for the
	// goroutine. Start fails if the owner is closed.
	Start func(follow func()) error
	// Record is called with each record of the space, as by [Feed]. It must call Wake.
	Record func(*mainstem.Record)
	// Signal wakes w because of k. It must neither block nor call the hub.
	Signal func(k K, w W)
	// Failed is called after a transient error of the log; see [Feed]. It may be nil.
	Failed func(error)
	// Ended is called when a follower has ended, before the remaining waiters are woken. The error
	// is that of Feed, or nil after Retire or a time without waiters. It must not call the hub.
	Ended func(error)

	// waiters changes under mu only. Invariant: while it has a waiter, a follower runs. If the
	// follower has ended nevertheless, because the log or the owner was closed or by Retire, every
	// waiter was woken after that.
	waiters wake.Set[K, W]

	mu struct {
		sync.Mutex
		follower context.Context    // of the running follower; nil if none runs
		stop     context.CancelFunc // ends follower
		// idle calls quit. It is set when the last waiter is removed, and is not stopped when one
		// is added.
		idle    *time.Timer
		retired bool // Invariant: if it is set, follower is nil, and none starts any more
	}
}

// Add adds a waiter for keys, as [wake.Set.Add] does. The waiter is woken for records that are
// committed after Add has returned. ok is false if the hub is retired. The error is that of Start,
// or of the log when a follower must be started.
func (h *Hub[K, W]) Add(ctx context.Context, w W, keys []K) (ok bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.retired {
		return false, nil
	}
	if h.mu.follower == nil {
		if err := h.startLocked(ctx); err != nil {
			return false, err
		}
	}
	h.waiters.Add(w, keys)
	return true, nil
}

// startLocked starts a follower after the head of the log. A caller of Add reads the records that
// it waits for after Add has returned: records up to the head are found by that read, later ones by
// the follower.
func (h *Hub[K, W]) startLocked(ctx context.Context) error {
	head, err := h.Log.Head(ctx)
	if err != nil {
		return err
	}
	follower, stop := context.WithCancel(h.Ctx)
	if err := h.Start(func() { h.follow(follower, head) }); err != nil {
		stop()
		return err
	}
	h.mu.follower, h.mu.stop = follower, stop
	return nil
}

// Remove removes a waiter that was added with the same keys.
func (h *Hub[K, W]) Remove(w W, keys []K) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiters.Remove(w, keys)
	if h.waiters.Len() > 0 || h.mu.follower == nil {
		return
	}
	linger := cmp.Or(h.Linger, DefaultLinger)
	if h.mu.idle == nil {
		h.mu.idle = time.AfterFunc(linger, h.quit)
	} else {
		h.mu.idle.Reset(linger)
	}
}

// Wake calls signal with each waiter for k.
func (h *Hub[K, W]) Wake(k K, signal func(W)) { h.waiters.Wake(k, signal) }

// WakeAll wakes each waiter for each of its keys.
func (h *Hub[K, W]) WakeAll() { h.waiters.WakeAll(h.Signal) }

// Retire ends the follower, retires the hub and wakes all waiters. It may be called again.
func (h *Hub[K, W]) Retire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.retired = true
	h.endLocked(nil)
}

// quit ends the follower if there is no waiter.
func (h *Hub[K, W]) quit() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiters.Len() == 0 {
		h.endLocked(nil)
	}
}

// follow is the follower. It runs until ctx ends or the log is closed.
func (h *Hub[K, W]) follow(ctx context.Context, after mainstem.Position) {
	err := Feed(ctx, h.Log, mainstem.Filter{Spaces: []string{h.Space}, After: after}, func(rec *mainstem.Record) bool {
		h.Record(rec)
		return true
	}, h.Failed)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.follower == ctx { // neither Retire nor quit has ended it
		h.endLocked(err)
	}
}

// endLocked ends the follower, if one runs, and wakes all waiters.
func (h *Hub[K, W]) endLocked(err error) {
	if h.mu.follower != nil {
		h.mu.stop()
		h.mu.follower = nil
		h.mu.retired = h.mu.retired || h.Once
		h.Ended(err)
	}
	h.WakeAll()
}
