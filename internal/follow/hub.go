package follow

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wake"
)

// DefaultLinger is how long the follower of a [Hub] goes on without a waiter: a consumer
// that is busy with the records that it got comes back.
const DefaultLinger = 5 * time.Second

// Hub wakes waiters of type W when records of one space are committed, each for the keys
// of type K that it waits for. It is ready when the fields that say so are set; they are
// not changed while a follower runs.
//
// Lock order: Hub.mu, then the locks that Start and Ended take, or that of the waiters,
// then those that Signal takes.
type Hub[K, W comparable] struct {
	Log    mainstem.Log
	Space  string
	Ctx    context.Context // ends with the owner
	Linger time.Duration   // default [DefaultLinger]
	// Once makes the end of the follower that of the hub: the owner makes another hub.
	Once bool

	// Start runs follow in a goroutine that the owner waits for, after it has ended Ctx.
	// It fails when the owner is closed.
	Start func(follow func()) error
	// Record is called with each record of the space, as by [Feed]. It calls Wake.
	Record func(*mainstem.Record)
	// Signal wakes w because of k. It may neither block nor call the hub.
	Signal func(k K, w W)
	// Failed is called after an error of the log that passes, see [Feed]. It may be nil.
	Failed func(error)
	// Ended is called when a follower has ended, before the waiters that are left are
	// woken. The error is that of Feed, or nil if nobody waited or Retire was called. It
	// may not call the hub.
	Ended func(error)

	// waiters changes under mu only.
	// Invariant: while it has one, a follower runs; unless the log or the owner was closed,
	// or Retire called: then every waiter has been woken since.
	waiters wake.Set[K, W]

	mu struct {
		sync.Mutex
		follower context.Context    // of the follower; nil when none runs
		stop     context.CancelFunc // ends follower
		// idle calls quit. It was last set when the last waiter was removed, and is not
		// stopped when one is added.
		idle    *time.Timer
		retired bool // Invariant: then follower is nil, and stays so
	}
}

// Add adds a waiter for keys, as [wake.Set.Add] does: it is woken by what is committed
// after Add has returned. ok is false if the hub was retired.
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

// startLocked starts a follower behind the head of the log. The caller of Add looks at the
// records after this: the follower meets all that it does not find there.
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

// Retire ends the follower and the hub, and wakes all. Retiring twice is allowed.
func (h *Hub[K, W]) Retire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.retired = true
	h.endLocked(nil)
}

// quit ends the follower unless there is a waiter again.
func (h *Hub[K, W]) quit() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiters.Len() == 0 {
		h.endLocked(nil)
	}
}

// follow runs until ctx ends or the log is closed.
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

// endLocked ends the follower, if one runs, and wakes all that are left.
func (h *Hub[K, W]) endLocked(err error) {
	if h.mu.follower != nil {
		h.mu.stop()
		h.mu.follower = nil
		h.mu.retired = h.mu.retired || h.Once
		h.Ended(err)
	}
	h.WakeAll()
}
