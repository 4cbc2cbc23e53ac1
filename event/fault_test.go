package event_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/testfaults"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// ofReads says how often reads fail.
var ofReads = testfaults.Reads{Get: 8, Feed: 8}

// Through every fault of the log, each event takes effect exactly once.
func TestSubscriptionThroughFaults(t *testing.T) {
	for _, maxBatch := range []int{1, 10} {
		t.Run(fmt.Sprintf("batches of %d", maxBatch), func(t *testing.T) {
			each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
				for i := range testkit.Rounds(150) {
					write(t, s, fmt.Sprintf("order-%d", i%30), event.AnyVersion, some("A", 1))
				}
				faulty := testfaults.New(log, uint64(maxBatch), ofReads)
				o := quick(event.SubscribeOptions{MaxBatch: maxBatch, Attempts: 50})
				var sub *event.Subscription
				for sub == nil { // creating the checkpoint may fail too
					var err error
					if sub, err = open(t, faulty, nil).Subscribe(within(t), "count", o, counter(faulty)); err != nil && !errors.Is(err, testfaults.Err) {
						t.Fatal(err)
					}
				}
				t.Cleanup(func() { sub.Close() })
				for i := range testkit.Rounds(150) {
					write(t, s, fmt.Sprintf("order-%d", i%30), event.AnyVersion, some("A", 1))
				}
				last, err := s.LastPosition(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if err := s.WaitFor(within(t), "count", last); err != nil {
					t.Fatalf("%v; the subscription: %v", err, sub.Err())
				}
				counted(t, log, s)
				if err := sub.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// A write whose outcome was unknown is made sure of by writing it again.
func TestWriteThroughFaults(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		faulty := open(t, testfaults.New(log, 2, ofReads), nil)
		for i := range mainstem.Version(100) {
			evs := identified(some("A", 2))
			for _, stream := range []string{"exact-1", "any-1"} {
				expected := event.AtVersion(2 * i)
				if stream == "any-1" {
					expected = event.AnyVersion
				}
				for {
					a, err := faulty.Append(t.Context(), stream, expected, evs)
					if err == nil {
						wantEqual(t, stream, a.First, 2*i+1)
						break
					}
					if !errors.Is(err, testfaults.Err) {
						t.Fatal(err)
					}
				}
			}
		}
		wantEqual(t, "events", len(load(t, s, "exact-1", nil)), 200)
		wantEqual(t, "events", len(load(t, s, "any-1", nil)), 200)
	})
}

// After a power cut at any moment, effects and checkpoint agree, and the
// subscription goes on as if nothing had happened.
func TestSubscriptionThroughPowerCuts(t *testing.T) {
	fs := vfs.NewCrashableMem()
	for round := range 8 {
		open := func() (*pebblelog.Log, *event.Store) {
			log, err := pebblelog.Open("data", &pebblelog.Options{FS: fs, MinFree: -1})
			if err != nil {
				t.Fatal(err)
			}
			return log, open(t, log, nil)
		}
		log, s := open()
		checkEffects(t, log, s)
		o := quick(event.SubscribeOptions{Durability: mainstem.OS, MaxBatch: 1 + round%3*4})
		sub, err := s.Subscribe(within(t), "count", o, counter(log))
		if err != nil {
			t.Fatal(err)
		}
		var last mainstem.Position
		for i := range 40 {
			last = write(t, s, fmt.Sprintf("order-%d", i%4), event.AnyVersion, some("A", 1)).LastPosition
		}
		if round%2 == 0 {
			waitFor(t, sub, last)
		}
		cut := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(3, uint64(round)))})
		if err := sub.Close(); err != nil {
			t.Fatal(err)
		}
		checkEffects(t, log, s)
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		fs = cut
	}
}

// checkEffects fails unless the effects are those of the events up to the
// checkpoint, no more and no less.
func checkEffects(t *testing.T, log mainstem.Log, s *event.Store) {
	t.Helper()
	cp, err := s.Checkpoint(t.Context(), "count")
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		t.Fatal(err)
	}
	want := map[string]int{}
	for ev, err := range s.Feed(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Position <= cp.Position {
			want[ev.Stream]++
		}
	}
	got := 0
	for rec, err := range log.Scan(t.Context(), effects, mainstem.Range{}) {
		if errors.Is(err, mainstem.ErrNotFound) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := strconv.Atoi(string(rec.Value)); n != want[string(rec.Key)] {
			t.Fatalf("%s: %d events took effect up to position %d: want %d", rec.Key, n, cp.Position, want[string(rec.Key)])
		}
		got++
	}
	wantEqual(t, "streams with effects", got, len(want))
}
