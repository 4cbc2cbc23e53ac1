package event_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testfaults"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

var appends = flag.Int("event.appends", 400, "conditional appends of TestConditionsHoldBetweenWriters on each engine; the goal is 1000000")

// claim is the data of an event that was appended on condition: no event of Query stands
// between After and the event.
type claim struct {
	Query event.Query
	After mainstem.Position
}

// writer appends events on condition of random queries.
type condWriter struct {
	s    *event.Store
	rng  *rand.Rand
	name string
}

func (w *condWriter) pick(of []string, most int) (out []string) {
	for _, i := range w.rng.Perm(len(of))[:w.rng.IntN(most+1)] {
		out = append(out, of[i])
	}
	return out
}

func (w *condWriter) query() event.Query {
	q := make(event.Query, 1+w.rng.IntN(2))
	for i := range q {
		for len(q[i].Types)+len(q[i].Tags) == 0 {
			q[i] = event.Item{Types: w.pick(someTypes, 2), Tags: w.pick(someTags, 2)}
		}
	}
	return q
}

func (w *condWriter) events(c claim) []event.Event {
	data, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	evs := make([]event.Event, 1+w.rng.IntN(2))
	for i := range evs {
		evs[i] = event.Event{Type: someTypes[w.rng.IntN(len(someTypes))], Tags: w.pick(someTags, 3), Data: data}
	}
	return evs
}

// append appends once, however many conflicts that takes, and returns how many tries it took.
func (w *condWriter) append(ctx context.Context, log mainstem.Log) (tries int, err error) {
	q := w.query()
	for tries = 1; ; tries++ {
		// The position of the newest event of the query, as a program has it that has read them.
		var after mainstem.Position
		for ev, err := range w.s.Query(ctx, q, &event.QueryOptions{Backward: true, Limit: 1}) {
			if err != nil {
				return tries, err
			}
			after = ev.Position
		}
		b := mainstem.NewBatch()
		b.Durability = mainstem.OS
		w.s.FailIf(b, q, after)
		w.s.AppendTo(b, w.name, event.AnyVersion, w.events(claim{q, after}))
		_, err := w.s.Commit(ctx, b)
		var failed *event.ConditionError
		var stale *event.StaleIndexError // the index is built meanwhile
		again := errors.As(err, &failed) && failed.Found > 0 || errors.As(err, &stale)
		if !again {
			return tries, err
		}
		if !(backoff.Policy{First: 100_000, Max: 10_000_000, Jitter: 1}).Wait(ctx, tries) {
			return tries, ctx.Err()
		}
	}
}

// checkClaims fails unless no claim of an event was broken by one before it.
func checkClaims(t *testing.T, s *event.Store) (events int) {
	t.Helper()
	type past struct {
		event.Event
		position mainstem.Position
		batch    string
	}
	var all []past
	for ev, err := range s.Feed(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		var c claim
		if err := json.Unmarshal(ev.Data, &c); err != nil {
			t.Fatal(err)
		}
		batch := fmt.Sprint(ev.Stream, ev.Time.UnixNano(), string(ev.Data)) // events of one batch share them
		for i := len(all) - 1; i >= 0 && all[i].position > c.After; i-- {
			if all[i].batch != batch && c.Query.Match(all[i].Event) {
				t.Fatalf("event %d of stream %s was appended on condition of no event of %s after %d, and there is %+v at %d",
					ev.Position, ev.Stream, c.Query, c.After, all[i].Event, all[i].position)
			}
		}
		kept := event.Event{Type: ev.Type, Tags: ev.Tags}
		all = append(all, past{kept, ev.Position, batch})
	}
	return len(all)
}

// Sixteen writers append on condition of random queries. No condition is broken, and every
// writer comes through. Half of them have handles of their own. The index is built while
// they write.
func TestConditionsHoldBetweenWriters(t *testing.T) {
	var opts []testengines.Option
	if *appends > 100_000 { // of some 700 bytes
		opts = append(opts, testengines.Large())
	}
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		const writers = 16
		if err := s.CreateIndex(t.Context(), &event.IndexOptions{Pairs: []event.Pair{{Type: "A"}, {Type: "B", Prefix: "x:"}}}); err != nil {
			t.Fatal(err)
		}
		quota := testkit.Rounds(max(*appends/writers, 1))
		if _, ok := log.(*pebblelog.Log); !ok && *appends <= 400 {
			quota = 3
		}
		var all sync.WaitGroup
		var tries, most atomic.Int64
		for i := range writers {
			all.Go(func() {
				w := &condWriter{s: s, rng: rand.New(rand.NewPCG(7, uint64(i))), name: fmt.Sprintf("writer-%d", i)}
				if i%2 == 0 {
					w.s = open(t, log, nil)
				}
				for range quota {
					n, err := w.append(t.Context(), log)
					if err != nil {
						t.Errorf("%s: %v", w.name, err)
						return
					}
					tries.Add(int64(n))
					for m := most.Load(); int64(n) > m && !most.CompareAndSwap(m, int64(n)); m = most.Load() {
					}
				}
			})
		}
		if err := s.Retag(t.Context(), nil, nil); err != nil {
			t.Error(err)
		}
		all.Wait()
		n := checkClaims(t, s)
		if n < writers*quota {
			t.Fatalf("%d events: want at least %d", n, writers*quota)
		}
		t.Logf("%d events in %d appends, %.2f tries each, at most %d", n, writers*quota, float64(tries.Load())/float64(writers*quota), most.Load())
	}, opts...)
}

// Decisions through every fault of a log: each is there once.
func TestDecideThroughFaults(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		faulty := testfaults.New(log, 3, ofReads)
		fs := open(t, faulty, nil)
		until := func(call func() error) {
			t.Helper()
			for {
				err := call()
				if err == nil {
					return
				}
				if !errors.Is(err, testfaults.Err) {
					t.Fatal(err)
				}
			}
		}
		for i := range 9 {
			write(t, s, fmt.Sprintf("old-%d", i%3), event.AnyVersion, []event.Event{tagged(t, "Old", i, "kind:old")})
		}
		until(func() error { return fs.CreateIndex(t.Context(), nil) })
		for i := range 12 {
			until(func() error {
				_, err := fs.Decide(t.Context(), event.Tagged("n"), func(evs []event.Recorded) ([]event.Append, error) {
					if len(evs) > i {
						return nil, nil
					}
					return one("n-1", tagged(t, "Numbered", len(evs)+1, "n")), nil
				})
				return err
			})
		}
		until(func() error {
			return fs.Retag(t.Context(), func(ev event.Recorded) []string { // also of one that it has tagged
				return append(slices.DeleteFunc(ev.Tags, func(tag string) bool { return tag == "again" }), "again")
			}, nil)
		})
		until(func() error { return fs.Forget(t.Context(), "old-1") })
		until(func() error { _, err := fs.SweepIndex(t.Context()); return err })
		wantEqual(t, "decisions", len(collect(t, s.Query(t.Context(), event.Tagged("n", "again"), nil))), 12)
		wantEqual(t, "old events", len(collect(t, s.Query(t.Context(), event.Tagged("kind:old", "again"), nil))), 6)
		var kept []event.Recorded
		for ev, err := range s.Feed(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			kept = append(kept, ev.Clone())
		}
		if problem := indexProblems(t, t.Context(), log, kept, true); problem != "" {
			t.Fatal(problem)
		}
	})
}

// After a power cut at any moment, of appends, removals, builds and sweeps, the index says
// what the events say, and a build that was interrupted is gone on with.
func TestIndexThroughPowerCuts(t *testing.T) {
	fs := vfs.NewCrashableMem()
	rounds := testkit.Rounds(8)
	for round := range rounds {
		log, err := pebblelog.Open("data", &pebblelog.Options{FS: fs, MinFree: -1, Durability: mainstem.OS})
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, log, nil)
		ctx, cancel := context.WithCancel(within(t))
		var all sync.WaitGroup
		all.Go(func() {
			if err := s.Retag(ctx, nil, nil); err != nil && !errors.Is(err, mainstem.ErrCanceled) && !errors.Is(err, mainstem.ErrUnavailable) {
				t.Error(err)
			}
		})
		for i := range 60 {
			w := &condWriter{rng: rand.New(rand.NewPCG(uint64(round), uint64(i)))}
			write(t, s, fmt.Sprintf("order-%d", i%7), event.AnyVersion, w.events(claim{}))
			if i%20 == 19 {
				if err := s.Truncate(t.Context(), fmt.Sprintf("order-%d", i%7), 2); err != nil {
					t.Fatal(err)
				}
				if _, err := s.SweepIndex(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		cut := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(5, uint64(round)))})
		cancel()
		all.Wait()
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		fs = cut
		checkIndexAfterCut(t, fs)
	}
}

// checkIndexAfterCut opens a log, finishes its index, and compares it with its events.
func checkIndexAfterCut(t *testing.T, fs vfs.FS) {
	t.Helper()
	log, err := pebblelog.Open("data", &pebblelog.Options{FS: fs, MinFree: -1})
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return
		}
		t.Fatal(err)
	}
	defer checkAndClose(t, log)
	s := open(t, log, nil)
	plan, err := s.Plan(t.Context(), event.Tagged("z"))
	if err != nil {
		t.Fatal(err)
	}
	for _, finish := range []bool{false, true} { // by the feed where it is not built, then by the index
		if finish {
			if err := s.Retag(t.Context(), nil, nil); err != nil {
				t.Fatalf("after %q: %v", plan, err)
			}
			if _, err := s.SweepIndex(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		o := &tagOracle{}
		for ev, err := range s.Feed(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			o.events = append(o.events, ev.Clone())
		}
		for _, q := range []event.Query{event.Tagged("z"), event.Tagged("x:1", "y:1"), {{Types: []string{"A"}}, {Tags: []string{"x:2"}}}, {{Types: []string{"B", "C"}, Tags: []string{"z"}}}} {
			got := []mainstem.Position{}
			for ev, err := range s.Query(t.Context(), q, nil) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, ev.Position)
			}
			if want := o.query(q, event.QueryOptions{}); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("index %q: query %s: %v: want %v", plan, q, got, want)
			}
		}
		if finish {
			if problem := indexProblems(t, t.Context(), log, o.events, true); problem != "" {
				t.Fatal(problem)
			}
		}
	}
}
