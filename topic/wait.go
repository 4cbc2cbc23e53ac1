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

// Waiter wakes when any partition of a set grows. It costs no goroutine: one
// follower per topic serves all waiters, and it ends some seconds after the last of them.
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
		t.hub.Remove(w, []*partitionState{p})
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
		p.t.hub.Remove(w, []*partitionState{p})
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

// newHub returns what wakes the waiters of the topic's partitions.
//
// Lock order: Waiter.mu, the locks of the hub, then Catalog.mu or Waiter.grown.
func (t *Topic) newHub() *follow.Hub[*partitionState, *Waiter] {
	return &follow.Hub[*partitionState, *Waiter]{
		Log: t.c.log, Space: t.space, Ctx: t.c.ctx, Start: t.c.start,
		Record: t.observe,
		Signal: func(p *partitionState, w *Waiter) { w.signal(p) },
		Ended: func(err error) {
			if errors.Is(err, mainstem.ErrClosed) {
				// To wake once is not enough: a waiter that looks again may find the log
				// still readable for a moment, and would then wait without end.
				t.c.stop()
			}
		},
	}
}

// start runs f in a goroutine that Close waits for, unless the catalog is closed.
func (c *Catalog) start(f func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return closed("wait")
	}
	c.wg.Go(f)
	return nil
}

// observe takes notice of a record of the topic's space.
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
	t.hub.WakeAll() // there may be more partitions
}
