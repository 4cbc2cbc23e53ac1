package eventtopic_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
	"github.com/mainstemdev/mainstem/wire/kafka/eventtopic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, log mainstem.Log) *eventtopic.Catalog {
	t.Helper()
	c := eventtopic.Open(log, nil)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func store(t testing.TB, log mainstem.Log, name string) *event.Store {
	t.Helper()
	s, err := event.Open(log, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func write(t testing.TB, s *event.Store, stream string, evs ...event.Event) event.Appended {
	t.Helper()
	a, err := s.Append(t.Context(), stream, event.AnyVersion, evs)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// note returns an event with the given data.
func note(text string) event.Event { return event.Event{Type: "Noted", Data: []byte(text)} }

func find(t testing.TB, c *eventtopic.Catalog, name string) partition.Shown {
	t.Helper()
	tp, err := c.Topic(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return tp
}

func read(t testing.TB, tp partition.Shown, offset int64, o *partition.ReadOptions) partition.Chunk {
	t.Helper()
	c, err := tp.Read(t.Context(), 0, offset, o)
	if err != nil {
		t.Fatalf("read %s from %d: %v", tp.Name(), offset, err)
	}
	return c
}

// batches splits data into the batches that it consists of, and checks each.
func batches(t testing.TB, data []byte) [][]byte {
	t.Helper()
	var out [][]byte
	for len(data) > 0 {
		if len(data) < recordbatch.HeaderSize {
			t.Fatalf("%d bytes are left: no batch", len(data))
		}
		n := 12 + int(binary.BigEndian.Uint32(data[8:]))
		if n > len(data) {
			t.Fatalf("a batch of %d bytes in %d", n, len(data))
		}
		if !recordbatch.Intact(data[:n]) {
			t.Fatal("a batch has the wrong CRC")
		}
		out, data = append(out, data[:n]), data[n:]
	}
	return out
}

// records returns the records in data, and the offset at which a client continues.
func records(t testing.TB, data []byte) (out []recordbatch.Record, next int64) {
	t.Helper()
	next = -1
	for _, batch := range batches(t, data) {
		h, err := recordbatch.Parse(batch)
		if err != nil {
			t.Fatal(err)
		}
		if h.FirstOffset < next {
			t.Fatalf("a batch begins at %d, the one before ends at %d", h.FirstOffset, next)
		}
		var d recordbatch.Decoder
		for r, err := range d.Records(batch, h.FirstOffset) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Timestamp < h.FirstTimestamp || r.Timestamp > h.MaxTimestamp {
				t.Fatalf("timestamp %d outside of %d to %d", r.Timestamp, h.FirstTimestamp, h.MaxTimestamp)
			}
			out = append(out, r.Clone())
		}
		next = h.FirstOffset + int64(h.LastOffsetDelta) + 1
	}
	return out, next
}

// all reads a topic as a client does: from an offset to the end.
func all(t testing.TB, tp partition.Shown, offset int64, maxBytes int) []recordbatch.Record {
	t.Helper()
	var out []recordbatch.Record
	for {
		c := read(t, tp, offset, &partition.ReadOptions{MaxBytes: maxBytes})
		got, next := records(t, c.Data)
		out = append(out, got...)
		if len(c.Data) == 0 {
			if offset < c.End {
				t.Fatalf("nothing at %d, the end is %d", offset, c.End)
			}
			return out
		}
		if next != c.Next || next <= offset {
			t.Fatalf("a client at %d goes on at %d, the chunk says %d", offset, next, c.Next)
		}
		if n := len(batches(t, c.Data)); len(c.Data) > maxBytes && (n > 1 || len(got) > 1) {
			t.Fatalf("%d bytes in %d batches with %d records: the limit is %d", len(c.Data), n, len(got), maxBytes)
		}
		offset = next
	}
}

func headersOf(r recordbatch.Record) string {
	var s []string
	for _, h := range r.Headers {
		s = append(s, h.Key+"="+string(h.Value))
	}
	return strings.Join(s, " ")
}

func names(t testing.TB, c *eventtopic.Catalog) []string {
	t.Helper()
	all, err := c.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, tp := range all {
		out = append(out, tp.Name())
	}
	if !slices.IsSorted(out) {
		t.Errorf("not in order: %q", out)
	}
	return out
}
