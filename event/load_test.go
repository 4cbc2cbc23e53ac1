package event_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func TestLoadSelects(t *testing.T) {
	type v = []mainstem.Version
	cases := []struct {
		name string
		o    event.LoadOptions
		want v
	}{
		{"all", event.LoadOptions{}, v{1, 2, 3, 4, 5}},
		{"from", event.LoadOptions{From: 3}, v{3, 4, 5}},
		{"to", event.LoadOptions{To: 2}, v{1, 2}},
		{"between", event.LoadOptions{From: 2, To: 4}, v{2, 3, 4}},
		{"beyond", event.LoadOptions{From: 6}, v{}},
		{"limit", event.LoadOptions{Limit: 2}, v{1, 2}},
		{"from, limit", event.LoadOptions{From: 2, Limit: 2}, v{2, 3}},
		{"limit beyond", event.LoadOptions{Limit: 9}, v{1, 2, 3, 4, 5}},
		{"backward", event.LoadOptions{Backward: true}, v{5, 4, 3, 2, 1}},
		{"backward, limit", event.LoadOptions{Backward: true, Limit: 2}, v{5, 4}},
		{"backward, to, limit", event.LoadOptions{Backward: true, To: 3, Limit: 2}, v{3, 2}},
		{"backward, from", event.LoadOptions{Backward: true, From: 4}, v{5, 4}},
	}
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		write(t, s, "order-1", event.NoStream, some("A", 5))
		write(t, s, "order-10", event.NoStream, some("B", 2)) // a neighbour in the order of keys
		for _, c := range cases {
			if got := versions(load(t, s, "order-1", &c.o)); !slices.Equal(got, c.want) {
				t.Errorf("%s: versions %v: want %v", c.name, got, c.want)
			}
			if got := versions(collect(t, s.Events(t.Context(), "order-1", &c.o))); !slices.Equal(got, c.want) {
				t.Errorf("%s: Events yields versions %v: want %v", c.name, got, c.want)
			}
		}
		for name, o := range map[string]event.LoadOptions{
			"limit": {Limit: -1}, "follow": {Follow: true}, "follow backward": {Follow: true, Backward: true},
		} {
			if _, err := s.Load(t.Context(), "order-1", &o); !errors.Is(err, mainstem.ErrInvalid) {
				t.Errorf("%s: %v: want Invalid", name, err)
			}
		}
		_, err := s.Load(t.Context(), "", nil)
		wantKind(t, err, mainstem.ErrInvalid)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = s.Load(ctx, "order-1", nil)
		wantKind(t, err, mainstem.ErrCanceled)
	})
}

// A deleted stream begins with a tombstone, which is no event and takes no place
// in a limit.
func TestLoadAfterDelete(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		write(t, s, "order-1", event.NoStream, some("A", 3))
		do(t, s, func(b *mainstem.Batch) { s.DeleteTo(b, "order-1", 3) })
		wantEqual(t, "events", len(load(t, s, "order-1", nil)), 0)
		write(t, s, "order-1", event.NoStream, some("B", 3))
		for _, o := range []event.LoadOptions{{}, {Limit: 3}, {From: 4}, {Limit: 3, From: 2}} {
			if got := versions(load(t, s, "order-1", &o)); !slices.Equal(got, []mainstem.Version{5, 6, 7}) {
				t.Errorf("%+v: versions %v", o, got)
			}
		}
		back := []mainstem.Version{7, 6, 5}
		for limit := 1; limit <= 5; limit++ {
			want := back[:min(limit, len(back))]
			if got := versions(load(t, s, "order-1", &event.LoadOptions{Backward: true, Limit: limit})); !slices.Equal(got, want) {
				t.Errorf("backward, limit %d: versions %v, want %v", limit, got, want)
			}
		}
	})
}

func TestTimeTravel(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		a := write(t, s, "order-1", event.NoStream, some("A", 2))
		write(t, s, "order-2", event.NoStream, some("A", 2))
		waitForClock(t, log)
		b := write(t, s, "order-1", 2, some("B", 2))
		type v = []mainstem.Version
		cases := []struct {
			o    event.LoadOptions
			want v
		}{
			{event.LoadOptions{UpTo: a.LastPosition}, v{1, 2}},
			{event.LoadOptions{UpTo: a.FirstPosition}, v{1}},
			{event.LoadOptions{UpTo: b.FirstPosition - 1}, v{1, 2}},
			{event.LoadOptions{UpTo: b.FirstPosition, Backward: true}, v{3, 2, 1}},
			{event.LoadOptions{UpTo: b.FirstPosition, Backward: true, Limit: 2}, v{3, 2}},
			{event.LoadOptions{Until: a.Time}, v{1, 2}},
			{event.LoadOptions{Until: b.Time}, v{1, 2, 3, 4}},
			{event.LoadOptions{Until: a.Time.Add(-time.Hour)}, v{}},
			{event.LoadOptions{Until: a.Time, Backward: true, Limit: 1}, v{2}},
			{event.LoadOptions{Until: b.Time, To: 3}, v{1, 2, 3}},
		}
		for _, c := range cases {
			if got := versions(load(t, s, "order-1", &c.o)); !slices.Equal(got, c.want) {
				t.Errorf("%+v: versions %v: want %v", c.o, got, c.want)
			}
		}
	})
}

// waitForClock returns when the log gives out another time than before.
func waitForClock(t *testing.T, log mainstem.Log) {
	t.Helper()
	tick := func() time.Time {
		b := mainstem.NewBatch()
		b.Ensure("clock", mainstem.Policy{History: 1})
		b.Put("clock", []byte("k"), nil)
		r, err := log.Commit(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		return r.Time
	}
	for start := tick(); !tick().After(start); {
	}
}

func TestEventsFollow(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		ctx, cancel := context.WithCancel(within(t))
		defer cancel()
		seen := make(chan mainstem.Version)
		ended := make(chan error, 1)
		go func() {
			for ev, err := range s.Events(ctx, "order-1", &event.LoadOptions{From: 2, Follow: true}) {
				if err != nil {
					ended <- err
					return
				}
				seen <- ev.Version
			}
			ended <- nil
		}()
		write(t, s, "order-10", event.NoStream, some("B", 2)) // creates the store's space
		write(t, s, "order-1", event.NoStream, some("A", 3))
		wantEqual(t, "first", <-seen, 2)
		wantEqual(t, "second", <-seen, 3)
		write(t, s, "order-1", 3, some("A", 1))
		wantEqual(t, "third", <-seen, 4)
		do(t, s, func(b *mainstem.Batch) { s.DeleteTo(b, "order-1", 4) })
		write(t, s, "order-1", event.NoStream, some("A", 1))
		wantEqual(t, "after the tombstone", <-seen, 6)
		cancel()
		wantKind(t, <-ended, mainstem.ErrCanceled)

		got := []mainstem.Version{}
		for ev, err := range s.Events(within(t), "order-1", &event.LoadOptions{Follow: true, Limit: 1}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, ev.Version)
		}
		if !slices.Equal(got, []mainstem.Version{6}) {
			t.Fatalf("follow with a limit: %v", got)
		}
	})
}

// Loads of every size go through the same blocks of memory.
func TestLoadLarge(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		var want []event.Event
		for i := range testkit.Rounds(2500) {
			ev := event.Event{ID: event.NewID(), Type: "T" + strings.Repeat("x", i%300)}
			ev.Data = slices.Repeat([]byte{byte(i)}, i%700)
			if i%3 == 0 {
				ev.Metadata.UserID = strings.Repeat("u", i%50+1)
			}
			if i%7 == 0 {
				ev.Metadata.Custom = map[string]string{"a": strings.Repeat("v", i%10), strings.Repeat("n", i%200+2): "w"}
			}
			want = append(want, ev)
		}
		for part := range slices.Chunk(want, 500) {
			write(t, s, "order-1", event.AnyVersion, part)
		}
		got := load(t, s, "order-1", nil)
		wantEqual(t, "events", len(got), len(want))
		for i := range got {
			if !reflect.DeepEqual(got[i].Event, want[i]) {
				t.Fatalf("event %d is %+v: want %+v", i, got[i].Event, want[i])
			}
		}
	})
}

func TestStreamInfo(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		info := func(stream string) event.StreamInfo {
			t.Helper()
			in, err := s.StreamInfo(t.Context(), stream)
			if err != nil {
				t.Fatal(err)
			}
			return in
		}
		a := write(t, s, "order-1", event.NoStream, some("A", 3))
		waitForClock(t, log)
		b := write(t, s, "order-1", 3, some("A", 2))
		in := info("order-1")
		if in.Version != 5 || in.First != 1 || in.Count != 5 || in.Position != b.LastPosition || in.Deleted || in.Seal != event.NotSealed ||
			!in.Created.Equal(a.Time) || !in.Updated.Equal(b.Time) || in.Stream != "order-1" {
			t.Fatalf("info %+v", in)
		}
		do(t, s, func(b *mainstem.Batch) { s.TruncateTo(b, "order-1", 4) })
		if in = info("order-1"); in.Version != 5 || in.First != 4 || in.Count != 2 || !in.Created.Equal(b.Time) {
			t.Fatalf("truncated: info %+v", in)
		}
		do(t, s, func(b *mainstem.Batch) { s.ArchiveTo(b, "order-1") })
		if in = info("order-1"); in.Version != 5 || in.Count != 2 || in.Seal != event.Archived {
			t.Fatalf("archived: info %+v", in)
		}
		if err := s.Unarchive(t.Context(), "order-1"); err != nil {
			t.Fatal(err)
		}
		do(t, s, func(b *mainstem.Batch) { s.DeleteTo(b, "order-1", 5) })
		if in = info("order-1"); in.Version != 6 || in.First != 0 || in.Count != 0 || !in.Deleted || in.Seal != event.NotSealed {
			t.Fatalf("deleted: info %+v", in)
		}
		write(t, s, "order-1", 6, some("A", 2))
		if in = info("order-1"); in.Version != 8 || in.First != 7 || in.Count != 2 || in.Deleted {
			t.Fatalf("in its second life: info %+v", in)
		}
		do(t, s, func(b *mainstem.Batch) { s.TombstoneTo(b, "order-1", 8) })
		if in = info("order-1"); in.Version != 9 || in.Count != 0 || !in.Deleted || in.Seal != event.Tombstoned {
			t.Fatalf("tombstoned: info %+v", in)
		}
		do(t, s, func(b *mainstem.Batch) { s.TombstoneTo(b, "never", event.AnyVersion) })
		if in = info("never"); in.Version != 0 || !in.Deleted || in.Seal != event.Tombstoned {
			t.Fatalf("tombstoned without events: info %+v", in)
		}
		_, err := s.StreamInfo(t.Context(), "order-2")
		wantKind(t, err, mainstem.ErrNotFound)
	})
}

func TestStats(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		write(t, s, "order-1", event.NoStream, some("A", 3))
		a := write(t, s, "order-2", event.NoStream, some("A", 2))
		write(t, open2(t, log), "x", event.NoStream, some("A", 2)) // another store
		st, err := s.Stats(t.Context())
		if err != nil || st.Streams != 2 || st.Events != 5 || st.Bytes == 0 || st.Last != a.LastPosition || !st.Updated.Equal(a.Time) {
			t.Fatalf("stats %+v, %v", st, err)
		}
		last, err := s.LastPosition(t.Context())
		wantEqual(t, "last position", last, a.LastPosition)
		wantEqual(t, "error", err, nil)
	})
}

func open2(t *testing.T, log mainstem.Log) *event.Store {
	s, err := event.Open(log, "other", nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The largest limit is one like any other: the one record more that is read for a
// tombstone does not overflow.
func TestLargestLimit(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		write(t, s, "order-1", event.NoStream, some("A", 3))
		for _, o := range []event.LoadOptions{{Limit: math.MaxInt}, {Limit: math.MaxInt, Backward: true}, {Limit: math.MaxInt - 1}} {
			if evs, err := s.Load(t.Context(), "order-1", &o); err != nil || len(evs) != 3 {
				t.Errorf("load of %+v: %d events, %v", o, len(evs), err)
			}
		}
		if evs, err := s.Page(t.Context(), &event.FeedOptions{Limit: math.MaxInt}); err != nil || len(evs) != 3 {
			t.Errorf("page: %d events, %v", len(evs), err)
		}
		n := 0
		for _, err := range s.Streams(t.Context(), &event.ListOptions{Limit: math.MaxInt}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		wantEqual(t, "streams", n, 1)
		for _, index := range []bool{false, true} {
			if index {
				if err := s.CreateIndex(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
			}
			for o, want := range map[event.QueryOptions]int{
				{Limit: math.MaxInt}: 3, {Limit: math.MaxInt, Backward: true}: 3,
				{After: math.MaxUint64}: 0, {After: math.MaxUint64, Backward: true}: 3,
			} {
				n := 0
				for _, err := range s.Query(t.Context(), event.Query{{Types: []string{"A"}}}, &o) {
					if err != nil {
						t.Fatal(err)
					}
					n++
				}
				if n != want {
					t.Errorf("query with %+v, an index: %v: %d events, want %d", o, index, n, want)
				}
			}
		}
	})
}

// TestLoadInto loads streams into memory that was used for others: no field of an event survives
// from before, and copies of earlier events do not change.
func TestLoadInto(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		full := some("Full", 3)
		for i := range full {
			full[i].ContentType, full[i].Tags = "text/plain", []string{"order:1", "day:2"}
			full[i].Metadata = event.Metadata{CorrelationID: "c", CausationID: "d", UserID: "u", TenantID: "t", Custom: map[string]string{"k": "v"}}
		}
		bare := some("Bare", 2500) // more than a block of the collector
		for i := range bare {
			bare[i].Data = nil
		}
		write(t, s, "full-1", event.NoStream, full)
		write(t, s, "bare-1", event.NoStream, bare)
		write(t, s, "some-1", event.NoStream, some("Some", 40))
		var into []event.Recorded
		for _, stream := range []string{"some-1", "full-1", "bare-1", "full-1", "none-1", "some-1", "bare-1"} {
			kept, want := slices.Clone(into), load(t, s, stream, nil)
			before := load(t, s, "full-1", nil)
			got, err := s.Load(t.Context(), stream, &event.LoadOptions{Into: into[:0]})
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
				t.Fatalf("%s loaded into used memory: %d events that differ from the %d of a new slice", stream, len(got), len(want))
			}
			if len(kept) == len(before) && !reflect.DeepEqual(kept, before) {
				t.Fatalf("loading %s changed the copies of earlier events", stream)
			}
			into = got
		}
		both, err := s.Load(t.Context(), "full-1", &event.LoadOptions{Into: load(t, s, "some-1", nil)})
		if want := append(load(t, s, "some-1", nil), load(t, s, "full-1", nil)...); err != nil || !reflect.DeepEqual(both, want) {
			t.Fatalf("%d events after 40 others, %v: want %d", len(both), err, len(want))
		}
		if got, err := s.Load(t.Context(), "", &event.LoadOptions{Into: both}); got != nil || err == nil {
			t.Fatalf("a load that fails returns %d events, %v", len(got), err)
		}
	})
}
