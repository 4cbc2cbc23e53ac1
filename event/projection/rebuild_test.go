package projection_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
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
	"github.com/mainstemdev/mainstem/kv"
)

// beside is a fixture whose table is an alias, and a projection that adds each event to it a number
// of times.
type beside struct {
	*fixture
	sums *readmodel.Alias[total]
}

func newBeside(t testing.TB) *beside {
	t.Helper()
	return newBesideOn(t, newFixture(t))
}

func newBesideOn(t testing.TB, f *fixture) *beside {
	t.Helper()
	sums, err := readmodel.OpenAlias(f.log, "shop/sums", &readmodel.Options[total]{Key: func(t total) string { return t.Customer }})
	if err != nil {
		t.Fatal(err)
	}
	return &beside{f, sums}
}

func (f *beside) projection(version, times int) *projection.Projection {
	f.t.Helper()
	add := func(ctx context.Context, tx *projection.Tx, ev paid, _ event.Recorded) error {
		return projection.Modify(ctx, tx, f.sums, ev.Customer, func(old total, _ bool) (total, error) {
			return total{ev.Customer, old.Cents + times*ev.Cents, old.Count + times}, nil
		})
	}
	p, err := projection.New("sums", version, event.Filter{Category: "order"}, projection.On(add))
	if err != nil {
		f.t.Fatal(err)
	}
	return p.WithTables(f.sums)
}

// check compares what readers see with what the events add up to, times n.
func (f *beside) check(n int) {
	f.t.Helper()
	rows, err := f.sums.Find(f.t.Context(), readmodel.All())
	if err != nil || len(rows) != len(f.want) {
		f.t.Fatalf("%d rows, want %d; %v", len(rows), len(f.want), err)
	}
	for _, r := range rows {
		if w := f.want[r.Customer]; r.Cents != n*w.Cents || r.Count != n*w.Count {
			f.t.Errorf("%+v, want %d times %+v", r, n, w)
		}
	}
}

func (f *beside) tables() (names []string) {
	for table, err := range kv.Tables(f.t.Context(), f.log, "shop") {
		if err != nil {
			f.t.Fatal(err)
		}
		if name := "shop/" + table.Name; name != "shop/totals" {
			names = append(names, name)
		}
	}
	return names
}

// While new tables are built with new handlers, readers see the old ones, complete and up to date;
// then, from one moment on, the new ones. The old ones are kept for a while.
func TestRebuildBeside(t *testing.T) {
	for _, partitions := range []int{1, 5} {
		t.Run(fmt.Sprint(partitions, " partitions"), func(t *testing.T) {
			onEach(t, func(t *testing.T, f *fixture) { rebuildBeside(t, newBesideOn(t, f), partitions) })
		})
	}
}

func rebuildBeside(t *testing.T, f *beside, partitions int) {
	async := &projection.Async{Partitions: partitions, MaxBatch: 7, Backoff: time.Millisecond}
	one := f.start(nil, async, f.projection(1, 1))
	f.waitFor(one, "sums", f.payMany(f.rounds(150)))
	f.check(1)
	two := f.start(nil, async, f.projection(2, 2))
	f.inState(two, "sums", projection.Faulted)

	done := make(chan struct{})
	var others sync.WaitGroup
	var last mainstem.Position
	others.Go(func() { last = f.payUntil(done) })
	others.Go(func() { // a reader: at no time is there less than before, and all rows are of one version
		for seen := 0; ; {
			rows, err := f.sums.Find(t.Context(), readmodel.All())
			if err != nil {
				t.Error(err)
			}
			count := 0
			for _, r := range rows {
				count += r.Count
			}
			if count < seen {
				t.Errorf("a reader sees %d events, after %d", count, seen)
			}
			seen = count
			select {
			case <-done:
				return
			default:
			}
		}
	})
	var handled, of uint64
	err := two.Rebuild(t.Context(), "sums", &projection.RebuildOptions{Keep: time.Nanosecond, Progress: func(done, total uint64) {
		if handled, of = done, total; done > total {
			t.Errorf("%d of %d are done", done, total)
		}
	}})
	if err != nil || handled == 0 || handled != of {
		t.Errorf("%v; Progress has said last that %d of %d are done", err, handled, of)
	}
	close(done)
	others.Wait()
	f.waitFor(two, "sums", last)
	f.check(2)
	f.inState(one, "sums", projection.Faulted)
	testkit.Eventually(t, "the old table to be removed", func() bool { return fmt.Sprint(f.tables()) == "[shop/sums@v2]" })

	f.waitFor(two, "sums", f.payMany(20))
	f.check(2)
	if err := two.Rebuild(t.Context(), "sums", nil); err != nil {
		t.Fatal(err)
	}
	f.check(2)
	if got := fmt.Sprint(f.tables()); got != "[shop/sums@v2 shop/sums@v3]" {
		t.Errorf("tables %v: want the old one and the new", got)
	}
}

// seenFirst is a log whose commit of an alias returns only when its context has ended, with an
// unknown outcome: other goroutines see the new tables first. The first attempts to remove a table
// fail.
type seenFirst struct {
	mainstem.Log
	drops atomic.Int64
}

func (l *seenFirst) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	r, err := l.Log.Commit(ctx, b)
	if !slices.ContainsFunc(b.Writes(), func(w mainstem.Write) bool { return w.Space == "kv/readmodel/aliases" }) {
		return r, err
	}
	<-ctx.Done()
	return mainstem.Receipt{}, &mainstem.Error{Kind: mainstem.KindCanceled, Op: "commit", Outcome: mainstem.Unknown, Err: ctx.Err()}
}

func (l *seenFirst) DropSpace(ctx context.Context, name string) error {
	if l.drops.Add(1) <= 2 {
		return mainstem.Errorf(mainstem.KindUnavailable, "drop", "not yet")
	}
	return l.Log.DropSpace(ctx, name)
}

// The old table is removed when it is due, even if the engine that exchanged the tables does not
// learn of its commit, and if removing it fails at first.
func TestOldTablesGo(t *testing.T) {
	f := newBesideOn(t, newFixtureOn(t, &seenFirst{Log: testengines.Memory(t)}))
	e := f.start(nil, nil, f.projection(1, 1))
	f.waitFor(e, "sums", f.payMany(20))
	if err := e.Rebuild(t.Context(), "sums", &projection.RebuildOptions{Keep: time.Nanosecond}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the old table to be removed", func() bool { return fmt.Sprint(f.tables()) == "[shop/sums@v2]" })
	f.waitFor(e, "sums", f.payMany(5))
	f.check(1)
}

// A rebuild that a process without the projection requests is carried out by the processes that run
// it.
func TestRebuildFromElsewhere(t *testing.T) {
	f := newBeside(t)
	e := f.start(nil, &projection.Async{Backoff: time.Millisecond}, f.projection(1, 1))
	f.waitFor(e, "sums", f.payMany(50))
	elsewhere, err := projection.Open(f.store, f.types, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, inPlace := range []bool{false, true} {
		table, err := f.sums.Current(t.Context())
		if err == nil {
			err = table.Upsert(t.Context(), total{"wrong", 1, 1})
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := elsewhere.Rebuild(t.Context(), "sums", &projection.RebuildOptions{InPlace: inPlace}); err != nil {
			t.Fatal(err)
		}
		f.waitFor(elsewhere, "sums", f.payMany(5))
		f.check(1)
	}
	f.stop(elsewhere)
}

// A rebuild up to a position shows the events up to it, and the projection is paused until it is
// resumed.
func TestRebuildOfARange(t *testing.T) {
	f := newBeside(t)
	e := f.start(nil, &projection.Async{Partitions: 3, Backoff: time.Millisecond}, f.projection(1, 1))
	before := f.payMany(20)
	f.mu.Lock()
	clear(f.want)
	f.mu.Unlock()
	middle := f.payMany(30)
	then := make(map[string]total)
	for k, v := range f.want {
		then[k] = v
	}
	last := f.payMany(30)
	f.waitFor(e, "sums", last)
	if err := e.Rebuild(t.Context(), "sums", &projection.RebuildOptions{From: before, To: middle}); err != nil {
		t.Fatal(err)
	}
	now := f.want
	f.want = then
	f.check(1)
	if s := f.inState(e, "sums", projection.Paused); s.Position != middle || s.Lag != 60 {
		t.Errorf("after the rebuild: %+v", s)
	}
	f.want = now
	if err := e.Resume(t.Context(), "sums"); err != nil {
		t.Fatal(err)
	}
	f.waitFor(e, "sums", last)
	f.check(1)
	for what, o := range map[string]*projection.RebuildOptions{
		"To in place":         {InPlace: true, To: middle},
		"To in the future":    {To: last + 1000},
		"To before From":      {From: middle, To: before},
		"a negative duration": {Keep: -1},
	} {
		if err := e.Rebuild(t.Context(), "sums", o); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%s: %v, want Invalid", what, err)
		}
	}
}

// Engines end at any moment of a rebuild or a change of partitions, as crashes do: the change is
// finished, every event takes effect once, and nothing is left behind.
func TestChangesThatAreCutOff(t *testing.T) {
	f := newBeside(t)
	f.payMany(120)
	var ended atomic.Bool
	var engines sync.WaitGroup
	for range 3 {
		engines.Go(func() {
			for life := 60 * time.Millisecond; !ended.Load(); life += life / 20 { // a slow machine needs longer ones
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(int(life))))
				e, err := projection.Open(f.store, f.types, &projection.Options{Logger: discard, TTL: 300 * time.Millisecond})
				err = errors.Join(err, e.Register(f.projection(1, 1), &projection.Async{Partitions: rand.IntN(4), MaxBatch: 1 + rand.IntN(20), Backoff: time.Millisecond}), e.Start(ctx))
				if err != nil {
					t.Error(err)
				}
				if rand.IntN(3) == 0 {
					_ = e.Rebuild(ctx, "sums", &projection.RebuildOptions{InPlace: rand.IntN(4) == 0, Keep: 1})
				}
				<-ctx.Done()
				f.stop(e)
				cancel()
			}
		})
	}
	for range 40 {
		f.payMany(5)
	}
	testkit.Eventually(t, "two rebuilds to be done", func() bool {
		current, err := f.sums.Current(t.Context())
		if err != nil {
			return false
		}
		_, version, _ := strings.Cut(current.Bucket().Name(), "@v")
		n, _ := strconv.Atoi(version) // 0 for the table without a version
		return n >= 3
	})
	ended.Store(true)
	engines.Wait()
	e := f.start(nil, &projection.Async{Partitions: 2, Backoff: time.Millisecond}, f.projection(1, 1))
	f.waitFor(e, "sums", f.payMany(5))
	if err := e.Rebuild(t.Context(), "sums", &projection.RebuildOptions{Keep: 1}); err != nil {
		t.Fatal(err)
	}
	f.waitFor(e, "sums", f.payMany(5))
	f.check(1)
	testkit.Eventually(t, "nothing but the table and two checkpoints to be left", func() bool {
		n := 0
		for _, err := range f.store.Checkpoints(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return len(f.tables()) == 1 && n == 2
	})
}

// Through their Tx, handlers must not write tables that a rebuild beside would write twice.
func TestTablesOfOthers(t *testing.T) {
	f := newBeside(t)
	foreign := func(ctx context.Context, tx *projection.Tx, ev paid, r event.Recorded) error {
		projection.Put(tx, f.sums, total{ev.Customer, 1, 1})
		return nil
	}
	p, err := projection.New("foreign", 1, event.Filter{Category: "order"}, projection.On(foreign))
	if err != nil {
		t.Fatal(err)
	}
	f.pay(1, "x", 1)
	e := f.start(&projection.Options{RestartAfter: -1}, &projection.Async{Attempts: 1}, p)
	if s := f.inState(e, "foreign", projection.Faulted); !errors.Is(s.Err, mainstem.ErrInvalid) {
		t.Errorf("an alias that is not the projection's own: %v, want Invalid", s.Err)
	}
	mixed, err := projection.New("mixed", 1, event.Filter{Category: "order"}, projection.On(f.add))
	if err != nil {
		t.Fatal(err)
	}
	e = f.start(&projection.Options{RestartAfter: -1}, &projection.Async{Attempts: 1}, mixed.WithTables(f.sums))
	f.waitFor(e, "mixed", f.pay(1, "x", 1))
	f.fixture.check(1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 1)
	go func() { failed <- e.Rebuild(ctx, "mixed", nil) }()
	testkit.Eventually(t, "the rebuild to be refused", func() bool {
		s, err := e.Status(t.Context(), "mixed")
		return err == nil && errors.Is(s.Err, mainstem.ErrInvalid)
	})
	cancel()
	<-failed
	f.fixture.check(1)
}
