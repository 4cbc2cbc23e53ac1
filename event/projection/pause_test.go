package projection_test

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// sleepy is a log whose reader of the control rows sees the first row after an arming, and the next
// ones, and what watches them, only when it is let go on.
type sleepy struct {
	mainstem.Log
	armed atomic.Bool
	first atomic.Bool   // the first row was read since
	seen  chan struct{} // closed then
	on    chan struct{} // closed to let it go on
}

const controlSpace = "kv/projection/shop"

func (l *sleepy) Get(ctx context.Context, space string, key []byte) (mainstem.Record, error) {
	if space != controlSpace || !l.armed.Load() {
		return l.Log.Get(ctx, space, key)
	}
	if !l.first.Swap(true) {
		defer close(l.seen)
		return l.Log.Get(ctx, space, key)
	}
	select {
	case <-l.on:
	case <-ctx.Done():
	}
	return l.Log.Get(ctx, space, key)
}

func (l *sleepy) Feed(ctx context.Context, f mainstem.Filter) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		for r, err := range l.Log.Feed(ctx, f) {
			if l.armed.Load() && slices.Contains(f.Spaces, controlSpace) {
				select {
				case <-l.on:
				case <-ctx.Done():
				}
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// A projection that is paused and resumed continues, even if only one of its goroutines has seen
// the pause and waits for the others to end.
func TestPausedForAMoment(t *testing.T) {
	l := &sleepy{Log: testengines.Memory(t), seen: make(chan struct{}), on: make(chan struct{})}
	f := newFixtureOn(t, l)
	here := newFixtureOn(t, l.Log)
	elsewhere, err := projection.Open(here.store, here.types, nil)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	p := f.projection("totals", 1, func(ctx context.Context, tx *projection.Tx, ev paid, r event.Recorded) error {
		if ev.Customer == "late" {
			once.Do(func() {
				l.armed.Store(true)
				if err := elsewhere.Pause(ctx, "totals"); err != nil {
					t.Error(err)
				}
			})
		}
		return f.add(ctx, tx, ev, r)
	})
	e := f.start(nil, nil, p)
	f.waitFor(e, "totals", f.payMany(5))
	last := f.pay(1, "late", 1)
	select {
	case <-l.seen:
	case <-t.Context().Done():
	}
	if err := elsewhere.Resume(t.Context(), "totals"); err != nil {
		t.Fatal(err)
	}
	close(l.on)
	f.waitFor(e, "totals", last)
	f.check(1)
}
