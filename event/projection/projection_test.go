package projection_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func TestProjection(t *testing.T) { onEach(t, testProjection) }

func testProjection(t *testing.T, f *fixture) {
	before := f.rounds(300)
	f.payMany(before)
	e := f.start(nil, nil, f.projection("totals", 1, nil))
	last := f.payMany(20)
	f.waitFor(e, "totals", last)
	f.check(1)
	s := f.inState(e, "totals", projection.Running)
	if s.Handled < uint64(2*(before+20)) || s.Position < last-1 || s.Lag != 0 || s.Err != nil || s.Partitions[0].Owner == "" || s.LastAt.IsZero() || s.PerEvent <= 0 || s.Version != 1 {
		t.Errorf("the status is %+v", s)
	}
	if all, err := e.Statuses(t.Context()); err != nil || len(all) != 1 || all[0].Name != "totals" {
		t.Errorf("all: %+v, %v", all, err)
	}
	f.stop(e)
	if s := f.inState(e, "totals", projection.Stopped); s.Position < last-1 {
		t.Errorf("stopped: %+v", s)
	}
}

func TestRefusals(t *testing.T) {
	f := newFixture(t)
	handler := projection.On(f.add)
	e, err := projection.Open(f.store, f.types, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := f.projection("p", 1, nil)
	if err := e.Register(p, nil); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"no name":            second(projection.New("", 1, event.Filter{}, handler)),
		"version 0":          second(projection.New("p", 0, event.Filter{}, handler)),
		"no handlers":        second(projection.New("p", 1, event.Filter{})),
		"nil handler":        second(projection.New("p", 1, event.Filter{}, projection.On[paid](nil))),
		"two for one type":   second(projection.New("p", 1, event.Filter{}, handler, handler)),
		"no store":           second(projection.Open(nil, f.types, nil)),
		"no types":           second(projection.Open(f.store, nil, nil)),
		"nil projection":     e.Register(nil, nil),
		"wrong options":      e.Register(f.projection("q", 1, nil), &projection.Async{MaxBatch: -1}),
		"rebuild without":    rebuildWithoutClear(t, f),
		"started twice":      errors.Join(second(e, e.Start(t.Context())), e.Start(t.Context())),
		"registered running": e.Register(f.projection("r", 1, nil), nil),
	} {
		if !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%s: %v, want Invalid", what, err)
		}
	}
	f.stop(e)
	e, err = projection.Open(f.store, f.types, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(e.Register(p, nil), e.Stop(t.Context())); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"twice":           e.Register(p, nil),
		"unknown status":  second(e.Status(t.Context(), "x")),
		"unknown pause":   e.Pause(t.Context(), "x"),
		"unknown rebuild": e.Rebuild(t.Context(), "x", &projection.RebuildOptions{InPlace: true}),
		"unknown wait":    e.WaitFor(t.Context(), "x", 1),
		"ended wait":      e.WaitFor(canceled(), "p", 1),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func second[T any](_ T, err error) error { return err }

func rebuildWithoutClear(t *testing.T, f *fixture) error {
	p, err := projection.New("bare", 1, event.Filter{}, projection.On(f.add))
	if err != nil {
		t.Fatal(err)
	}
	e, err := projection.Open(f.store, f.types, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Register(p, nil); err != nil {
		t.Fatal(err)
	}
	return e.Rebuild(t.Context(), "bare", &projection.RebuildOptions{InPlace: true})
}

// A read through a Tx sees earlier writes, and the commit depends on the rows that were read.
func TestTx(t *testing.T) { onEach(t, testTx) }

func testTx(t *testing.T, f *fixture) {
	if err := f.totals.Upsert(t.Context(), total{"there", 1, 1}); err != nil {
		t.Fatal(err)
	}
	calls := 0
	handle := func(ctx context.Context, tx *projection.Tx, _ paid, _ event.Recorded) error {
		if calls++; calls == 1 { // somebody else changes what the first call has read
			defer func() {
				if err := f.totals.Upsert(ctx, total{"there", 50, 1}); err != nil {
					t.Error(err)
				}
			}()
		}
		got, err := projection.Get(ctx, tx, f.totals, "there")
		if want := map[int]int{1: 1, 2: 50}[calls]; err != nil || got.Cents != want {
			t.Errorf("call %d: read %+v, %v", calls, got, err)
		}
		if _, err := projection.Get(ctx, tx, f.totals, "new"); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("read what is not there: %v", err)
		}
		projection.Put(tx, f.totals, total{"new", 7, 1})
		if got, err := projection.Get(ctx, tx, f.totals, "new"); err != nil || got.Cents != 7 {
			t.Errorf("read back %+v, %v", got, err)
		}
		projection.Delete(tx, f.totals, "new")
		if _, err := projection.Get(ctx, tx, f.totals, "new"); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("read what was deleted: %v", err)
		}
		projection.Put(tx, f.totals, total{"blind", 8, 1})
		projection.Delete(tx, f.totals, "gone")
		wrong := func(total, bool) (total, error) { return total{Customer: "other"}, nil }
		if err := projection.Modify(ctx, tx, f.totals, "x", wrong); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("a row that changes its key: %v", err)
		}
		no := errors.New("no")
		if err := projection.Modify(ctx, tx, f.totals, "x", func(total, bool) (total, error) { return total{}, no }); !errors.Is(err, no) {
			t.Errorf("a change that fails: %v", err)
		}
		return projection.Modify(ctx, tx, f.totals, "there", func(old total, found bool) (total, error) {
			return total{"there", old.Cents + 1, 1}, nil
		})
	}
	e := f.start(nil, &projection.Async{Attempts: 1}, f.projection("p", 1, handle))
	f.waitFor(e, "p", f.pay(1, "x", 1))
	rows, err := f.totals.Find(t.Context(), readmodel.All())
	if err != nil || fmt.Sprint(rows) != "[{blind 8 1} {there 51 1}]" || calls != 2 {
		t.Errorf("after %d calls: %v, %v", calls, rows, err)
	}
}

// Engines that start and stop, as processes do, and two projections that change the same rows:
// every event takes effect once for each projection.
func TestManyEngines(t *testing.T) { onEach(t, testManyEngines) }

func testManyEngines(t *testing.T, f *fixture) {
	var ended atomic.Bool
	var appenders, engines sync.WaitGroup
	var last atomic.Uint64
	for range 2 {
		appenders.Go(func() {
			for range f.rounds(150) {
				p := uint64(f.payMany(1))
				for old := last.Load(); old < p && !last.CompareAndSwap(old, p); old = last.Load() {
				}
			}
		})
	}
	for range 3 {
		engines.Go(func() {
			for !ended.Load() {
				e, err := projection.Open(f.store, f.types, &projection.Options{Logger: slog.New(slog.DiscardHandler)})
				for _, name := range []string{"a", "b"} {
					err = errors.Join(err, e.Register(f.projection(name, 1, nil), &projection.Async{MaxBatch: 1 + rand.IntN(30), Backoff: time.Millisecond}))
				}
				ctx, cancel := context.WithCancel(t.Context())
				if err = errors.Join(err, e.Start(ctx)); err != nil {
					t.Error(err)
				}
				begin, steps := f.position("a"), mainstem.Position(rand.IntN(f.rounds(60)))
				testkit.Eventually(t, "progress", func() bool { return ended.Load() || f.position("a") >= begin+steps })
				if rand.IntN(2) == 0 {
					cancel() // at once, within commits
				}
				f.stop(e)
				cancel()
			}
		})
	}
	appenders.Wait()
	e := f.start(nil, &projection.Async{Backoff: time.Millisecond}, f.projection("a", 1, nil), f.projection("b", 1, nil))
	for _, name := range []string{"a", "b"} {
		f.waitFor(e, name, mainstem.Position(last.Load()))
	}
	ended.Store(true)
	engines.Wait()
	f.check(2)
}

// After Pause has returned no engine commits anything until Resume.
func TestPause(t *testing.T) { onEach(t, testPause) }

func testPause(t *testing.T, f *fixture) {
	p := f.projection("totals", 1, nil)
	engines := []*projection.Engine{f.start(nil, nil, p), f.start(nil, nil, p)}
	f.waitFor(engines[0], "totals", f.payMany(f.rounds(50)))
	if err := engines[0].Pause(t.Context(), "totals"); err != nil {
		t.Fatal(err)
	}
	before, err := f.store.Checkpoint(t.Context(), "totals")
	if err != nil {
		t.Fatal(err)
	}
	last := f.payMany(f.rounds(50))
	for _, e := range engines {
		f.inState(e, "totals", projection.Paused)
	}
	third := f.start(nil, nil, p) // one that starts now is paused too
	if s := f.inState(third, "totals", projection.Paused); s.Lag == 0 {
		t.Errorf("a paused projection: %+v", s)
	}
	if now, err := f.store.Checkpoint(t.Context(), "totals"); err != nil || now.Position != before.Position {
		t.Errorf("it went on from %d to %d, %v", before.Position, now.Position, err)
	}
	if err := third.Resume(t.Context(), "totals"); err != nil {
		t.Fatal(err)
	}
	f.waitFor(engines[0], "totals", last)
	f.check(1)
}

// A commit that is under way when Pause returns, or when a rebuild begins, is not written.
func TestControlWithinACommit(t *testing.T) {
	no := errors.New("no")
	for what, change := range map[string]func(*projection.Engine) error{
		"pause": func(e *projection.Engine) error { return e.Pause(context.Background(), "totals") },
		"pause, and an event that is to be parked": func(e *projection.Engine) error {
			return errors.Join(e.Pause(context.Background(), "totals"), no)
		},
		"restart": func(e *projection.Engine) error { return e.Restart(context.Background(), "totals") },
		"rebuild": func(e *projection.Engine) error {
			return e.Rebuild(context.Background(), "totals", &projection.RebuildOptions{InPlace: true})
		},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t)
			var calls atomic.Int64
			var e *projection.Engine
			handle := func(ctx context.Context, tx *projection.Tx, ev paid, r event.Recorded) error {
				err := f.add(ctx, tx, ev, r)
				if calls.Add(1) == 1 {
					err = errors.Join(err, change(e))
				}
				return err
			}
			p := f.projection("totals", 1, handle)
			var err error
			if e, err = projection.Open(f.store, f.types, &projection.Options{Logger: slog.New(slog.DiscardHandler)}); err != nil {
				t.Fatal(err)
			}
			last := f.pay(1, "x", 5)
			if err := errors.Join(e.Register(p, &projection.Async{Attempts: 1, OnPoison: event.ParkPoison}), e.Start(t.Context())); err != nil {
				t.Fatal(err)
			}
			defer f.stop(e)
			if strings.HasPrefix(what, "pause") {
				f.inState(e, "totals", projection.Paused)
				if p := f.position("totals"); p != 0 {
					t.Errorf("what was under way was committed, up to %d", p)
				}
				if n, err := f.totals.Count(t.Context(), readmodel.All()); n != 0 || err != nil {
					t.Errorf("%d rows, %v", n, err)
				}
				for parked := range f.store.Parked(t.Context(), "totals") {
					t.Errorf("parked: %+v", parked)
				}
				if err := e.Resume(t.Context(), "totals"); err != nil {
					t.Fatal(err)
				}
			}
			f.waitFor(e, "totals", last)
			f.check(1)
			if calls.Load() < 2 {
				t.Errorf("the event was handled %d times: the first was not written, so want 2 or more", calls.Load())
			}
		})
	}
}

// A rebuild while events are appended, with several engines, and after a rebuild that failed: each
// event is counted once in the rows.
func TestRebuild(t *testing.T) { onEach(t, testRebuild) }

func testRebuild(t *testing.T, f *fixture) {
	p := f.projection("totals", 1, nil)
	no := errors.New("no")
	var fails atomic.Bool
	p.WithClear(func(ctx context.Context) error {
		if fails.Load() {
			return no
		}
		return f.totals.Clear(ctx)
	})
	e, other := f.start(nil, &projection.Async{MaxBatch: 7, Backoff: time.Millisecond}, p), f.start(nil, &projection.Async{MaxBatch: 3, Backoff: time.Millisecond}, p)
	f.waitFor(e, "totals", f.payMany(f.rounds(100)))
	if err := f.totals.Upsert(t.Context(), total{"wrong", 1, 1}); err != nil { // which a rebuild removes
		t.Fatal(err)
	}
	fails.Store(true)
	if err := e.Rebuild(t.Context(), "totals", &projection.RebuildOptions{InPlace: true}); !errors.Is(err, no) {
		t.Fatalf("a Clear that fails: %v", err)
	}
	f.inState(other, "totals", projection.Rebuilding)
	fails.Store(false)
	var wg sync.WaitGroup
	var last mainstem.Position
	wg.Go(func() { last = f.payMany(f.rounds(150)) })
	for range 5 {
		if err := e.Rebuild(t.Context(), "totals", &projection.RebuildOptions{InPlace: true}); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	f.waitFor(other, "totals", last)
	f.check(1)
}

// The checkpoints are still those of the rows that a rebuild in place has just removed.
func TestWaitForWhileRowsAreRemoved(t *testing.T) {
	f := newFixture(t)
	p := f.projection("totals", 1, nil)
	var e *projection.Engine
	var last mainstem.Position
	p.WithClear(func(ctx context.Context) error {
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		err := f.totals.Clear(ctx)
		if waited := e.WaitFor(short, "totals", last); !errors.Is(waited, context.DeadlineExceeded) {
			t.Errorf("WaitFor without rows: %v", waited)
		}
		return err
	})
	e = f.start(nil, nil, p)
	last = f.payMany(10)
	f.waitFor(e, "totals", last)
	if err := e.Rebuild(t.Context(), "totals", &projection.RebuildOptions{InPlace: true}); err != nil {
		t.Fatal(err)
	}
	f.waitFor(e, "totals", last)
	f.check(1)
}

// Handlers of another version do not continue with the rows.
func TestVersions(t *testing.T) { onEach(t, testVersions) }

func testVersions(t *testing.T, f *fixture) {
	one := f.start(nil, nil, f.projection("totals", 1, nil))
	f.waitFor(one, "totals", f.payMany(20))
	twice := func(ctx context.Context, tx *projection.Tx, ev paid, r event.Recorded) error {
		return errors.Join(f.add(ctx, tx, ev, r), f.add(ctx, tx, ev, r))
	}
	two := f.start(nil, nil, f.projection("totals", 2, twice))
	s := f.inState(two, "totals", projection.Faulted)
	var wrong *projection.VersionError
	if !errors.As(s.Err, &wrong) || wrong.Have != 1 || wrong.Want != 2 || !errors.Is(s.Err, mainstem.ErrUnavailable) {
		t.Errorf("version 2 beside 1: %v", s.Err)
	}
	last := f.payMany(20)
	f.waitFor(one, "totals", last)
	f.check(1)
	if err := two.Rebuild(t.Context(), "totals", &projection.RebuildOptions{InPlace: true}); err != nil {
		t.Fatal(err)
	}
	f.waitFor(two, "totals", last)
	f.check(2)
	if s := f.inState(one, "totals", projection.Faulted); !errors.As(s.Err, &wrong) || wrong.Have != 2 || wrong.Want != 1 {
		t.Errorf("version 1 beside 2: %v", s.Err)
	}
}

func TestFaults(t *testing.T) { onEach(t, testFaults) }

func testFaults(t *testing.T, f *fixture) {
	var broken atomic.Bool
	broken.Store(true)
	handle := func(ctx context.Context, tx *projection.Tx, ev paid, r event.Recorded) error {
		if broken.Load() {
			panic("as asked")
		}
		return f.add(ctx, tx, ev, r)
	}
	a := &projection.Async{Attempts: 2, Backoff: time.Millisecond}
	e := f.start(&projection.Options{RestartAfter: -1}, a, f.projection("totals", 1, handle))
	last := f.payMany(3)
	var poison *event.PoisonError
	if s := f.inState(e, "totals", projection.Faulted); !errors.As(s.Err, &poison) || poison.Attempts != 2 || s.Position != 0 {
		t.Errorf("a handler that panics: %+v", s)
	}
	broken.Store(false)
	if err := e.Restart(t.Context(), "totals"); err != nil {
		t.Fatal(err)
	}
	f.waitFor(e, "totals", last)
	f.check(1)
	f.stop(e)

	broken.Store(true)
	e = f.start(&projection.Options{RestartAfter: time.Millisecond}, a, f.projection("totals", 1, handle))
	last = f.payMany(3)
	f.inState(e, "totals", projection.Faulted)
	broken.Store(false)
	f.waitFor(e, "totals", last)
	f.check(1)
	f.stop(e)

	broken.Store(true)
	e = f.start(nil, &projection.Async{Attempts: 1, OnPoison: event.ParkPoison}, f.projection("totals", 1, handle))
	f.pay(1, "parked", 1)
	testkit.Eventually(t, "the event to be parked", func() bool {
		for _, err := range f.store.Parked(t.Context(), "totals") {
			return err == nil
		}
		return false
	})
	broken.Store(false)
	delete(f.want, "parked")
	f.waitFor(e, "totals", f.payMany(3))
	f.check(1)
}
