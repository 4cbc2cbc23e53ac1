package topic

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/follow"
	"github.com/mainstemdev/mainstem/internal/wake"
)

// Waiter wakes when a partition of a set grows. It needs no goroutine: one follower of each topic
// serves all waiters, and ends some seconds after the last of them was removed. The methods may be
// called from many goroutines.
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
	wake chan struct{} // capacity 1: full if the waiter was woken and has not received yet

	mu struct {
		sync.Mutex
		parts  map[*partitionState]struct{} // that were added; the waiter is in the hubs of their topics
		closed bool
	}
	grown struct {
		sync.Mutex
		parts map[*partitionState]struct{} // that have woken the waiter since the last Take
	}
}

// TopicPartition is one partition of a topic.
type TopicPartition struct {
	Topic     *Topic
	Partition int32
}

// NewWaiter returns a waiter without partitions. Close it.
func (c *Catalog) NewWaiter() *Waiter {
	w := &Waiter{c: c, wake: make(chan struct{}, 1)}
	w.mu.parts = map[*partitionState]struct{}{}
	w.grown.parts = map[*partitionState]struct{}{}
	return w
}

// Add adds a partition. Each record that is committed to it after Add has returned wakes the
// waiter; so does a change or the deletion of the topic. Adding a partition again does nothing. It
// fails with NotFound if the topic or partition does not exist, and with Closed.
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
		return nil
	}
	ok, err := t.hub.Add(ctx, w, []*partitionState{p})
	if err != nil {
		return err
	}
	if !ok { // deleted since the first look
		return t.usable(op)
	}
	w.mu.parts[p] = struct{}{}
	return nil
}

// Remove removes a partition, if the waiter has it.
func (w *Waiter) Remove(t *Topic, partition int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	parts := t.now().parts // partitions are never removed, so one that was added is there
	if partition < 0 || int(partition) >= len(parts) {
		return
	}
	p := parts[partition]
	if _, ok := w.mu.parts[p]; ok {
		t.hub.Remove(w, []*partitionState{p})
		delete(w.mu.parts, p)
	}
}

// C returns a channel that receives after a partition of the set has grown. It may also receive
// when none has: read before each wait. Wait receives from the same channel.
func (w *Waiter) C() <-chan struct{} { return w.wake }

// Wait waits until the waiter is woken; it may return nil although no partition has grown. It fails
// with Canceled when ctx ends, and with Closed when the catalog is closed.
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
		p.t.hub.Remove(w, []*partitionState{p})
	}
	clear(w.mu.parts)
}

// Take returns the partitions that have grown, or whose topic was altered or deleted, since the
// last call, in no order. Call it after waking.
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

// signal records that p has grown and wakes the waiter.
func (w *Waiter) signal(p *partitionState) {
	w.grown.Lock()
	w.grown.parts[p] = struct{}{}
	w.grown.Unlock()
	wake.Signal(w.wake)
}

// newHub returns the hub that wakes the waiters of the topic's partitions.
//
// Lock order: Waiter.mu, the locks of the hub, then Catalog.mu or Waiter.grown.
func (t *Topic) newHub() *follow.Hub[*partitionState, *Waiter] {
	return &follow.Hub[*partitionState, *Waiter]{
		Log: t.c.log, Space: t.space, Ctx: t.c.ctx, Start: t.c.start,
		Record: t.observe,
		Signal: func(p *partitionState, w *Waiter) { w.signal(p) },
		Ended: func(err error) {
			if errors.Is(err, mainstem.ErrClosed) {
				// The hub wakes each waiter once. A waiter that then reads from a log that is
				// still readable, and waits again, would wait without end.
				t.c.stop()
			}
		},
	}
}

// start runs f in a goroutine that Close waits for. It fails with Closed after Close.
func (c *Catalog) start(f func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return closed("wait")
	}
	c.wg.Go(f)
	return nil
}

// observe handles a record of the topic's space that the follower has read.
func (t *Topic) observe(rec *mainstem.Record) {
	n, ok := partitionOf(rec.Key)
	if !ok {
		t.observeMeta(rec)
		return
	}
	if parts := t.now().parts; int(n) < len(parts) {
		p := parts[n]
		p.Seen(int64(rec.Version))
		t.hub.Wake(p, func(w *Waiter) { w.signal(p) })
	}
}

// observeMeta applies a new description, which another process may have written. A description with
// another ID means that this topic was deleted.
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
	t.hub.WakeAll() // there may be more partitions
}
