package event_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/enginetest"
	"github.com/mainstemdev/mainstem/event"
)

// sameAs fails unless again is the answer to a retry of first.
func sameAs(t *testing.T, again, first event.Appended) {
	t.Helper()
	if !again.Duplicate {
		t.Fatalf("the retry is not marked as one: %+v", again)
	}
	if !again.Time.Equal(first.Time) {
		t.Fatalf("the retry returned time %v: want %v", again.Time, first.Time)
	}
	again.Duplicate, again.Time = first.Duplicate, first.Time
	wantEqual(t, "retry", again, first)
}

func TestRetryWritesNothing(t *testing.T) {
	for _, expected := range []event.Expected{event.NoStream, 2, event.AnyVersion, event.StreamExists} {
		t.Run(expected.String(), func(t *testing.T) {
			each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
				if expected != event.NoStream {
					write(t, s, "order-1", event.NoStream, some("Before", 2))
				}
				evs := identified(some("A", 3))
				first := write(t, s, "order-1", expected, evs)
				write(t, s, "order-1", event.AnyVersion, some("After", 2))
				sameAs(t, write(t, s, "order-1", expected, evs), first)
				sameAs(t, write(t, open(t, log, nil), "order-1", expected, evs), first)
				head, err := log.Head(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				wantEqual(t, "newest position", uint64(head), uint64(first.LastPosition)+2)
			})
		})
	}
}

// Events in the stream are recognised for as long as they are there, also when
// the log knows no batch ID of them.
func TestRetryIsFoundInTheStream(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		evs := identified(some("A", 3))
		append3 := func(stream string, expected event.Expected) event.Appended {
			b := mainstem.NewBatch() // without an ID
			s.AppendTo(b, stream, expected, evs)
			r, err := log.Commit(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			a, _ := s.Result(b, r, stream)
			return a
		}
		first := append3("order-1", event.NoStream)
		sameAs(t, write(t, s, "order-1", event.NoStream, evs), first)

		write(t, s, "order-2", event.NoStream, some("Before", 4))
		first = append3("order-2", 4)
		write(t, s, "order-2", event.AnyVersion, some("After", 1))
		sameAs(t, write(t, s, "order-2", 4, evs), first)

		// After a deletion the stream begins anew, behind the tombstone.
		do(t, s, func(b *mainstem.Batch) { s.DeleteTo(b, "order-1", event.AnyVersion) })
		evs = identified(some("B", 3))
		first = append3("order-1", event.NoStream)
		wantEqual(t, "first version of the second life", first.First, 5)
		sameAs(t, write(t, s, "order-1", event.NoStream, evs), first)

		// An archived stream accepts nothing, but what it holds was accepted.
		do(t, s, func(b *mainstem.Batch) { s.ArchiveTo(b, "order-2") })
		sameAs(t, write(t, s, "order-2", 4, identifiedLike(t, s, "order-2", 5, 3)), event.Appended{
			Stream: "order-2", First: 5, Last: 7,
			FirstPosition: load(t, s, "order-2", nil)[4].Position, LastPosition: load(t, s, "order-2", nil)[6].Position,
			Time: load(t, s, "order-2", nil)[6].Time,
		})
		var sealed *event.SealedError
		if _, err := s.Append(t.Context(), "order-2", 8, identified(some("C", 1))); !errors.As(err, &sealed) || sealed.Seal != event.Archived {
			t.Fatalf("write to an archived stream: %v", err)
		}
	})
}

// identifiedLike returns n events with the IDs of those in stream from a version on.
func identifiedLike(t *testing.T, s *event.Store, stream string, from mainstem.Version, n int) []event.Event {
	var out []event.Event
	for _, ev := range load(t, s, stream, &event.LoadOptions{From: from, Limit: n}) {
		out = append(out, event.Event{ID: ev.ID, Type: "Other"})
	}
	return out
}

func TestRetryThatIsNone(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		evs := identified(some("A", 3))
		write(t, s, "order-1", event.NoStream, some("Before", 2))
		write(t, s, "order-1", 2, evs)
		conflict := func(what string, expected event.Expected, evs []event.Event) {
			t.Helper()
			var e *event.ConflictError
			if _, err := s.Append(t.Context(), "order-1", expected, evs); !errors.As(err, &e) || e.Actual != 5 || e.Expected != expected {
				t.Fatalf("%s: %v: want a conflict with version 5", what, err)
			}
		}
		conflict("an expectation that the first write did not meet", 1, evs)
		conflict("a newer expectation", 4, evs)
		conflict("the newest version", 5, evs) // the log remembers the batch: it was not at 5
		conflict("no stream", event.NoStream, evs)
		conflict("events at another place", 2, evs[1:2])
		conflict("a longer batch", 2, append(evs[:3:3], identified(some("B", 1))...))
		conflict("another order", 2, []event.Event{evs[1], evs[0], evs[2]})
		conflict("other IDs", 2, identified(some("A", 3)))
		wantEqual(t, "events", len(load(t, s, "order-1", nil)), 5)

		// The beginning of what was written is there as asked for: a success.
		a := write(t, s, "order-1", 2, evs[:2])
		if !a.Duplicate || a.First != 3 || a.Last != 4 {
			t.Fatalf("a prefix of the first write: %+v", a)
		}
		// The same IDs in another stream are other events.
		if a := write(t, s, "order-2", event.NoStream, evs); a.Duplicate {
			t.Fatalf("a write to another stream: %+v", a)
		}
	})
}

// A late retry does not bring back what was removed meanwhile.
func TestRetryAfterRemoval(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		evs := identified(some("A", 3))
		first := write(t, s, "order-1", event.AnyVersion, evs)
		do(t, s, func(b *mainstem.Batch) { s.DeleteTo(b, "order-1", event.AnyVersion) })
		sameAs(t, write(t, s, "order-1", event.AnyVersion, evs), first)
		wantEqual(t, "events", len(load(t, s, "order-1", nil)), 0)
	})
}

func TestRetryConcurrently(t *testing.T) {
	for _, expected := range []event.Expected{event.NoStream, event.AnyVersion} {
		t.Run(expected.String(), func(t *testing.T) {
			each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
				const workers, rounds = 8, 10
				for round := range rounds {
					stream := fmt.Sprintf("order-%d", round)
					evs := identified(some("A", 3))
					results := make([]event.Appended, workers)
					var wg sync.WaitGroup
					for i := range workers {
						wg.Go(func() { results[i] = write(t, s, stream, expected, evs) })
					}
					wg.Wait()
					firsts := 0
					for i := range results {
						if !results[i].Duplicate {
							firsts++
						}
						if results[i].First != 1 || results[i].Last != 3 || results[i].FirstPosition != results[0].FirstPosition || results[i].LastPosition != results[0].LastPosition {
							t.Fatalf("results %+v and %+v", results[0], results[i])
						}
					}
					if n := len(load(t, s, stream, nil)); firsts != 1 || n != 3 {
						t.Fatalf("%d writes of 3 events were first, %d events are there", firsts, n)
					}
				}
			})
		})
	}
}

func TestRetryAfterRestart(t *testing.T) {
	dir := t.TempDir()
	clock := enginetest.NewClock()
	o := &pebblelog.Options{Now: clock.Now, BatchIDAge: time.Hour}
	restart := func(use func(log *pebblelog.Log, s *event.Store)) {
		t.Helper()
		log, err := pebblelog.Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		use(log, open(t, log, nil))
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	exact, anyVersion := identified(some("A", 2)), identified(some("B", 2))
	var first, second event.Appended
	restart(func(_ *pebblelog.Log, s *event.Store) {
		first = write(t, s, "order-1", event.NoStream, exact)
		second = write(t, s, "order-1", event.AnyVersion, anyVersion)
	})
	restart(func(_ *pebblelog.Log, s *event.Store) {
		sameAs(t, write(t, s, "order-1", event.NoStream, exact), first)
		sameAs(t, write(t, s, "order-1", event.AnyVersion, anyVersion), second)
	})
	clock.Advance(48 * time.Hour)
	restart(func(log *pebblelog.Log, s *event.Store) {
		if err := log.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		sameAs(t, write(t, s, "order-1", event.NoStream, exact), first)
		sameAs(t, write(t, s, "order-1", 2, anyVersion), second)
		// Any version relies on the log's memory, which is over: as documented.
		if a := write(t, s, "order-1", event.AnyVersion, anyVersion); a.Duplicate || a.First != 5 {
			t.Fatalf("write after the log's memory: %+v", a)
		}
	})
}
