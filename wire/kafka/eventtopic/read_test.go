package eventtopic_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/feedtopic"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
	"github.com/mainstemdev/mainstem/wire/kafka/eventtopic"
)

func TestARecordIsTheEvent(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		s := store(t, log, "orders")
		id := event.NewID()
		a := write(t, s, "order-1", event.Event{
			ID: id, Type: "Placed", Data: []byte("{}"), ContentType: "application/json", Tags: []string{"a:1", "b,c"},
			Metadata: event.Metadata{CorrelationID: "c", CausationID: "b", UserID: "u", TenantID: "t", Custom: map[string]string{"z": "", "a": "1", event.SchemaName: "3"}},
		})
		write(t, s, "order-2", event.Event{Type: "Emptied", Data: []byte{}}, event.Event{Type: "Nothing"})
		got := all(t, find(t, open(t, log), "event.orders"), 0, 1<<20)
		if len(got) != 3 {
			t.Fatalf("%d records", len(got))
		}
		want := fmt.Sprintf("event-type=Placed event-id=%v event-version=1 event-position=%d event-content-type=application/json "+
			"event-schema-version=3 event-correlation-id=c event-causation-id=b event-user-id=u event-tenant-id=t event-tags=[\"a:1\",\"b,c\"] metadata.a=1 metadata.z=", id, got[0].Offset)
		if h := headersOf(got[0]); h != want {
			t.Errorf("headers\n%s\nwant\n%s", h, want)
		}
		first, err := s.Load(t.Context(), "order-1", nil)
		if err != nil {
			t.Fatal(err)
		}
		r := got[0]
		if string(r.Key) != "order-1" || string(r.Value) != "{}" || r.Timestamp != first[0].Time.UnixMilli() || r.Offset != int64(first[0].Position) {
			t.Errorf("%+v of %+v (%+v)", r, first[0], a)
		}
		if got[1].Value == nil || len(got[1].Value) != 0 || got[2].Value != nil {
			t.Errorf("empty data is %v, none is %v", got[1].Value, got[2].Value)
		}
		if !strings.Contains(headersOf(got[2]), "event-version=2") {
			t.Errorf("headers %s", headersOf(got[2]))
		}
	})
}

func TestOffsetsOutOfRange(t *testing.T) {
	log := testengines.Memory(t)
	write(t, store(t, log, "s"), "a-1", note("x"))
	tp := find(t, open(t, log), "event.s")
	end, err := tp.End(t.Context(), 0)
	if err != nil || end < 2 {
		t.Fatal(end, err)
	}
	if c := read(t, tp, end, nil); len(c.Data) != 0 || c.Next != end || c.End != end {
		t.Errorf("at the end: %+v", c)
	}
	for _, offset := range []int64{-1, end + 1} {
		var out *topic.OutOfRangeError
		if _, err := tp.Read(t.Context(), 0, offset, nil); !errors.As(err, &out) || !errors.Is(err, mainstem.ErrInvalid) || out.End != end {
			t.Errorf("offset %d: %v", offset, err)
		}
	}
	if _, err := tp.Read(t.Context(), 1, 0, nil); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("partition 1: %v", err)
	}
}

func TestLargeEvents(t *testing.T) {
	log := testengines.Memory(t)
	s := store(t, log, "s")
	big := strings.Repeat("x", 2*feedtopic.BatchBytes)
	write(t, s, "a-1", note("small"), note(big), note("small"))
	tp := find(t, open(t, log), "event.s")
	for _, limit := range []int{1, 100, 1000, feedtopic.BatchBytes, 8 * feedtopic.BatchBytes} {
		got := all(t, tp, 0, limit)
		if len(got) != 3 || string(got[1].Value) != big {
			t.Errorf("limit %d: %d records", limit, len(got))
		}
	}
	for i := range 100 {
		write(t, s, "a-1", note(strings.Repeat("y", 10_000+i)))
	}
	chunk := read(t, tp, 0, &partition.ReadOptions{MaxBytes: 8 << 20})
	parts := batches(t, chunk.Data)
	if len(parts) < 4 {
		t.Errorf("%d batches of %d bytes", len(parts), len(chunk.Data))
	}
	for _, p := range parts {
		if h, _ := recordbatch.Parse(p); len(p) > feedtopic.BatchBytes && h.NumRecords > 1 {
			t.Errorf("a batch has %d bytes and %d records", len(p), h.NumRecords)
		}
	}
}

func TestReadKeepsTheBuffer(t *testing.T) {
	log := testengines.Memory(t)
	write(t, store(t, log, "s"), "a-1", note("x"), note("y"))
	tp := find(t, open(t, log), "event.s")
	plain := read(t, tp, 0, &partition.ReadOptions{LeaderEpoch: 3})
	behind := read(t, tp, 0, &partition.ReadOptions{LeaderEpoch: 3, Buffer: []byte("before")})
	if string(behind.Data[:6]) != "before" || !bytes.Equal(behind.Data[6:], plain.Data) {
		t.Error("the buffer and the batches are not what they were")
	}
	h, err := recordbatch.Parse(plain.Data)
	if err != nil || h.PartitionLeaderEpoch != 3 {
		t.Error(h, err)
	}
	got, _ := records(t, plain.Data)
	some := read(t, tp, 0, &partition.ReadOptions{Before: got[1].Offset})
	if r, next := records(t, some.Data); len(r) != 1 || next != got[1].Offset || some.Next != next || some.End != plain.End || some.Full {
		t.Errorf("before %d: %d records, next %d, %+v", got[1].Offset, len(r), next, some)
	}
}

// TestWhatIsNotShown: deleted and archived streams are not in the topic, and the end is behind
// the last event that is shown, so that a reader reaches it.
func TestWhatIsNotShown(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		s := store(t, log, "s")
		write(t, s, "a-kept", note("1"))
		for _, stream := range []string{"a-deleted", "a-archived", "a-tombstoned", "a-forgotten"} {
			write(t, s, stream, note(stream), note(stream))
		}
		c := open(t, log)
		for _, name := range []string{"event.s", "event.s.a"} {
			if got := all(t, find(t, c, name), 0, 1<<20); len(got) != 9 {
				t.Fatalf("%s: %d records, want 9", name, len(got))
			}
		}
		before, _ := find(t, c, "event.s.a").End(t.Context(), 0)
		b := mainstem.NewBatch()
		s.DeleteTo(b, "a-deleted", event.AnyVersion)
		s.ArchiveTo(b, "a-archived")
		s.TombstoneTo(b, "a-tombstoned", event.AnyVersion)
		s.ForgetTo(b, "a-forgotten")
		if _, err := log.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		lists := func(c *eventtopic.Catalog, want ...string) {
			t.Helper()
			for _, name := range []string{"event.s", "event.s.a"} {
				tp := find(t, c, name)
				got := all(t, tp, 0, 1<<20)
				var values []string
				for _, r := range got {
					values = append(values, string(r.Value))
				}
				if !slices.Equal(values, want) {
					t.Fatalf("%s: records %q, want %q", name, values, want)
				}
				last := got[len(got)-1].Offset
				if end, err := tp.End(t.Context(), 0); err != nil || end != last+1 {
					t.Errorf("%s: the end is %d, %v, want %d", name, end, err, last+1)
				}
				if bound, err := tp.Bound(t.Context(), 0); err != nil || bound < before {
					t.Errorf("%s: the bound went from %d to %d, %v", name, before, bound, err)
				}
				if c := read(t, tp, before, nil); len(c.Data) > 0 && last < before { // somebody was there
					t.Errorf("%s: %d bytes behind the last record", name, len(c.Data))
				}
				found, ok, err := tp.MaxTimestamp(t.Context(), 0)
				if err != nil || !ok || found.Time.UnixMilli() != got[len(got)-1].Timestamp {
					t.Errorf("%s: newest timestamp %+v, %v, %v", name, found, ok, err)
				}
			}
		}
		for _, c := range []*eventtopic.Catalog{c, open(t, log)} {
			lists(c, "1")
		}
		if err := s.Unarchive(t.Context(), "a-archived"); err != nil {
			t.Fatal(err)
		}
		lists(c, "1", "a-archived", "a-archived")
		if err := s.Truncate(t.Context(), "a-archived", 2); err != nil {
			t.Fatal(err)
		}
		lists(c, "1", "a-archived")
		if err := s.Truncate(t.Context(), "a-archived", 3); err != nil {
			t.Fatal(err)
		}
		lists(c, "1")
	})
}

// TestAReaderOfForgottenEventsGoesOn: the newest stream of a category is removed from the log,
// and a new server has not seen it, but a consumer was already past it.
func TestAReaderOfForgottenEventsGoesOn(t *testing.T) {
	log := testengines.Memory(t)
	s := store(t, log, "s")
	write(t, s, "a-1", note("old"))
	write(t, s, "a-2", note("new"))
	write(t, s, "b-1", note("other"))
	end, err := find(t, open(t, log), "event.s.a").End(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Forget(t.Context(), "a-2"); err != nil {
		t.Fatal(err)
	}
	tp := find(t, open(t, log), "event.s.a")
	if c := read(t, tp, end, nil); len(c.Data) != 0 || c.Next != end {
		t.Errorf("%+v", c)
	}
	write(t, s, "a-1", note("newer"))
	if got := all(t, tp, end, 1<<20); len(got) != 1 || string(got[0].Value) != "newer" {
		t.Errorf("%d records, want the new one", len(got))
	}
}

// TestProgram reads random stores in random pieces and compares with the store's feed.
func TestProgram(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		log := model.New(nil)
		defer log.Close()
		s := store(t, log, "s")
		c := eventtopic.Open(log, nil)
		defer c.Close()
		streams := []string{"a-1", "a-2", "b-1", "none", "a.b-1"}
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			stream := rapid.SampledFrom(streams).Draw(r, "stream")
			if rapid.IntRange(0, 9).Draw(r, "unarchive") == 0 {
				_ = s.Unarchive(t.Context(), stream)
			}
			b := mainstem.NewBatch()
			switch rapid.IntRange(0, 11).Draw(r, "what") {
			case 0:
				s.DeleteTo(b, stream, event.AnyVersion)
			case 1:
				s.ArchiveTo(b, stream)
			case 2:
				s.ForgetTo(b, stream)
			case 3:
				s.TruncateTo(b, stream, mainstem.Version(rapid.IntRange(1, 8).Draw(r, "version")))
			case 4:
				b.Ensure("other", mainstem.Policy{})
				b.Put("other", []byte("k"), nil)
			default:
				var evs []event.Event
				for range rapid.IntRange(1, 5).Draw(r, "events") {
					evs = append(evs, note(strings.Repeat("n", rapid.IntRange(0, 300).Draw(r, "size"))))
				}
				s.AppendTo(b, stream, event.AnyVersion, evs)
			}
			_, _ = log.Commit(t.Context(), b) // it does not matter here that a sealed stream refuses it
			if rapid.Bool().Draw(r, "look") { // the catalog and the topics remember what they saw
				all, err := c.All(t.Context())
				if err != nil {
					r.Fatal(err)
				}
				for _, tp := range all {
					if _, err := tp.End(t.Context(), 0); err != nil {
						r.Fatal(err)
					}
				}
			}
		}
		for _, category := range []string{"", "a", "b", "a.b"} {
			checkAgainstFeed(t, r, c, s, category)
		}
	})
}

func checkAgainstFeed(t *testing.T, r *rapid.T, c *eventtopic.Catalog, s *event.Store, category string) {
	name := "event.s"
	if category != "" {
		name += "." + category
	}
	tp, err := c.Topic(t.Context(), name)
	if errors.Is(err, mainstem.ErrNotFound) {
		return
	}
	if err != nil {
		r.Fatal(err)
	}
	end, err := tp.End(t.Context(), 0)
	if err != nil {
		r.Fatal(err)
	}
	bound, err := tp.Bound(t.Context(), 0)
	if err != nil {
		r.Fatal(err)
	}
	whole, err := s.Page(t.Context(), &event.FeedOptions{Filter: event.Filter{Category: category}})
	if err != nil {
		r.Fatal(err)
	}
	last := int64(-1)
	if len(whole) > 0 {
		last = int64(whole[len(whole)-1].Position)
	}
	if end != last+1 || bound < end {
		r.Fatalf("%s ends at %d, bound %d; the last event is at %d", name, end, bound, last)
	}
	offset := rapid.Int64Range(0, bound).Draw(r, "offset")
	o := &event.FeedOptions{Filter: event.Filter{Category: category}}
	if offset > 0 {
		o.After = mainstem.Position(offset - 1)
	}
	want, err := s.Page(t.Context(), o)
	if err != nil {
		r.Fatal(err)
	}
	limit := rapid.IntRange(1, 5000).Draw(r, "limit")
	got := all(t, tp, offset, limit)
	if len(got) != len(want) {
		r.Fatalf("%s from %d: %d records, want %d", name, offset, len(got), len(want))
	}
	for i, w := range want {
		if g := got[i]; g.Offset != int64(w.Position) || string(g.Key) != w.Stream || !bytes.Equal(g.Value, w.Data) {
			r.Fatalf("%s: record %d is %d of %s, want %d of %s", name, i, g.Offset, g.Key, w.Position, w.Stream)
		}
	}
	one, two := read(t, tp, offset, &partition.ReadOptions{MaxBytes: limit}), read(t, tp, offset, &partition.ReadOptions{MaxBytes: limit})
	if !bytes.Equal(one.Data, two.Data) {
		r.Fatalf("%s: two reads from %d differ", name, offset)
	}
}
