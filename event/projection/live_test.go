package projection_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// live starts an engine with a live projection.
func (f *fixture) live(o *projection.Live, handle func(context.Context, *projection.Tx, paid, event.Recorded) error) *projection.Engine {
	f.t.Helper()
	p := f.projection("live", 1, handle)
	e, err := projection.Open(f.store, f.types, &projection.Options{Logger: discard})
	if err = errors.Join(err, e.RegisterLive(p, o), e.Start(f.t.Context())); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { f.stop(e) })
	f.inState(e, "live", projection.Running)
	return e
}

// headless is a log whose Head does not return before it is let go on.
type headless struct {
	mainstem.Log
	asked atomic.Bool   // Head was called
	on    chan struct{} // closed to let it go on
}

func (l *headless) Head(ctx context.Context) (mainstem.Position, error) {
	l.asked.Store(true)
	select {
	case <-l.on:
	case <-ctx.Done():
	}
	return l.Log.Head(ctx)
}

// A live projection is Running only when it handles the events that are appended from then on.
func TestLiveIsRunning(t *testing.T) {
	l := &headless{Log: testengines.Memory(t), on: make(chan struct{})}
	f := newFixtureOn(t, l)
	e, err := projection.Open(f.store, f.types, &projection.Options{Logger: discard})
	none := func(context.Context, *projection.Tx, paid, event.Recorded) error { return nil }
	if err = errors.Join(err, e.RegisterLive(f.projection("live", 1, none), nil), e.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.stop(e) })
	testkit.Eventually(t, "the projection to ask for its beginning", l.asked.Load)
	if s, err := e.Status(t.Context(), "live"); err != nil || s.State == projection.Running {
		t.Errorf("before it has a beginning: %+v, %v", s, err)
	}
	close(l.on)
	f.inState(e, "live", projection.Running)
	f.pay(1, "x", 1)
	testkit.Eventually(t, "the event to be handled", func() bool {
		s, err := e.Status(t.Context(), "live")
		return err == nil && s.Handled == 2 // and a noise
	})
}

// A live projection handles new events after its start, in order, in every engine, and leaves no
// checkpoint. It handles a failed event again.
func TestLive(t *testing.T) {
	f := newFixture(t)
	f.payMany(10)
	var mu sync.Mutex
	var got [2][]int
	var failed atomic.Bool
	var engines []*projection.Engine
	for i := range got {
		engines = append(engines, f.live(nil, func(_ context.Context, _ *projection.Tx, ev paid, _ event.Recorded) error {
			mu.Lock()
			defer mu.Unlock()
			if ev.Cents == 7 && i == 0 && !failed.Swap(true) {
				panic("as asked")
			}
			if ev.Customer == "x" {
				got[i] = append(got[i], ev.Cents)
			}
			return nil
		}))
	}
	var want []int
	for i := range 20 {
		f.pay(1, "x", i+1)
		want = append(want, i+1)
	}
	testkit.Eventually(t, "both engines to handle all", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return fmt.Sprint(got[0]) == fmt.Sprint(want) && fmt.Sprint(got[1]) == fmt.Sprint(want)
	})
	if s, err := engines[0].Status(t.Context(), "live"); err != nil || s.Faults != 1 || s.Dropped != 0 || s.State != projection.Running {
		t.Errorf("status %+v, %v", s, err)
	}
	if _, err := f.store.Checkpoint(t.Context(), "live"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("a checkpoint: %v, want NotFound", err)
	}
	if err := engines[1].Pause(t.Context(), "live"); err != nil {
		t.Fatal(err)
	}
	for _, e := range engines {
		f.inState(e, "live", projection.Paused)
	}
}

// The events that a slow live projection drops are counted.
func TestLiveDrops(t *testing.T) {
	f := newFixture(t)
	hold := make(chan struct{})
	var held, handled atomic.Int64
	e := f.live(&projection.Live{Drop: true, Buffer: 4}, func(_ context.Context, _ *projection.Tx, ev paid, _ event.Recorded) error {
		switch ev.Customer {
		case "hold":
			held.Add(1)
			<-hold
		case "bad":
			return errors.New("as asked")
		case "x":
			handled.Add(1)
		}
		return nil
	})
	f.pay(1, "bad", 1)
	f.pay(1, "hold", 1)
	testkit.Eventually(t, "the handler to be held up", func() bool { return held.Load() == 1 })
	for range 50 {
		f.pay(1, "x", 1) // and a noise after each
	}
	dropped := func() uint64 {
		s, err := e.Status(t.Context(), "live")
		if err != nil {
			t.Fatal(err)
		}
		return s.Dropped
	}
	// Noise after "hold", and 100 more: 4 of them wait. The bad one was dropped too.
	testkit.Eventually(t, "the rest to be dropped", func() bool { return dropped() == 1+101-4 })
	close(hold)
	testkit.Eventually(t, "those that wait to be handled", func() bool { return handled.Load() == 2 })
}

// A live projection must not write, because it has no checkpoint.
func TestLiveWritesNothing(t *testing.T) {
	f := newFixture(t)
	e := f.live(&projection.Live{Drop: true}, f.add)
	testkit.Eventually(t, "the projection to refuse what its handler writes", func() bool {
		f.pay(1, "x", 1)
		s, err := e.Status(t.Context(), "live")
		return err == nil && s.Dropped > 0 && s.Faults > 0
	})
	if _, err := f.totals.Get(t.Context(), "x"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("a row: %v, want NotFound", err)
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for what, err := range map[string]error{
		"waiting":           e.WaitFor(soon, "live", 1),
		"a negative buffer": e.RegisterLive(f.projection("y", 1, nil), &projection.Live{Buffer: -1}),
		"a rebuild":         e.Rebuild(t.Context(), "live", nil),
	} {
		if !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%s: %v, want Invalid", what, err)
		}
	}
}
