package kafkatopic_test

import (
	"encoding/binary"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/kafkatopic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, log mainstem.Log) *kafkatopic.Catalog {
	t.Helper()
	c := kafkatopic.Open(log, nil)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func server(t testing.TB, log mainstem.Log) *alert.Server {
	t.Helper()
	s, err := alert.Open(t.Context(), log, &alert.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func exec(t testing.TB, s *alert.Server, text string, args ...any) alert.Result {
	t.Helper()
	r, err := s.Exec(t.Context(), text, args...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r
}

func find(t testing.TB, c *kafkatopic.Catalog, name string) partition.Shown {
	t.Helper()
	tp, err := c.Topic(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return tp
}

// records returns the records in data, and the offset from which a client goes on.
func records(t testing.TB, data []byte) (out []recordbatch.Record, next int64) {
	t.Helper()
	next = -1
	for len(data) > 0 {
		n := 12 + int(binary.BigEndian.Uint32(data[8:]))
		batch := data[:n]
		data = data[n:]
		if !recordbatch.Intact(batch) {
			t.Fatal("a batch has the wrong CRC")
		}
		h, err := recordbatch.Parse(batch)
		if err != nil {
			t.Fatal(err)
		}
		var d recordbatch.Decoder
		for r, err := range d.Records(batch, h.FirstOffset) {
			if err != nil {
				t.Fatal(err)
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
		c, err := tp.Read(t.Context(), 0, offset, &partition.ReadOptions{MaxBytes: maxBytes})
		if err != nil {
			t.Fatalf("read %s from %d: %v", tp.Name(), offset, err)
		}
		if len(c.Data) == 0 {
			if offset < c.End {
				t.Fatalf("nothing at %d, the end is %d", offset, c.End)
			}
			return out
		}
		got, next := records(t, c.Data)
		if next != c.Next || next <= offset {
			t.Fatalf("a client at %d goes on at %d, the chunk says %d", offset, next, c.Next)
		}
		out, offset = append(out, got...), next
	}
}
