//go:build !race

package event_test

import (
	"context"
	"iter"
	"runtime/debug"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// nullLog commits nothing and reads a prepared stream, without allocating: what
// remains is what the event store itself allocates. (Under the race detector,
// sync.Pool forgets at random.)
type nullLog struct {
	mainstem.Log
	versions []mainstem.Version
	records  []mainstem.Record
}

func (l *nullLog) Commit(_ context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	return mainstem.Receipt{First: 1, Last: mainstem.Position(b.Len()), Versions: l.versions[:b.Len()]}, nil
}

func (l *nullLog) Read(context.Context, string, []byte, mainstem.Versions) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		for _, r := range l.records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (l *nullLog) Head(context.Context) (mainstem.Position, error) { return 0, nil }

func TestAllocations(t *testing.T) {
	log := &nullLog{versions: make([]mainstem.Version, 100)}
	id := event.NewID()
	for i := range 1000 {
		log.records = append(log.records, mainstem.Record{
			Key: []byte("bench-1"), Version: mainstem.Version(i + 1), Count: 1, Time: time.Unix(1, 0), Value: small.Data,
			Headers: mainstem.Headers{{Name: "$id", Value: id[:]}, {Name: "$type", Value: []byte("OrderCreated")}},
		})
	}
	s := open(t, log, nil)
	ctx := t.Context()
	one, hundred, meta := []event.Event{small}, batchOf(100), []event.Event{withMetadata}
	given := []event.Event{{ID: id, Type: "T"}}
	b := mainstem.NewBatch()
	cases := []struct {
		name string
		most float64
		call func()
	}{
		{"write of one event", 0, func() { s.Append(ctx, "bench-1", event.AnyVersion, one) }},
		{"write of a hundred", 0, func() { s.Append(ctx, "bench-1", event.AnyVersion, hundred) }},
		{"write with metadata", 0, func() { s.Append(ctx, "bench-1", 7, meta) }},
		{"write with an ID: the batch ID", 1, func() { s.Append(ctx, "bench-1", 7, given) }},
		{"append of a hundred: two blocks", 2, func() { b.Reset(); s.AppendTo(b, "bench-1", event.AnyVersion, hundred) }},
		// The sequence of Read, the closures that range over it, the key; and the two blocks.
		{"load of a thousand", 12, func() { s.Load(ctx, "bench-1", nil) }},
	}
	// A garbage collection empties pools, and what fills them again would be counted.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for _, c := range cases {
		if got := testing.AllocsPerRun(100, c.call); got > c.most {
			t.Errorf("%s: %v allocations: want at most %v", c.name, got, c.most)
		}
	}
}
