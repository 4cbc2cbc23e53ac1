package event_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// countingLog counts the records that reads of keys yield, and the reads.
type countingLog struct {
	mainstem.Log
	reads, records atomic.Int64
}

func (l *countingLog) Read(ctx context.Context, space string, key []byte, v mainstem.Versions) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		l.reads.Add(1)
		for rec, err := range l.Log.Read(ctx, space, key, v) {
			l.records.Add(1)
			if !yield(rec, err) {
				return
			}
		}
	}
}

// What stands at the end of a long key is found in one read of it, however long it is: the events after a
// position near the head, the newest ones, and what a condition conflicts with.
func TestEndsOfLongKeysAreReadOnce(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		if err := s.CreateIndex(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		for range 30 {
			evs := make([]event.Event, 50)
			for i := range evs {
				evs[i] = event.Event{Type: "A", Tags: []string{"all", fmt.Sprint("half:", i%2)}}
			}
			write(t, s, "long-1", event.AnyVersion, evs)
		}
		if err := s.Retag(t.Context(), nil, nil); err != nil { // all of them in built keys
			t.Fatal(err)
		}
		var last []event.Appended
		for range 30 {
			evs := make([]event.Event, 50)
			for i := range evs {
				evs[i] = event.Event{Type: "A", Tags: []string{"all", fmt.Sprint("half:", i%2)}}
			}
			last = append(last, write(t, s, "long-1", event.AnyVersion, evs))
		}
		counting := &countingLog{Log: log}
		counted := open(t, counting, nil)
		collect(t, counted.Query(t.Context(), event.Tagged("none"), nil)) // it knows the index now
		after := last[len(last)-1].LastPosition - 8*5
		for _, c := range []struct {
			what string
			q    event.Query
			o    event.QueryOptions
			want int
			most int64 // reads
		}{
			{"after a position near the head", event.Tagged("all"), event.QueryOptions{After: after}, 0, 1},
			{"the newest", event.Tagged("all"), event.QueryOptions{Backward: true, Limit: 1}, 1, 1},
			{"the newest of two tags", event.Tagged("all", "half:1"), event.QueryOptions{Backward: true, Limit: 1}, 1, 4},
			{"a tag that no event has", event.Tagged("none", "all"), event.QueryOptions{Backward: true}, 0, 2},
		} {
			want := 0
			for _, ev := range collect(t, s.Query(t.Context(), c.q, nil)) {
				if ev.Position > c.o.After {
					want++
				}
			}
			if c.want > 0 {
				want = c.want
			}
			counting.reads.Store(0)
			counting.records.Store(0)
			evs := collect(t, counted.Query(t.Context(), c.q, &c.o))
			if len(evs) != want {
				t.Fatalf("%s: %d events: want %d", c.what, len(evs), want)
			}
			if n, m := counting.reads.Load(), counting.records.Load(); n > c.most || m > 32*c.most {
				t.Fatalf("%s: %d reads of %d records: want at most %d", c.what, n, m, c.most)
			}
		}
		counting.reads.Store(0)
		b := mainstem.NewBatch()
		counted.FailIf(b, event.Tagged("all"), after)
		_, err := counted.Commit(t.Context(), b)
		wantKind(t, err, mainstem.ErrConflict)
		wantEqual(t, "reads to explain a conflict", counting.reads.Load(), 1)
	})
}

// A handle that knows the index of a store which was dropped and made again, with another index under the
// same version, neither reads nor writes by the old one.
func TestIndexMadeAgainAfterDrop(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		ev := event.Event{Type: "A", Tags: []string{"x", "y"}}
		q := event.Query{{Types: []string{"A"}, Tags: []string{"x"}}}
		if err := s.CreateIndex(t.Context(), &event.IndexOptions{Pairs: []event.Pair{{Type: "A"}}}); err != nil {
			t.Fatal(err)
		}
		write(t, s, "order-1", event.AnyVersion, []event.Event{ev})
		early := open(t, log, nil)
		wantEqual(t, "events", len(collect(t, early.Query(t.Context(), q, nil))), 1)
		if err := s.Drop(t.Context()); err != nil {
			t.Fatal(err)
		}
		again := open(t, log, nil)
		if err := again.CreateIndex(t.Context(), &event.IndexOptions{All: true}); err != nil {
			t.Fatal(err)
		}
		write(t, again, "order-1", event.AnyVersion, []event.Event{ev})
		wantEqual(t, "events that are found by the new index", len(collect(t, early.Query(t.Context(), q, nil))), 1)

		late := open(t, log, nil)
		collect(t, late.Query(t.Context(), q, nil))
		for _, handle := range []*event.Store{s, early, late} {
			write(t, handle, "order-2", event.AnyVersion, []event.Event{ev})
		}
		for _, q := range []event.Query{q, event.All(), event.Tagged("y")} {
			plan, err := late.Plan(t.Context(), q)
			if err != nil || !strings.HasPrefix(plan, "index: ") {
				t.Fatalf("plan %q, %v", plan, err)
			}
			got := positions(collect(t, late.Query(t.Context(), q, nil)))
			if want := positions(collect(t, late.Feed(t.Context(), nil))); !slices.Equal(got, want) || len(want) != 4 {
				t.Fatalf("query %s: %v: want %v", q, got, want)
			}
		}
	})
}
