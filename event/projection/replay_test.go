package projection_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
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

// wanted returns what the events so far add up to.
func (f *fixture) wanted() map[string]total {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.want)
}

// checkTable compares the rows of a table with those wanted.
func (f *fixture) checkTable(name string, want map[string]total) {
	f.t.Helper()
	table, err := readmodel.OpenAs(f.totals, name)
	if err != nil {
		f.t.Fatal(err)
	}
	rows, err := table.Find(f.t.Context(), readmodel.All())
	if err != nil {
		f.t.Fatal(err)
	}
	got := make(map[string]total)
	for _, r := range rows {
		got[r.Customer] = r
	}
	if !maps.Equal(got, want) {
		f.t.Errorf("table %s has %v, want %v", name, got, want)
	}
}

// into is ReplayOptions for the only table of a projection.
func into(table string, until mainstem.Position) *projection.ReplayOptions {
	return &projection.ReplayOptions{Into: map[string]string{"": table}, Until: until}
}

// A replay writes what the read model was at a position or a time to another table; the projection
// goes on meanwhile and is not changed.
func TestReplay(t *testing.T) {
	onEach(t, func(t *testing.T, plain *fixture) {
		f := newBesideOn(t, plain)
		async := &projection.Async{Partitions: 3, MaxBatch: 7, Backoff: time.Millisecond}
		e := f.start(nil, async, f.projection(1, 1))
		middle := f.payMany(f.rounds(80))
		then := f.wanted()
		after := f.payMany(f.rounds(40))
		done := make(chan struct{})
		last := make(chan mainstem.Position, 1)
		go func() { last <- f.payUntil(done) }()
		handled := uint64(0)
		o := into("shop/then", middle)
		o.Progress = func(done, total uint64) {
			if handled = done; done > total || total != uint64(middle) {
				t.Errorf("%d of %d are done", done, total)
			}
		}
		err := e.Replay(t.Context(), "sums", o)
		close(done)
		end := <-last
		if err != nil || handled != uint64(middle) {
			t.Fatalf("%v; Progress has said last that %d of %d are done", err, handled, middle)
		}
		f.checkTable("shop/then", then)
		f.waitFor(e, "sums", max(end, after))
		f.check(1)

		if s := f.inState(e, "sums", projection.Running); s.Replay != nil || s.Building != 0 {
			t.Errorf("after the replay: %+v", s)
		}
		testkit.Eventually(t, "no checkpoint of the replay to be left", func() bool {
			n := 0
			for _, err := range f.store.Checkpoints(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			return n == 3
		})
	})
}

// A time selects all events that were committed at it or before, whatever lies between positions.
func TestReplayUntilATime(t *testing.T) {
	f := newBeside(t)
	e := f.start(nil, &projection.Async{Backoff: time.Millisecond}, f.projection(1, 1))
	f.payMany(40)
	var times []time.Time
	var counts []int
	for r, err := range f.store.Feed(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Type != "Paid" {
			continue
		}
		if n := len(times); n > 0 && times[n-1].Equal(r.Time) {
			counts[n-1]++
			continue
		}
		times, counts = append(times, r.Time), append(counts, 1)
	}
	sum := 0
	for i, at := range times {
		sum += counts[i]
		if i%7 != 0 && i != len(times)-1 {
			continue
		}
		table := fmt.Sprint("shop/at", i)
		if err := e.Replay(t.Context(), "sums", &projection.ReplayOptions{Into: map[string]string{"shop/sums": table}, UntilTime: at}); err != nil {
			t.Fatal(err)
		}
		if got := f.countOf(table); got != sum {
			t.Errorf("at time %d of %d: %d events, want %d", i, len(times), got, sum)
		}
	}
	for what, at := range map[string]time.Time{"before the first event": times[0].Add(-1), "in the year 1": time.Unix(-60e9, 0)} {
		o := &projection.ReplayOptions{Into: map[string]string{"": "shop/none"}, UntilTime: at}
		if err := e.Replay(t.Context(), "sums", o); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%s: %v, want Invalid", what, err)
		}
	}
}

// countOf returns the number of events that the rows of a table add up to.
func (f *beside) countOf(name string) (n int) {
	f.t.Helper()
	table, err := readmodel.OpenAs(f.sums, name)
	if err != nil {
		f.t.Fatal(err)
	}
	rows, err := table.Find(f.t.Context(), readmodel.All())
	if err != nil {
		f.t.Fatal(err)
	}
	for _, r := range rows {
		n += r.Count
	}
	return n
}

// A program without the handlers requests a replay; those that run the projection carry it out, also
// while it is paused.
func TestReplayFromElsewhere(t *testing.T) {
	f := newBeside(t)
	e := f.start(nil, &projection.Async{Backoff: time.Millisecond}, f.projection(1, 1))
	middle := f.payMany(50)
	then := f.wanted()
	f.waitFor(e, "sums", f.payMany(10))
	elsewhere, err := projection.Open(f.store, f.types, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.stop(elsewhere)
	if err := elsewhere.Pause(t.Context(), "sums"); err != nil {
		t.Fatal(err)
	}
	if err := elsewhere.Replay(t.Context(), "sums", into("shop/then", middle)); err != nil {
		t.Fatal(err)
	}
	f.checkTable("shop/then", then)
	if err := elsewhere.Resume(t.Context(), "sums"); err != nil {
		t.Fatal(err)
	}
	f.waitFor(e, "sums", f.payMany(5))
	f.check(1)

	if err := elsewhere.Replay(t.Context(), "nothing", into("shop/x", middle)); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("an unknown projection: %v, want NotFound", err)
	}
	for what, o := range map[string]*projection.ReplayOptions{
		"no options":            nil,
		"no table":              {Until: middle},
		"a table not named":     {Into: map[string]string{"shop/other": "shop/x"}},
		"its own table":         into("shop/sums", 0),
		"a version of its own":  into("shop/sums@v2", 0),
		"a wrong name":          into("shop/", 0),
		"two for one":           {Into: map[string]string{"": "shop/x", "shop/sums": "shop/y"}},
		"one for two":           {Into: map[string]string{"shop/sums": "shop/x", "shop/other": "shop/x"}},
		"the future":            into("shop/x", middle+1000),
		"a position and a time": {Into: map[string]string{"": "shop/x"}, Until: 1, UntilTime: time.Now()},
	} {
		if err := elsewhere.Replay(t.Context(), "sums", o); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%s: %v, want Invalid", what, err)
		}
	}
	if err := elsewhere.Replay(t.Context(), "sums", into("shop/then", middle)); !errors.Is(err, mainstem.ErrExists) {
		t.Errorf("a table that has entries: %v, want Exists", err)
	}
}

// Several tables without versions are replayed too. What a handler writes past its Tx, or to a table
// that was not named, fails the replay and not the projection.
func TestReplayOfPlainTables(t *testing.T) {
	f := newFixture(t)
	other, err := readmodel.OpenAs(f.totals, "shop/others")
	if err != nil {
		t.Fatal(err)
	}
	var aside atomic.Bool
	p := f.projection("both", 1, func(ctx context.Context, tx *projection.Tx, ev paid, r event.Recorded) error {
		projection.Put(tx, other, total{ev.Customer, ev.Cents, 1})
		if aside.Load() {
			other.Bucket().PutTo(tx.Batch(), "x", total{Customer: "x"})
		}
		return f.add(ctx, tx, ev, r)
	})
	e := f.start(&projection.Options{RestartAfter: -1}, &projection.Async{Attempts: 1}, p)
	f.waitFor(e, "both", f.payMany(30))
	both := &projection.ReplayOptions{Into: map[string]string{"shop/totals": "old/totals", "shop/others": "old/others"}}
	if err := e.Replay(t.Context(), "both", both); err != nil {
		t.Fatal(err)
	}
	f.checkTable("old/totals", f.wanted())
	if err := e.Replay(t.Context(), "both", &projection.ReplayOptions{Into: map[string]string{"shop/totals": "old/x"}}); !errors.Is(err, mainstem.ErrUnavailable) {
		t.Errorf("a table that was not named: %v, want Unavailable", err)
	}
	if err := e.CancelReplay(t.Context(), "both"); err != nil {
		t.Fatal(err)
	}
	aside.Store(true)
	o := &projection.ReplayOptions{Into: map[string]string{"shop/totals": "old/y", "shop/others": "old/z"}}
	if err := e.Replay(t.Context(), "both", o); !errors.Is(err, mainstem.ErrUnavailable) {
		t.Errorf("a write to the batch: %v, want Unavailable", err)
	}
	s := f.inState(e, "both", projection.Running)
	if s.Replay == nil || s.Replay.Err == nil || s.Replay.Into["shop/others"] != "old/z" {
		t.Errorf("the replay that is faulted: %+v", s)
	}
	f.checkTable("old/y", map[string]total{})
	f.check(1)
}

// A replay that meets an event that it cannot handle says so, and goes on after Skip; another replay
// replaces it.
func TestReplayIsFaulted(t *testing.T) {
	f := newBeside(t)
	var bad atomic.Bool
	joined := make(chan struct{})
	p, err := projection.New("sums", 1, event.Filter{Category: "order"}, projection.On(
		func(ctx context.Context, tx *projection.Tx, ev paid, _ event.Recorded) error {
			switch {
			case bad.Load() && ev.Customer == "bad":
				return errors.New("as asked")
			case bad.Load() && ev.Customer == "last": // the replay is under way until another request has joined it
				select {
				case <-joined:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return projection.Modify(ctx, tx, f.sums, ev.Customer, func(old total, _ bool) (total, error) {
				return total{ev.Customer, old.Cents + ev.Cents, old.Count + 1}, nil
			})
		}))
	if err != nil {
		t.Fatal(err)
	}
	f.payMany(20)
	f.pay(3, "bad", 1)
	f.payMany(20)
	last := f.pay(3, "last", 1)
	e := f.start(&projection.Options{RestartAfter: -1}, &projection.Async{Attempts: 1}, p.WithTables(f.sums))
	f.waitFor(e, "sums", last)
	bad.Store(true)
	err = e.Replay(t.Context(), "sums", into("shop/one", last))
	if !errors.Is(err, mainstem.ErrUnavailable) {
		t.Fatalf("%v, want Unavailable", err)
	}
	s := f.inState(e, "sums", projection.Running)
	if s.Replay == nil || s.Replay.Err == nil || s.Replay.Until != last || s.Replay.Position >= last {
		t.Fatalf("the replay is %+v", s.Replay)
	}
	parked, err := e.Skip(t.Context(), "sums")
	if err != nil || len(parked) != 1 {
		t.Fatal(parked, err)
	}
	o := into("shop/one", 0) // joins it
	var once sync.Once
	o.Progress = func(uint64, uint64) { once.Do(func() { close(joined) }) }
	if err := e.Replay(t.Context(), "sums", o); err != nil {
		t.Fatal(err)
	}
	want := f.wanted()
	delete(want, "bad")
	f.checkTable("shop/one", want)
	testkit.Eventually(t, "nothing parked to be left", func() bool {
		for range f.store.ParkedUnder(t.Context(), "sums@") {
			return false
		}
		return true
	})

	o = into("shop/two", last)
	o.NoWait = true
	if err := e.Replay(t.Context(), "sums", o); err != nil {
		t.Fatal(err)
	}
	bad.Store(false)
	if err := e.Replay(t.Context(), "sums", into("shop/three", last)); err != nil {
		t.Fatal(err)
	}
	f.checkTable("shop/three", f.wanted())
	f.check(1)
}

// A replay was finished, also if the call that waits for it looks only after the next one was finished
// too.
func TestReplayAfterReplay(t *testing.T) {
	f := newBeside(t)
	var holding atomic.Bool
	hold := make(chan struct{})
	p, err := projection.New("sums", 1, event.Filter{Category: "order"}, projection.On(
		func(ctx context.Context, tx *projection.Tx, ev paid, _ event.Recorded) error {
			if holding.Load() {
				select {
				case <-hold:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return projection.Modify(ctx, tx, f.sums, ev.Customer, func(old total, _ bool) (total, error) {
				return total{ev.Customer, old.Cents + ev.Cents, old.Count + 1}, nil
			})
		}))
	if err != nil {
		t.Fatal(err)
	}
	last := f.payMany(20)
	e := f.start(nil, nil, p.WithTables(f.sums))
	f.waitFor(e, "sums", last)
	holding.Store(true)
	var others sync.Once
	o := into("shop/one", last)
	o.Progress = func(uint64, uint64) {
		others.Do(func() {
			close(hold)
			testkit.Eventually(t, "the replay to be finished", func() bool {
				s, err := e.Status(t.Context(), "sums")
				return err == nil && s.Replay == nil
			})
			for _, table := range []string{"shop/two", "shop/three"} {
				if err := e.Replay(t.Context(), "sums", into(table, last)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if err := e.Replay(t.Context(), "sums", o); err != nil {
		t.Error(err)
	}
	for _, table := range []string{"shop/one", "shop/two", "shop/three"} {
		f.checkTable(table, f.wanted())
	}
}

// Engines end at any moment of a replay, as crashes do, while the projection is rebuilt and divided
// otherwise: every event takes effect once.
func TestReplayThatIsCutOff(t *testing.T) {
	f := newBeside(t)
	middle := f.payMany(testengines.Rounds(f.log, 300))
	then := f.wanted()
	last := f.payMany(20)
	requested := false
	for life := 10 * time.Millisecond; ; life += life / 10 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(int(life))))
		e, err := projection.Open(f.store, f.types, &projection.Options{Logger: discard, TTL: 300 * time.Millisecond})
		err = errors.Join(err, e.Register(f.projection(1, 1), &projection.Async{Partitions: rand.IntN(3), MaxBatch: 1 + rand.IntN(5), Backoff: time.Millisecond}), e.Start(ctx))
		if err != nil {
			t.Fatal(err)
		}
		if !requested {
			o := into("shop/then", middle)
			o.NoWait = true
			if err := e.Replay(t.Context(), "sums", o); err != nil {
				t.Fatal(err)
			}
			requested = true
		}
		if rand.IntN(3) == 0 {
			_ = e.Rebuild(ctx, "sums", &projection.RebuildOptions{Keep: 1})
		}
		<-ctx.Done()
		f.stop(e)
		cancel()
		if s, err := e.Status(t.Context(), "sums"); err != nil {
			t.Fatal(err)
		} else if s.Replay == nil {
			break
		}
	}
	f.checkTable("shop/then", then)
	e := f.start(nil, &projection.Async{Backoff: time.Millisecond}, f.projection(1, 1))
	f.waitFor(e, "sums", last)
	f.check(1)
}

// A program replays its inline projections itself.
func TestInlineReplay(t *testing.T) {
	f := newFixture(t)
	failing := atomic.Bool{}
	s := f.inline(nil, f.projection("totals", 1, func(ctx context.Context, tx *projection.Tx, ev paid, r event.Recorded) error {
		if failing.Load() {
			return errors.New("as asked")
		}
		return f.add(ctx, tx, ev, r)
	}))
	f.mustPayInline(s, 150)
	then := f.wanted()
	middle, err := f.store.LastPosition(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.mustPayInline(s, 40)
	last := uint64(0)
	o := &projection.ReplayOptions{Into: map[string]string{"shop/totals": "shop/then"}, Until: middle, Progress: func(done, total uint64) {
		if done <= last || total != uint64(middle) {
			t.Errorf("%d of %d are done after %d", done, total, last)
		}
		last = done
	}}
	if err := s.Replay(t.Context(), "totals", o); err != nil || last != uint64(middle) {
		t.Fatalf("%v; %d of %d are done", err, last, middle)
	}
	f.checkTable("shop/then", then)
	f.check(1)
	if err := s.Replay(t.Context(), "totals", o); !errors.Is(err, mainstem.ErrExists) {
		t.Errorf("a table with entries: %v, want Exists", err)
	}
	if err := s.Replay(t.Context(), "nothing", o); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("another projection: %v, want NotFound", err)
	}
	putting := f.inline(nil, f.projection("totals", 1, func(_ context.Context, tx *projection.Tx, ev paid, _ event.Recorded) error {
		projection.Put(tx, f.totals, total{ev.Customer, 1, 1})
		return nil
	}))
	o = &projection.ReplayOptions{Into: map[string]string{"shop/other": "shop/unwritten"}}
	if err := putting.Replay(t.Context(), "totals", o); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("a Put to a table that was not named: %v, want Invalid", err)
	}
	failing.Store(true)
	o = &projection.ReplayOptions{Into: map[string]string{"shop/totals": "shop/more"}}
	if err := s.Replay(t.Context(), "totals", o); err == nil || errors.Is(err, mainstem.ErrUnavailable) {
		t.Errorf("a handler that fails: %v", err)
	}
	o.NoWait = true
	if err := s.Replay(t.Context(), "totals", o); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("NoWait: %v, want Invalid", err)
	}
}
