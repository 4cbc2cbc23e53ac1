package kafka

import (
	"context"

	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// bound returns the offset that no reader of src can be behind.
func bound(ctx context.Context, src partition.Reader, num int32) (int64, error) {
	if g, ok := src.(partition.Shown); ok {
		return g.Bound(ctx, num)
	}
	return src.End(ctx, num)
}

// wait reads the parts again as they grow until there is enough or ctx ends.
func (f *fetch) wait(ctx context.Context, minBytes int32) {
	wake := make(chan struct{}, 1)
	stop := f.register(ctx, wake)
	defer stop()
	w := f.c.fetch.waiter
	var grown <-chan struct{}
	if w != nil {
		grown = w.C()
	}
	// What the fetch has is answered when others need the memory.
	ctx, cancel := context.WithCancel(ctx)
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
		case <-wake: // a partition grew, or a transaction ended
			for _, p := range f.parts {
				if _, native := p.src.(*topic.Topic); p.code == 0 && (f.committed || !native) {
					f.read(ctx, p)
				}
			}
		}
	}
}

// readGrown reads the parts again whose partitions have grown.
func (f *fetch) readGrown(ctx context.Context, grown []topic.TopicPartition) {
	for _, g := range grown {
		for _, p := range f.parts {
			if p.code == 0 && p.num == g.Partition && p.src == partition.Reader(g.Topic) {
				f.read(ctx, p)
			}
		}
	}
}

// register asks to be woken when any part grows and then reads those that may have
// grown meanwhile. The function returned takes back what does not stay with the
// connection.
func (f *fetch) register(ctx context.Context, wake chan<- struct{}) func() {
	var stops []func()
	f.c.fetch.keepOnly(f.parts)
	for _, p := range f.parts {
		if p.code != 0 {
			continue
		}
		stop, known, err := f.watch(ctx, p, wake)
		if stop != nil {
			stops = append(stops, stop)
		}
		if err != nil {
			p.code = f.s.failure(f.c, "Fetch", err)
			f.failed = true
		} else if !known {
			f.read(ctx, p)
		}
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// watch asks to be woken when a part grows. known means that this was so already when
// the part was last read.
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
