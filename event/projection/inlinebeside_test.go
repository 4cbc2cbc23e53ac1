package projection_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// count returns how many events the rows count that readers see.
func (f *beside) count(ctx context.Context) (n int, err error) {
	rows, err := f.sums.Find(ctx, readmodel.All())
	for _, r := range rows {
		n += r.Count
	}
	return n, err
}

// write appends n payments through s; the rows that readers see have them when it returns. It ends early, with nil, when
// s is refused for its version.
func (f *beside) write(s *projection.InlineStore, n int) error {
	var refused *event.InlineError
	for i := range n {
		if err := f.payInline(s, rand.IntN(10), fmt.Sprint("customer", i%5), 1); err != nil {
			if errors.As(err, &refused) {
				return nil
			}
			return err
		}
	}
	return nil
}

// read reads until done is closed: at no time is there less than before.
func (f *beside) read(done <-chan struct{}) error {
	for seen := 0; ; {
		n, err := f.count(f.t.Context())
		if err != nil {
			return err
		}
		if n < seen {
			return fmt.Errorf("a reader sees %d events, after %d", n, seen)
		}
		seen = n
		select {
		case <-done:
			return nil
		default:
		}
	}
}

// Two processes rebuild while two others append: at all times readers see every event whose append
// has returned.
func TestInlineRebuildBeside(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		f := newBesideOn(t, newFixtureOn(t, log))
		p := f.projection(1, 1)
		stores := []*projection.InlineStore{f.inline(nil, p), f.inline(nil, f.projection(1, 1))}
		if err := f.write(stores[0], 40); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		var all, reader sync.WaitGroup
		check := func(err error) {
			if err != nil {
				t.Error(err)
			}
		}
		reader.Go(func() { check(f.read(done)) })
		for _, s := range stores {
			all.Go(func() { check(f.write(s, 60)) })
			all.Go(func() {
				for range 2 {
					check(s.Rebuild(t.Context(), "sums"))
				}
			})
		}
		all.Wait()
		close(done)
		reader.Wait()
		f.check(1)
		if st := f.inlineStatus("sums"); st.State != projection.Running || st.Building != 0 {
			t.Errorf("%+v", st)
		}
		if names := f.tables(); len(names) < 2 {
			t.Errorf("there are the tables %v: the old ones stay for a while", names)
		}
	})
}

// Old tables are removed when a process opens the store or rebuilds, after the time for which they
// are kept.
func TestInlineOldTablesGo(t *testing.T) {
	f := newBeside(t)
	s := f.inline(&projection.InlineOptions{Keep: time.Nanosecond}, f.projection(1, 1))
	f.mustPayInline(s, 5)
	if err := s.Rebuild(t.Context(), "sums"); err != nil {
		t.Fatal(err)
	}
	if names := f.tables(); fmt.Sprint(names) != "[shop/sums@v2]" {
		t.Errorf("there are the tables %v", names)
	}
	f.check(1)
}

// A new version is built beside. The old version continues, with complete rows, until it is
// refused; WithoutInline marks the projection stale.
func TestInlineVersionsBeside(t *testing.T) {
	f := newBeside(t)
	one := f.inline(nil, f.projection(1, 1))
	if err := f.write(one, 30); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 3 { // processes of the new version
		wg.Go(func() {
			two, err := f.tryInline(&projection.InlineOptions{Rebuild: true}, f.projection(2, 2))
			if err == nil {
				err = f.write(two, 10)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := f.write(one, 1000); err != nil {
		t.Error(err)
	}
	wg.Wait()
	f.check(2)
	var refused *event.InlineError
	if err := f.payInline(one, 1, "ann", 1); !errors.As(err, &refused) {
		t.Errorf("the old version: %v", err)
	}
	var wrong *projection.VersionError
	if _, err := f.tryInline(&projection.InlineOptions{Rebuild: true}, f.projection(1, 1)); !errors.As(err, &wrong) {
		t.Errorf("opened with the old version: %v", err)
	}
	bypass, err := event.Open(f.log, "shop", &event.Options{WithoutInline: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bypass.Append(t.Context(), "order-1", event.AnyVersion, []event.Event{f.event("ann", 5)}); err != nil {
		t.Fatal(err)
	}
	f.expect("ann", 5)
	if st := f.inlineStatus("sums"); !st.Stale {
		t.Errorf("%+v", st)
	}
	f.inline(&projection.InlineOptions{Rebuild: true}, f.projection(2, 2))
	f.check(2)
	if st := f.inlineStatus("sums"); st.Stale || st.Version != 2 {
		t.Errorf("%+v", st)
	}
}

// A process that ends after any of its commits leaves complete tables, and a state from which the
// next process continues, also one of a newer version.
func TestInlineBesideProcessDies(t *testing.T) {
	for _, c := range []struct{ dead, next int }{{1, 1}, {2, 2}, {1, 2}} {
		t.Run(fmt.Sprintf("to version %d, then %d", c.dead, c.next), func(t *testing.T) {
			for n := int64(0); ; n++ {
				f := newBeside(t)
				one := f.inline(nil, f.projection(1, 1))
				f.mustPayInline(one, 5)
				bypass, err := event.Open(f.log, "shop", &event.Options{WithoutInline: true})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := bypass.Append(t.Context(), "order-1", event.AnyVersion, []event.Event{f.event("customer1", 5)}); err != nil {
					t.Fatal(err)
				}
				log := &dying{Log: f.log}
				log.left.Store(n)
				dead := newBesideOn(t, newFixtureOn(t, log))
				_, err = dead.tryInline(&projection.InlineOptions{Rebuild: true}, dead.projection(c.dead, c.dead))
				if err == nil && log.left.Load() >= 0 {
					if n < 5 {
						t.Errorf("it needs %d commits: the test has proved nothing", n)
					}
					return
				}
				if err != nil && !errors.Is(err, mainstem.ErrClosed) {
					t.Fatalf("dead after %d commits: %v", n, err)
				}
				if rows, err := f.count(t.Context()); err != nil || rows < 5 {
					t.Fatalf("dead after %d commits: readers see %d events, %v", n, rows, err)
				}
				err = f.payInline(one, 1, "customer2", 3)
				if rows, counted := f.count(t.Context()); err == nil && (counted != nil || rows < 6) {
					t.Fatalf("dead after %d commits: readers see %d events after another one, %v", n, rows, counted)
				}
				if err != nil && !errors.Is(err, mainstem.ErrUnavailable) {
					t.Fatal(err)
				}
				f.expect("customer1", 5)
				s := f.inline(&projection.InlineOptions{Rebuild: true}, f.projection(c.next, c.next))
				f.mustPayInline(s, 3)
				f.check(c.next)
				if t.Failed() {
					t.Fatalf("dead after %d commits", n)
				}
			}
		})
	}
}

// atWrite is the log of a process that dies after a commit that writes some bytes.
type atWrite struct {
	mainstem.Log
	bytes []byte
	dead  atomic.Bool
}

func (l *atWrite) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if l.dead.Load() {
		return mainstem.Receipt{}, errDead
	}
	r, err := l.Log.Commit(ctx, b)
	for _, w := range b.Writes() {
		if err == nil && bytes.Contains(w.Value, l.bytes) {
			l.dead.Store(true)
		}
	}
	return r, err
}

// Between the end of a rebuild and the exchange of the tables appends write both. From there a
// process may finish the rebuild or remove the projection.
func TestInlineAppendsWriteBoth(t *testing.T) {
	f := newBeside(t)
	s := f.inline(nil, f.projection(1, 1))
	f.mustPayInline(s, 10)
	log := &atWrite{Log: f.log, bytes: []byte(`"next_state":"on"`)}
	dead := newBesideOn(t, newFixtureOn(t, log))
	if err := dead.inline(nil, dead.projection(1, 1)).Rebuild(t.Context(), "sums"); !errors.Is(err, mainstem.ErrClosed) {
		t.Fatalf("the process that dies: %v", err)
	}
	if st := f.inlineStatus("sums"); st.State != projection.Running || st.Building != 2 {
		t.Fatalf("it left %+v", st)
	}
	f.mustPayInline(s, 10)
	f.check(1)
	table, err := f.sums.Version(2)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := table.Find(t.Context(), readmodel.All())
	if err != nil || len(rows) != len(f.want) {
		t.Fatalf("the new table has %d rows, %v", len(rows), err)
	}
	for _, r := range rows {
		if r != f.want[r.Customer] {
			t.Errorf("the new table has %+v, want %+v", r, f.want[r.Customer])
		}
	}
	f.mustPayInline(f.inline(nil, f.projection(1, 1)), 3) // which finishes it
	f.check(1)
	if st := f.inlineStatus("sums"); st.Building != 0 {
		t.Errorf("after another process has opened it: %+v", st)
	}
	log = &atWrite{Log: f.log, bytes: []byte(`"next_state":"on"`)}
	dead = newBesideOn(t, newFixtureOn(t, log))
	if err := dead.inline(nil, dead.projection(1, 1)).Rebuild(t.Context(), "sums"); !errors.Is(err, mainstem.ErrClosed) {
		t.Fatal(err)
	}
	if err := projection.RemoveInline(t.Context(), f.store, "sums"); err != nil {
		t.Fatal(err)
	}
	f.check(1)
	e := f.start(nil, nil, f.projection(1, 1)) // an engine goes on with the tables that are read
	f.waitFor(e, "sums", f.payMany(5))
	f.check(1)
}

// A handler that cannot handle a stored event ends the rebuild, and the projection is as before.
func TestInlineRebuildBesideGivenUp(t *testing.T) {
	f := newBeside(t)
	plain, err := readmodel.Open(f.log, "shop/plain", &readmodel.Options[total]{Key: func(t total) string { return t.Customer }})
	if err != nil {
		t.Fatal(err)
	}
	p, err := projection.New("sums", 1, event.Filter{Category: "order"}, projection.On(
		func(_ context.Context, tx *projection.Tx, ev paid, _ event.Recorded) error {
			projection.Put(tx, plain, total{ev.Customer, ev.Cents, 1}) // of which there is no other version
			return nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	s := f.inline(nil, p.WithTables(f.sums))
	f.mustPayInline(s, 3)
	if err := s.Rebuild(t.Context(), "sums"); !errors.Is(err, mainstem.ErrInvalid) {
		t.Fatalf("a rebuild beside of a table without versions: %v", err)
	}
	if st := f.inlineStatus("sums"); st.State != projection.Running || st.Building != 0 {
		t.Errorf("%+v", st)
	}
	f.mustPayInline(s, 3)
	f.mustPayInline(f.inline(nil, p), 3)
}

// After a power cut at any moment the tables that are read have the stored events, and a rebuild is
// continued.
func TestInlineBesideThroughPowerCuts(t *testing.T) {
	fs := vfs.NewCrashableMem()
	want := make(map[string]total)
	for round := range 8 {
		log, err := pebblelog.Open("data", &pebblelog.Options{FS: fs, MinFree: -1, Durability: mainstem.OS})
		if err != nil {
			t.Fatal(err)
		}
		f := newBesideOn(t, newFixtureOn(t, log))
		if round > 0 {
			f.want = f.replay() // the last commits may be gone
			f.check(1)
		}
		s := f.inline(&projection.InlineOptions{Rebuild: true}, f.projection(1, 1))
		f.check(1)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			for ctx.Err() == nil {
				if err := s.Rebuild(ctx, "sums"); err != nil && !errors.Is(err, mainstem.ErrCanceled) && !errors.Is(err, mainstem.ErrUnavailable) {
					t.Error(err)
					return
				}
			}
		})
		for range 30 + round {
			if err := f.payInline(s, rand.IntN(10), fmt.Sprint("customer", rand.IntN(5)), 1); err != nil {
				t.Error(err)
			}
		}
		cut := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(9, uint64(round)))})
		cancel()
		all.Wait()
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		fs, want = cut, f.want
	}
	if len(want) == 0 {
		t.Error("nothing was written")
	}
}

// replay returns what the events of the store add up to.
func (f *fixture) replay() map[string]total {
	f.t.Helper()
	sum := make(map[string]total)
	for r, err := range f.store.Feed(f.t.Context(), nil) {
		if err != nil {
			f.t.Fatal(err)
		}
		v, err := f.types.Decode(r)
		if err != nil {
			f.t.Fatal(err)
		}
		if ev, ok := v.(paid); ok {
			old := sum[ev.Customer]
			sum[ev.Customer] = total{ev.Customer, old.Cents + ev.Cents, old.Count + 1}
		}
	}
	return sum
}

// A version without tables, which is rebuilt in place, gives up the tables that a version before it
// was building.
func TestInlineVersionWithoutTables(t *testing.T) {
	f := newBeside(t)
	f.mustPayInline(f.inline(nil, f.projection(1, 1)), 130)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	calls := 0
	end := func(string, mainstem.Position, mainstem.Position) { // before the second commit of the rebuild
		if calls++; calls == 2 {
			cancel()
		}
	}
	o := &projection.InlineOptions{Rebuild: true, Progress: end, Logger: discard}
	if _, err := projection.OpenInline(ctx, f.store, f.types, o, f.projection(2, 2)); err == nil {
		t.Fatal("the rebuild has not been cut off")
	}
	if st := f.inlineStatus("sums"); st.Building != 2 || f.position("sums@v2") == 0 {
		t.Fatalf("%+v: want tables of version 2 that are being built", st)
	}
	f.mustPayInline(f.inline(&projection.InlineOptions{Rebuild: true}, f.fixture.projection("sums", 3, nil)), 5)
	f.fixture.check(1)
	if _, err := f.store.Checkpoint(t.Context(), "sums@v2"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("the checkpoint of the tables that are given up: %v, want NotFound", err)
	}
	if names := f.tables(); slices.Contains(names, "shop/sums@v2") {
		t.Errorf("there are the tables %v", names)
	}
}

// TestAppendAgainWithoutTheProjection appends events with IDs again, after an inline append whose
// answer was lost, by a store without the projection: the result is that of the first append.
func TestAppendAgainWithoutTheProjection(t *testing.T) {
	f := newFixture(t)
	s := f.inline(nil, f.projection("totals", 1, f.add))
	for i := range 5 { // the row has another version than the events
		if _, err := s.Append(t.Context(), fmt.Sprint("order-", i), event.NoStream, []event.Event{f.event("ann", 1)}); err != nil {
			t.Fatal(err)
		}
	}
	evs := []event.Event{f.event("ann", 2), f.event("ann", 3), f.event("bob", 4)}
	for i := range evs {
		evs[i].ID = event.NewID()
	}
	first, err := s.Append(t.Context(), "order-9", event.AnyVersion, evs)
	if err != nil {
		t.Fatal(err)
	}
	if err := projection.RemoveInline(t.Context(), f.store, "totals"); err != nil {
		t.Fatal(err)
	}
	for _, before := range []mainstem.Version{1, 3} { // also when the first events have been truncated
		if err := f.store.Truncate(t.Context(), "order-9", before); err != nil {
			t.Fatal(err)
		}
		again, err := f.store.Append(t.Context(), "order-9", event.AnyVersion, evs)
		if err != nil || !again.Duplicate || again.First != first.First || again.Last != first.Last || again.LastPosition != first.LastPosition {
			t.Errorf("truncated below %d: %+v, %v; want %+v", before, again, err, first)
		}
	}
}
