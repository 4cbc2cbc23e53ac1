package projection_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// Programs without the projections, or with others, are refused with an error that names the
// projections.
func TestInlineOthersAreRefused(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		f := newFixtureOn(t, log)
		f.pay(1, "ann", 5) // before there are any
		s := f.inline(nil, f.projection("totals", 3, nil))
		plain, err := event.Open(log, "shop", nil)
		if err != nil {
			t.Fatal(err)
		}
		b := mainstem.NewBatch()
		plain.AppendTo(b, "order-2", event.AnyVersion, []event.Event{f.event("ann", 1)})
		_, inBatch := log.Commit(t.Context(), b)
		_, atOnce := plain.Append(t.Context(), "order-2", event.AnyVersion, []event.Event{f.event("ann", 1)})
		_, without := f.tryInline(nil, f.projection("others", 1, nil))
		for what, err := range map[string]error{"in a batch": inBatch, "at once": atOnce, "opened with others": without} {
			var refused *event.InlineError
			if !errors.As(err, &refused) && what != "opened with others" || !errors.Is(err, mainstem.ErrUnavailable) || !strings.Contains(err.Error(), "totals version 3") {
				t.Errorf("%s: %v", what, err)
			}
			if mainstem.KindOf(err) != mainstem.KindUnavailable {
				t.Errorf("%s: the kind is %v", what, mainstem.KindOf(err))
			}
		}
		if err := f.payInline(s, 1, "ann", 7); err != nil {
			t.Error(err)
		}
		f.check(1)

		// What does not append is not refused.
		if err := plain.Archive(t.Context(), "order-1"); err != nil {
			t.Error(err)
		}
	})
}

// WithoutInline appends, and marks the projections stale until they are rebuilt.
func TestWithoutInline(t *testing.T) {
	f := newFixture(t)
	s := f.inline(nil, f.projection("totals", 1, nil))
	f.mustPayInline(s, 10)
	bypass, err := event.Open(f.log, "shop", &event.Options{WithoutInline: true})
	if err != nil {
		t.Fatal(err)
	}
	if st := f.inlineStatus("totals"); st.Stale {
		t.Errorf("before: %+v", st)
	}
	a, err := bypass.Append(t.Context(), "order-5", event.AnyVersion, []event.Event{f.event("ann", 5), f.event("ann", 6)})
	if err != nil || a.LastPosition != a.FirstPosition+1 || a.Last != a.First+1 {
		t.Fatalf("%+v, %v", a, err)
	}
	f.expect("ann", 5)
	f.expect("ann", 6)
	if st := f.inlineStatus("totals"); !st.Stale || st.State != projection.Running {
		t.Errorf("after: %+v", st)
	}
	if _, err := f.totals.Get(t.Context(), "ann"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("the row: %v", err)
	}
	f.mustPayInline(s, 3) // those with the projections go on
	f.inline(nil, f.projection("totals", 1, nil))
	if st := f.inlineStatus("totals"); !st.Stale {
		t.Error("opening it has removed the mark")
	}
	f.inline(&projection.InlineOptions{Rebuild: true}, f.projection("totals", 1, nil))
	if st := f.inlineStatus("totals"); st.Stale || st.State != projection.Running {
		t.Errorf("rebuilt: %+v", st)
	}
	f.check(1)
	f.mustPayInline(s, 3)
	f.check(1)
}

// A stale projection stays stale when it is removed and opened again, or run by an engine, until it
// is rebuilt.
func TestRemoveInlineStaysStale(t *testing.T) {
	for what, rebuild := range map[string]func(f *fixture, p *projection.Projection) error{
		"inline": func(f *fixture, p *projection.Projection) error {
			f.inline(nil, p)
			if st := f.inlineStatus("totals"); !st.Stale {
				t.Error("opened again, it is not stale")
			}
			_, err := f.tryInline(&projection.InlineOptions{Rebuild: true}, p)
			if st := f.inlineStatus("totals"); st.Stale {
				t.Error("rebuilt, it is still stale")
			}
			return err
		},
		"engine": func(f *fixture, p *projection.Projection) error {
			e := f.start(nil, nil, p)
			if st := f.inState(e, "totals", projection.Running); !st.Stale {
				t.Error("in an engine, it is not stale")
			}
			err := e.Rebuild(t.Context(), "totals", &projection.RebuildOptions{InPlace: true})
			if st := f.inState(e, "totals", projection.Running); st.Stale {
				t.Error("rebuilt, it is still stale")
			}
			head, herr := f.log.Head(t.Context())
			f.waitFor(e, "totals", head)
			return errors.Join(err, herr)
		},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t)
			p := f.projection("totals", 1, nil)
			f.mustPayInline(f.inline(nil, p), 5)
			bypass, err := event.Open(f.log, "shop", &event.Options{WithoutInline: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := bypass.Append(t.Context(), "order-5", event.AnyVersion, []event.Event{f.event("ann", 5)}); err != nil {
				t.Fatal(err)
			}
			f.expect("ann", 5)
			if err := projection.RemoveInline(t.Context(), f.store, "totals"); err != nil {
				t.Fatal(err)
			}
			if err := rebuild(f, p); err != nil {
				t.Fatal(err)
			}
			f.check(1)
		})
	}
}

// A projection is removed while a rebuild in place has not finished: an engine finishes it.
func TestRemoveInlineInARebuild(t *testing.T) {
	f := newFixture(t)
	no := errors.New("no")
	s := f.inline(nil, f.projection("totals", 1, nil).WithClear(func(context.Context) error { return no }))
	f.mustPayInline(s, 10)
	if err := s.Rebuild(t.Context(), "totals"); !errors.Is(err, no) {
		t.Fatalf("%v, want %v", err, no)
	}
	if err := projection.RemoveInline(t.Context(), f.store, "totals"); err != nil {
		t.Fatal(err)
	}
	last := f.payMany(3)
	e := f.start(nil, nil, f.projection("totals", 1, nil))
	f.inState(e, "totals", projection.Running)
	f.waitFor(e, "totals", last)
	f.check(1)
}

// A projection of a store with events is switched on while events are appended. No event is lost or
// counted twice: appends by programs without the projection are refused from the commit that
// switches it on.
func TestInlineCatchUp(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		f := newFixtureOn(t, log)
		f.payMany(40)
		var wg sync.WaitGroup
		var stop atomic.Bool
		appended := make(chan struct{})
		for g := range 2 {
			wg.Go(func() {
				var refused *event.InlineError
				for n := 0; n < 150 && !stop.Load(); n++ {
					_, err := f.store.Append(t.Context(), fmt.Sprint("order-", g), event.AnyVersion, []event.Event{f.event("ann", 1)})
					switch {
					case err == nil:
						f.expect("ann", 1)
						if n == 0 {
							appended <- struct{}{}
						}
					case errors.As(err, &refused):
						return
					default:
						t.Error(err)
						return
					}
				}
			})
		}
		<-appended
		<-appended
		var opened sync.WaitGroup
		stores := make([]*projection.InlineStore, 3)
		for i := range stores { // three processes that start at once
			opened.Go(func() {
				s, err := f.tryInline(nil, f.projection("totals", 1, nil))
				if err != nil {
					t.Error(err)
				}
				stores[i] = s
			})
		}
		opened.Wait()
		for _, s := range stores {
			if s != nil {
				f.mustPayInline(s, 2)
			}
		}
		stop.Store(true)
		wg.Wait()
		f.check(1)
		if f.position("totals") != 0 {
			t.Error("it has a checkpoint besides the commits of the events")
		}
	})
}

// A projection of an engine becomes inline, and back, without a rebuild.
func TestInlineFromEngineAndBack(t *testing.T) {
	f := newFixture(t)
	p := f.projection("totals", 1, nil)
	e := f.start(nil, nil, p)
	f.waitFor(e, "totals", f.payMany(30))
	s := f.inline(nil, p)
	if st := f.inState(e, "totals", projection.Faulted); !errors.Is(st.Err, mainstem.ErrUnavailable) || !strings.Contains(st.Err.Error(), "inline") {
		t.Errorf("in the engine: %+v", st)
	}
	f.mustPayInline(s, 10)
	f.check(1)
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for what, err := range map[string]error{
		"pause":   e.Pause(t.Context(), "totals"),
		"rebuild": e.Rebuild(t.Context(), "totals", &projection.RebuildOptions{InPlace: true}),
		"wait":    e.WaitFor(soon, "totals", 1),
	} {
		if !errors.Is(err, mainstem.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := projection.RemoveInline(t.Context(), f.store, "totals"); err != nil {
		t.Fatal(err)
	}
	if err := projection.RemoveInline(t.Context(), f.store, "totals"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
	var refused *event.InlineError
	if err := f.payInline(s, 1, "ann", 1); !errors.As(err, &refused) || !strings.Contains(err.Error(), "no inline projections") {
		t.Errorf("an append with it: %v", err)
	}
	last := f.payMany(10)
	f.waitFor(e, "totals", last)
	f.check(1)
	f.stop(e)
	f.payMany(10)
	f.mustPayInline(f.inline(nil, p), 5) // from its checkpoint
	f.check(1)
}

// A projection that an engine has divided into partitions does not become inline in a new version.
// Its rows stay.
func TestInlineFromPartitions(t *testing.T) {
	f := newFixture(t)
	async := &projection.Async{Partitions: 3}
	e := f.start(nil, async, f.projection("totals", 1, nil))
	f.waitFor(e, "totals", f.payMany(30))
	if _, err := f.tryInline(&projection.InlineOptions{Rebuild: true}, f.projection("totals", 2, nil)); !errors.Is(err, mainstem.ErrUnavailable) || !strings.Contains(err.Error(), "partitions") {
		t.Errorf("opened with version 2: %v", err)
	}
	f.check(1)
	f.waitFor(e, "totals", f.payMany(5))
	f.check(1)
}

// After a rebuild while events are appended the rows are equal to the sum of the events.
func TestInlineRebuild(t *testing.T) {
	f := newFixture(t)
	p := f.projection("totals", 1, nil)
	s, other := f.inline(nil, p), f.inline(nil, f.projection("totals", 1, nil))
	f.mustPayInline(s, 100)
	if err := f.totals.Upsert(t.Context(), total{"wrong", 1, 1}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, s := range []*projection.InlineStore{s, other} {
		wg.Go(func() {
			for range 100 {
				if err := f.payInline(s, rand.IntN(10), fmt.Sprint("customer", rand.IntN(5)), 1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, s := range []*projection.InlineStore{s, other} { // two at a time
		wg.Go(func() {
			for range 3 {
				if err := s.Rebuild(t.Context(), "totals"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	f.check(1)
	if err := s.Rebuild(t.Context(), "unknown"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
}

// After a rebuild that failed appends continue, and the next rebuild, or opening the store,
// finishes it.
func TestInlineRebuildFails(t *testing.T) {
	f := newFixture(t)
	p := f.projection("totals", 1, nil)
	var broken atomic.Bool
	no := errors.New("no")
	p.WithClear(func(ctx context.Context) error {
		if err := f.totals.Clear(ctx); err != nil || !broken.Load() {
			return err
		}
		return no
	})
	s := f.inline(nil, p)
	for _, finish := range []func() error{
		func() error { return s.Rebuild(t.Context(), "totals") },
		func() error { _, err := f.tryInline(nil, p); return err },
	} {
		f.mustPayInline(s, 10)
		broken.Store(true)
		if err := s.Rebuild(t.Context(), "totals"); !errors.Is(err, no) {
			t.Fatalf("%v, want %v", err, no)
		}
		f.mustPayInline(s, 10)
		if st := f.inlineStatus("totals"); st.State != projection.Rebuilding || st.Lag == 0 {
			t.Errorf("%+v", st)
		}
		if n, err := f.totals.Count(t.Context(), readmodel.All()); n != 0 || err != nil {
			t.Errorf("%d rows, %v", n, err)
		}
		broken.Store(false)
		if err := finish(); err != nil {
			t.Fatal(err)
		}
		f.mustPayInline(s, 10)
		f.check(1)
	}
}

// A new version is deployed: it rebuilds, and programs of the old version fail when that is
// finished, until they are opened in the new version.
func TestInlineVersions(t *testing.T) {
	f := newFixture(t)
	one := f.inline(nil, f.projection("totals", 1, nil))
	f.mustPayInline(one, 20)
	twice := func(ctx context.Context, tx *projection.Tx, ev paid, r event.Recorded) error {
		return errors.Join(f.add(ctx, tx, ev, r), f.add(ctx, tx, ev, r))
	}
	var wrong *projection.VersionError
	if _, err := f.tryInline(nil, f.projection("totals", 2, twice)); !errors.As(err, &wrong) || wrong.Have != 1 || wrong.Want != 2 {
		t.Fatalf("version 2 beside 1: %v", err)
	}
	var clears, clearing atomic.Int64
	var wg sync.WaitGroup
	for range 4 { // four processes of the new version at once
		wg.Go(func() {
			p := f.projection("totals", 2, twice).WithClear(func(ctx context.Context) error {
				clears.Add(1)
				if clearing.Add(1) > 1 {
					t.Error("two remove the rows at a time")
				}
				defer clearing.Add(-1)
				return f.totals.Clear(ctx)
			})
			two, err := f.tryInline(&projection.InlineOptions{Rebuild: true}, p)
			if err != nil {
				t.Error(err)
				return
			}
			if err := f.payInline(two, 1, "ann", 2); err != nil {
				t.Error(err)
			}
		})
	}
	var refused *event.InlineError
	testkit.Eventually(t, "the old version to be refused", func() bool {
		err := f.payInline(one, 1, "ann", 1)
		if err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
		return err != nil
	})
	wg.Wait()
	if !strings.Contains(refused.Error(), "totals version 2 now, and this program includes totals version 1") {
		t.Errorf("the old version: %v", refused)
	}
	f.check(2)
	if clears.Load() != 1 {
		t.Errorf("it was rebuilt %d times", clears.Load())
	}
	if _, err := f.tryInline(&projection.InlineOptions{Rebuild: true}, f.projection("totals", 1, nil)); !errors.As(err, &wrong) || wrong.Have != 2 {
		t.Errorf("back to version 1: %v", err)
	}
	f.check(2)
}

// A second projection is added while a program that has only the first one appends.
func TestInlineSecondProjection(t *testing.T) {
	f := newFixture(t)
	first := f.inline(nil, f.projection("totals", 1, nil))
	f.mustPayInline(first, 30)
	counts, err := readmodel.Open(f.log, "shop/counts", &readmodel.Options[total]{Key: func(t total) string { return t.Customer }})
	if err != nil {
		t.Fatal(err)
	}
	count := f.projection("counts", 1, func(ctx context.Context, tx *projection.Tx, ev paid, _ event.Recorded) error {
		return projection.Modify(ctx, tx, counts, ev.Customer, func(old total, _ bool) (total, error) {
			return total{ev.Customer, 0, old.Count + 1}, nil
		})
	})
	both := f.inline(nil, f.projection("totals", 1, nil), count)
	var refused *event.InlineError
	if err := f.payInline(first, 1, "ann", 1); !errors.As(err, &refused) || !strings.Contains(err.Error(), "totals version 1, counts version 1 now") {
		t.Errorf("the program with one: %v", err)
	}
	f.mustPayInline(both, 10)
	f.check(1)
	for _, w := range f.want {
		if got, err := counts.Get(t.Context(), w.Customer); err != nil || got.Count != w.Count {
			t.Errorf("%+v, %v, want %d", got, err, w.Count)
		}
	}
	if err := projection.RemoveInline(t.Context(), f.store, "counts"); err != nil {
		t.Fatal(err)
	}
	f.mustPayInline(first, 3) // it has what there is again
	f.check(1)
}

// A store that is dropped and created again has no inline projections at first.
func TestInlineDroppedStore(t *testing.T) {
	f := newFixture(t)
	s := f.inline(nil, f.projection("totals", 1, nil))
	f.mustPayInline(s, 5)
	if err := errors.Join(f.store.Drop(t.Context()), f.totals.Clear(t.Context())); err != nil {
		t.Fatal(err)
	}
	f.want = make(map[string]total)
	var refused *event.InlineError
	if err := f.payInline(s, 1, "ann", 1); !errors.As(err, &refused) {
		t.Errorf("an append to the new store: %v", err)
	}
	f.payMany(5)
	f.mustPayInline(f.inline(nil, f.projection("totals", 1, nil)), 5)
	f.check(1)
}

func TestInlineRefusals(t *testing.T) {
	f := newFixture(t)
	p := f.projection("p", 1, nil)
	part, err := projection.New("part", 1, event.Filter{Partitions: 4, Partition: 1}, projection.On(f.add))
	if err != nil {
		t.Fatal(err)
	}
	open := func(store *event.Store, types *event.Types, o *projection.InlineOptions, ps ...*projection.Projection) error {
		_, err := projection.OpenInline(t.Context(), store, types, o, ps...)
		return err
	}
	for what, err := range map[string]error{
		"no store":       open(nil, f.types, nil, p),
		"no types":       open(f.store, nil, nil, p),
		"no projections": open(f.store, f.types, nil),
		"nil projection": open(f.store, f.types, nil, nil),
		"retries":        open(f.store, f.types, &projection.InlineOptions{Retries: -2}, p),
		"remove nil":     projection.RemoveInline(t.Context(), nil, "p"),
		"a partition":    open(f.store, f.types, nil, part),
	} {
		if !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%s: %v, want Invalid", what, err)
		}
	}
	if err := open(f.store, f.types, nil, p, p); !errors.Is(err, mainstem.ErrExists) {
		t.Errorf("twice: %v", err)
	}
	f.payMany(3)
	no := errors.New("no")
	poison := f.projection("poison", 1, func(context.Context, *projection.Tx, paid, event.Recorded) error { return no })
	if _, err := f.tryInline(nil, poison); !errors.Is(err, no) {
		t.Errorf("a handler that cannot handle what is there: %v", err)
	}
	f.payMany(1) // appends are as before
	if err := open(f.store, f.types, nil, p); err != nil {
		t.Error(err)
	}
	bare, err := projection.New("bare", 1, event.Filter{}, projection.On(f.add))
	if err != nil {
		t.Fatal(err)
	}
	s := f.inline(nil, p, bare)
	if err := s.Rebuild(t.Context(), "bare"); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("a rebuild without Clear: %v", err)
	}
	if _, err := s.Status(t.Context(), "x"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("the status of another: %v", err)
	}
}
