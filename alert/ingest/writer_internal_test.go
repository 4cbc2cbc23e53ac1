package ingest

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/alert/osql"
)

// TestQueueIsBoundedInBytes: large rows wait until others are written, and few of them are
// inserted at a time.
func TestQueueIsBoundedInBytes(t *testing.T) {
	mapping, err := DefaultMapping(Syslog)
	if err != nil {
		t.Fatal(err)
	}
	open, most := make(chan struct{}), 0
	sink := SinkFunc(func(_ context.Context, _ string, _ []string, rows [][]any, _ ...string) error {
		<-open
		most = max(most, len(rows))
		return nil
	})
	const queue, large = 1000, 1 << 20
	var count counting
	w := newWriter(sink, &ReceiverOptions{Mapping: mapping, Queue: queue, BatchRows: 100, Now: time.Now, Logger: slog.New(slog.DiscardHandler)}, &count)
	text := strings.Repeat("x", large)
	row := func() *draft {
		d, err := mapping.draft(NewEvent(Syslog))
		if err != nil {
			t.Fatal(err)
		}
		d.row[0] = text
		return d
	}
	n := 0
	for n < queue && w.offer(row()) {
		n++
	}
	if n != maxQueueBytes/large-1 {
		t.Errorf("%d rows of a megabyte are in the queue", n)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := w.put(ended, row(), nil); err == nil {
		t.Error("a row has room in the full queue")
	}
	waits := make(chan error, 1)
	last := row()
	go func() { waits <- w.put(t.Context(), last, nil) }()
	close(open)
	if err := <-waits; err != nil {
		t.Error(err)
	}
	if err := w.close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := count.written.Load(); got != int64(n+1) || count.waiting.Load() != 0 {
		t.Errorf("%d rows are written, %d wait", got, count.waiting.Load())
	}
	if most > maxInsertBytes/large {
		t.Errorf("%d rows were inserted at a time", most)
	}
	if used := w.room.Stats()[0].Used; used != 0 {
		t.Errorf("%d bytes are taken", used)
	}
}

// TestStampsAreInTheOrderOfTheQueue, not in that in which messages came or in that of the clock:
// the sink takes what is not newer than what it has for a repetition.
func TestStampsAreInTheOrderOfTheQueue(t *testing.T) {
	mappings, err := ParseMappings("test.yaml", []byte("syslog: {columns: {Grade: '${@received}', Class: '${=Grade}', Summary: 'at ${=LastOccurrence}'}}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	mapping := mappings.For(Syslog)
	column := func(name string) int { return slices.Index(mapping.names, name) }
	var written [][]any
	sink := SinkFunc(func(_ context.Context, _ string, columns []string, rows [][]any, _ ...string) error {
		for _, row := range rows {
			full := make([]any, len(mapping.names))
			for i, name := range columns {
				full[column(name)] = row[i]
			}
			written = append(written, full)
		}
		return nil
	})
	clock := int64(1000)
	var count counting
	w := newWriter(sink, &ReceiverOptions{
		Mapping: mapping, Queue: 10, BatchRows: 2, Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Unix(clock, 0) },
	}, &count)
	var came []*draft
	for range 5 {
		e := NewEvent(Syslog)
		e.Received, e.Sequence = 999, count.next()
		e.Set("message", "x")
		d, err := mapping.draft(e)
		if err != nil {
			t.Fatal(err)
		}
		came = append(came, d)
	}
	for i, d := range slices.Backward(came) {
		if i == 2 {
			clock -= 600
		}
		if err := w.put(t.Context(), d, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	last, sequence := column("LastOccurrence"), column("ProbeSubSecondId")
	older := func(a, b []any) int {
		return cmp.Or(cmp.Compare(a[last].(int64), b[last].(int64)), cmp.Compare(a[sequence].(int64), b[sequence].(int64)))
	}
	if len(written) != len(came) || !slices.IsSortedFunc(written, older) || len(slices.CompactFunc(slices.Clone(written), func(a, b []any) bool { return older(a, b) == 0 })) != len(came) {
		t.Errorf("%v", written)
	}
	for _, row := range written {
		if row[last] != int64(1000) || row[column("Class")] != row[last] || row[column("Summary")] != "at 1000" {
			t.Errorf("%v", row)
		}
	}
}

// TestTextsAreCut to what a table can hold: what waits is not larger than that.
func TestTextsAreCut(t *testing.T) {
	mapping, err := DefaultMapping(Syslog)
	if err != nil {
		t.Fatal(err)
	}
	e := NewEvent(Syslog)
	e.Set("message", strings.Repeat("x", 50_000))
	row, ok, err := mapping.Row(e)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	longest := 0
	for _, v := range row {
		if s, ok := v.(string); ok {
			longest = max(longest, len(s))
		}
	}
	if longest != osql.MaxVarchar {
		t.Errorf("the longest text has %d bytes", longest)
	}
}
