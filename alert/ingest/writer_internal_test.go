package ingest

import (
	"context"
	"log/slog"
	"strings"
	"testing"

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
	w := newWriter(sink, &ReceiverOptions{Mapping: mapping, Queue: queue, BatchRows: 100, Logger: slog.New(slog.DiscardHandler)}, &count)
	row := make([]any, len(mapping.columns))
	row[0] = strings.Repeat("x", large)
	n := 0
	for n < queue && w.offer(row) {
		n++
	}
	if n != maxQueueBytes/large-1 {
		t.Errorf("%d rows of a megabyte are in the queue", n)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := w.put(ended, row, nil); err == nil {
		t.Error("a row has room in the full queue")
	}
	waits := make(chan error, 1)
	go func() { waits <- w.put(t.Context(), row, nil) }()
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
