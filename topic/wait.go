package topic

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/follow"
	"github.com/mainstemdev/mainstem/internal/wake"
)

// Waiter wakes when any partition of a set grows. It costs no goroutine: one
// follower per topic serves all waiters, and it runs only while there are some.
// The methods may be called from many goroutines.
//
//	w := topics.NewWaiter()
//	defer w.Close()
//	w.Add(ctx, t, 0)
//	for {
//		chunk, err := t.Read(ctx, 0, next, nil) // after Add: then nothing is missed
//		…
//		if err := w.Wait(ctx); err != nil { … }
//	}
//
//snippet:var topics *topic.Catalog
//snippet:var t *topic.Topic
//snippet:var next int64
type Waiter struct {
	c    *Catalog
	wake chan struct{} // capacity 1

	mu struct {
		sync.Mutex
		parts  map[*partitionState]struct{}
		closed bool
	}
	grown struct {
		sync.Mutex
		parts map[*partitionState]struct{}
	}
}

// TopicPartition is one partition of a topic.
type TopicPartition struct {
	Topic     *Topic
	Partition int32
}

// NewWaiter returns a waiter that waits for nothing yet.
func (c *Catalog) NewWaiter() *Waiter {
	w := &Waiter{c: c, wake: make(chan struct{}, 1)}
	w.mu.parts = map[*partitionState]struct{}{}
	w.grown.parts = map[*partitionState]struct{}{}
	return w
}

// Add adds a partition: everything that is committed to it after Add has
// returned wakes the waiter. It also wakes when the topic is altered or deleted. Adding a partition again does nothing.
func (w *Waiter) Add(ctx context.Context, t *Topic, partition int32) error {
	const op = "wait"
	p, err := t.partition(op, partition)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.closed {
		return closed(op)
	}
	if _, ok := w.mu.parts[p]; ok {
		if t.hub.running() {
			return nil
		}
		t.hub.remove(p, w)
		delete(w.mu.parts, p)
	}
	if err := t.hub.add(ctx, p, w); err != nil {
		return err
	}
	w.mu.parts[p] = struct{}{}
	return nil
}

// Remove removes a partition.
func (w *Waiter) Remove(t *Topic, partition int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	parts := t.now().parts // all that there ever were: partitions are not removed
	if partition < 0 || int(partition) >= len(parts) {
		return
	}
	p := parts[partition]
	if _, ok := w.mu.parts[p]; ok {
		t.hub.remove(p, w)
		delete(w.mu.parts, p)
	}
}

// C returns a channel that receives when a partition of the set has grown since
// the last receive. It may also receive when none has: look again with Read.
func (w *Waiter) C() <-chan struct{} { return w.wake }

// Wait waits until a partition of the set grows. It returns Canceled when ctx
// ends, and Closed when the catalog is closed.
func (w *Waiter) Wait(ctx context.Context) error {
	began := time.Now()
	select {
	case <-w.wake:
		return nil
	case <-w.c.ctx.Done():
		return closed("wait")
	case <-ctx.Done():
		return mainstem.Ended(ctx, "wait", began, "records")
	}
}

// Close removes all partitions. Closing twice is allowed.
func (w *Waiter) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.closed = true
	for p := range w.mu.parts {
		p.t.hub.remove(p, w)
	}
	clear(w.mu.parts)
}

// Take returns the partitions that have grown since the last call, or whose topic
// has changed or was deleted, in no order: those to look at after waking.
func (w *Waiter) Take() []TopicPartition {
	w.grown.Lock()
	defer w.grown.Unlock()
	out := make([]TopicPartition, 0, len(w.grown.parts))
	for p := range w.grown.parts {
		out = append(out, TopicPartition{p.t, p.num})
	}
	clear(w.grown.parts)
	return out
}

func (w *Waiter) signal(p *partitionState) {
	w.grown.Lock()
	w.grown.parts[p] = struct{}{}
	w.grown.Unlock()
	wake.Signal(w.wake)
}

// hub follows a topic's space and wakes the waiters of its partitions.
//
// Lock order: Waiter.mu, hub.mu, then Catalog.mu or the lock of waiters, Waiter.grown.
type hub struct {
	t       *Topic
	waiters wake.Set[*partitionState, *Waiter] // gets one only under mu
	mu      struct {
		sync.Mutex
		on      bool // a follower runs
		retired bool
		stop    context.CancelFunc // of the follower
	}
}

// idleRecords is how many records in a row a follower takes without anybody
// waiting before it stops: a consumer that is busy with what it got comes back.
const idleRecords = 1024

func (h *hub) running() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.on
}

// add registers w for p and makes sure that a follower runs.
func (h *hub) add(ctx context.Context, p *partitionState, w *Waiter) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.retired {
		return cmp.Or(h.t.usable("wait"), error(closed("wait")))
	}
	if !h.mu.on {
		// The head is read before the caller looks at the partition: what it does not
		// find there is behind this position, and the follower will meet it.
		head, err := h.t.c.log.Head(ctx)
		if err != nil {
			return err
		}
		if !h.startLocked(head) {
			return closed("wait")
		}
	}
	h.waiters.Add(w, []*partitionState{p})
	return nil
}

// startLocked starts the follower, unless the catalog is closed.
func (h *hub) startLocked(after mainstem.Position) bool {
	c := h.t.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return false
	}
	ctx, stop := context.WithCancel(c.ctx)
	h.mu.on, h.mu.stop = true, stop
	c.wg.Go(func() { h.follow(ctx, after) })
	return true
}

func (h *hub) remove(p *partitionState, w *Waiter) { h.waiters.Remove(w, []*partitionState{p}) }

// retire stops the follower for good and wakes everybody.
func (h *hub) retire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.retired = true
	if h.mu.stop != nil {
		h.mu.stop()
	}
	h.wakeAll()
}

func (h *hub) wakeAll() {
	h.waiters.WakeAll(func(p *partitionState, w *Waiter) { w.signal(p) })
}

// follow runs until ctx ends, or until nobody has waited for a while.
func (h *hub) follow(ctx context.Context, after mainstem.Position) {
	idle := 0
	err := follow.Feed(ctx, h.t.c.log, mainstem.Filter{Spaces: []string{h.t.space}, After: after}, func(rec *mainstem.Record) bool {
		if h.t.observe(rec) {
			idle = 0
			return true
		}
		idle++
		return idle <= idleRecords || !h.quit()
	}, nil)
	if errors.Is(err, mainstem.ErrClosed) {
		// Waking once is not enough: who looks again may find the log still
		// readable for a moment, and would then wait for good.
		h.t.c.stop()
		h.retire()
	}
}

// quit ends the follower unless somebody waits.
func (h *hub) quit() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiters.Len() > 0 {
		return false
	}
	h.mu.on = false
	h.mu.stop()
	return true
}

// wake wakes the waiters of p and reports whether anybody waits for the topic.
func (h *hub) wake(p *partitionState) bool {
	h.waiters.Wake(p, func(w *Waiter) { w.signal(p) })
	return h.waiters.Len() > 0
}

// observe takes notice of a record of the topic's space. It reports whether
// anybody waits for the topic.
func (t *Topic) observe(rec *mainstem.Record) bool {
	n, ok := partitionOf(rec.Key)
	if !ok {
		t.observeMeta(rec)
		return false
	}
	parts := t.now().parts
	if int(n) >= len(parts) {
		return false
	}
	parts[n].Seen(int64(rec.Version))
	return t.hub.wake(parts[n])
}

// observeMeta applies a description that somebody wrote, perhaps from another
// process. One with another ID means that this topic is gone.
func (t *Topic) observeMeta(rec *mainstem.Record) {
	if string(rec.Key) != string(metaKey) {
		return
	}
	m, err := decodeMeta(rec.Value)
	if err != nil {
		t.c.o.Logger.Error("reading a topic's description", "topic", t.name, "error", err)
		return
	}
	if m.ID != t.id {
		t.retire()
		return
	}
	if err := t.apply(m, rec.Clone()); err != nil {
		t.c.o.Logger.Error("applying a topic's description", "topic", t.name, "error", err)
	}
	t.hub.wakeAll() // there may be more partitions
}
