package kafka

import (
	"context"

	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// A fetch waits for its partitions in these steps, so that nothing that is committed
// meanwhile is missed:
//
//  1. register asks to be woken for each part. The partitions of topics are in the waiter of
//     the connection, which stays registered from one fetch to the next: for a consumer that
//     asks for the same partitions again, this costs nothing. The end of a transaction and new
//     records of a shown topic send to a channel of this fetch.
//  2. A part that was not registered before its last read is read on, because it may have
//     grown between that read and the registration.
//  3. wait reads the parts that have grown on, until there is enough or the context ends. Each
//     read begins behind the batches that the part has, so no batch is read twice.
//
// The end of the context interrupts each step, also a read. It is no error: the parts keep
// what they have.
//
// While a fetch waits, its reservations can be recalled: when others need the memory, the
// fetch answers with the batches that it has, and the connection stays open.

// bound returns the largest offset that a reader of src can be at: the end, or for a shown
// topic an offset that may be beyond the end, see [partition.Shown].
func bound(ctx context.Context, src partition.Reader, num int32) (int64, error) {
	if g, ok := src.(partition.Shown); ok {
		return g.Bound(ctx, num)
	}
	return src.End(ctx, num)
}

// wait reads the parts on as they grow, until there is enough, ctx ends, or a reservation
// is recalled.
func (f *fetch) wait(ctx context.Context, minBytes int32) {
	wake := make(chan struct{}, 1)
	stop := f.register(ctx, wake)
	defer stop()
	w := f.c.fetch.waiter
	var grown <-chan struct{}
	if w != nil {
		grown = w.C()
	}
	ctx, cancel := context.WithCancel(ctx) // a recall cancels it
	defer cancel()
	defer f.c.carries.OnRecall(nil, nil)
	defer f.c.request.OnRecall(nil, nil)
	for !f.enough(minBytes) {
		f.c.carries.OnRecall(cancel, nil)
		f.c.request.OnRecall(cancel, nil)
		select {
		case <-ctx.Done():
			return
		case <-grown:
			f.readGrown(ctx, w.Take())
		case <-wake: // a shown topic has grown, or a transaction has ended
			for _, p := range f.parts {
				if _, native := p.src.(*topic.Topic); p.code == 0 && (f.committed || !native) {
					f.read(ctx, p)
				}
			}
		}
	}
}

// readGrown reads the parts of the partitions in grown on.
func (f *fetch) readGrown(ctx context.Context, grown []topic.TopicPartition) {
	for _, g := range grown {
		for _, p := range f.parts {
			if p.code == 0 && p.num == g.Partition && p.src == partition.Reader(g.Topic) {
				f.read(ctx, p)
			}
		}
	}
}

// register registers all parts, and reads those on that were not registered before. The
// function returned removes the registrations that end with this fetch.
func (f *fetch) register(ctx context.Context, wake chan<- struct{}) func() {
	var stops []func()
	f.c.fetch.keepOnly(f.parts)
	for _, p := range f.parts {
		if ctx.Err() != nil {
			break
		}
		if p.code != 0 {
			continue
		}
		stop, known, err := f.watch(ctx, p, wake)
		if stop != nil {
			stops = append(stops, stop)
		}
		switch {
		case err != nil && ctx.Err() == nil:
			f.fail(p, err)
		case err == nil && !known:
			f.read(ctx, p)
		}
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// watch registers a part: growth wakes the connection's waiter or sends to wake. known means
// that it was registered already when the part was last read. stop, if not nil, removes the
// part of the registration that does not stay with the connection.
func (f *fetch) watch(ctx context.Context, p *fetchPart, wake chan<- struct{}) (stop func(), known bool, err error) {
	t, native := p.src.(*topic.Topic)
	if !native {
		stop, err = p.src.(partition.Shown).Notify(p.num, wake)
		return stop, false, err
	}
	known, err = f.c.fetch.follow(ctx, f.s.topics, t, p.num)
	if err == nil && f.committed {
		k := []partitionKey{{t.ID(), p.num}}
		f.s.stable.Add(wake, k)
		stop, known = func() { f.s.stable.Remove(wake, k) }, false
	}
	return stop, known, err
}
