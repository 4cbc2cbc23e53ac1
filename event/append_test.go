package event_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// The states in which an expectation may find a stream. Events take versions 1 and
// 2; the tombstone of a deletion takes 3.
var streamStates = map[string]func(t *testing.T, s *event.Store){
	"missing": func(*testing.T, *event.Store) {},
	"at 2": func(t *testing.T, s *event.Store) {
		write(t, s, "order-1", event.NoStream, some("A", 2))
	},
	"deleted": func(t *testing.T, s *event.Store) {
		write(t, s, "order-1", event.NoStream, some("A", 2))
		do(t, s, func(b *mainstem.Batch) { s.DeleteTo(b, "order-1", event.AnyVersion) })
	},
	"truncated": func(t *testing.T, s *event.Store) {
		write(t, s, "order-1", event.NoStream, some("A", 2))
		do(t, s, func(b *mainstem.Batch) { s.TruncateTo(b, "order-1", 2) })
	},
}

// expectation is an append to a stream in a state.
type expectation struct {
	state    string
	expected event.Expected
	kind     error            // nil: the append succeeds
	actual   mainstem.Version // of the conflict, or the version written
}

var expectations = []expectation{
	{"missing", event.AnyVersion, nil, 1},
	{"missing", event.NoStream, nil, 1},
	{"missing", event.StreamExists, mainstem.ErrNotFound, 0},
	{"missing", 1, mainstem.ErrConflict, 0},
	{"missing", -3, mainstem.ErrInvalid, 0},
	{"at 2", event.AnyVersion, nil, 3},
	{"at 2", event.NoStream, mainstem.ErrConflict, 2},
	{"at 2", event.StreamExists, nil, 3},
	{"at 2", 1, mainstem.ErrConflict, 2},
	{"at 2", 2, nil, 3},
	{"at 2", 3, mainstem.ErrConflict, 2},
	{"at 2", math.MinInt64, mainstem.ErrInvalid, 0},
	{"at 2", event.AtVersion(math.MaxUint64), mainstem.ErrInvalid, 0},
	{"at 2", event.AtVersion(0), mainstem.ErrConflict, 2},
	{"deleted", event.AnyVersion, nil, 4},
	{"deleted", event.NoStream, nil, 4},
	{"deleted", event.StreamExists, mainstem.ErrNotFound, 0},
	{"deleted", 2, mainstem.ErrConflict, 3},
	{"deleted", 3, nil, 4},
	{"truncated", event.NoStream, mainstem.ErrConflict, 2},
	{"truncated", event.StreamExists, nil, 3},
	{"truncated", 2, nil, 3},
}

func TestExpectedVersion(t *testing.T) {
	forms := map[string]func(*event.Store, mainstem.Log, *testing.T, event.Expected) (mainstem.Version, error){
		"write": func(s *event.Store, _ mainstem.Log, t *testing.T, e event.Expected) (mainstem.Version, error) {
			a, err := s.Append(t.Context(), "order-1", e, some("B", 1))
			return a.First, err
		},
		"write with IDs": func(s *event.Store, _ mainstem.Log, t *testing.T, e event.Expected) (mainstem.Version, error) {
			a, err := s.Append(t.Context(), "order-1", e, identified(some("B", 1)))
			return a.First, err
		},
		"append": func(s *event.Store, log mainstem.Log, t *testing.T, e event.Expected) (mainstem.Version, error) {
			b := mainstem.NewBatch()
			s.AppendTo(b, "order-1", e, some("B", 1))
			r, err := log.Commit(t.Context(), b)
			a, _ := s.Result(b, r, "order-1")
			return a.First, s.Explain(t.Context(), err)
		},
	}
	each(t, func(t *testing.T, log mainstem.Log, _ *event.Store) {
		for form, appendOne := range forms {
			for i, c := range expectations {
				t.Run(form+"/"+c.state+"/"+c.expected.String(), func(t *testing.T) {
					s, err := event.Open(log, fmt.Sprintf("%s-%d", strings.ReplaceAll(form, " ", "-"), i), nil)
					if err != nil {
						t.Fatal(err)
					}
					testExpectation(t, s, c, func() (mainstem.Version, error) { return appendOne(s, log, t, c.expected) })
				})
			}
		}
	})
}

// testExpectation brings a stream of an empty store into the state of c and appends to it.
func testExpectation(t *testing.T, s *event.Store, c expectation, appendOne func() (mainstem.Version, error)) {
	streamStates[c.state](t, s)
	before := load(t, s, "order-1", nil)
	version, err := appendOne()
	if c.kind == nil {
		if err != nil || version != c.actual {
			t.Fatalf("version %d, %v: want version %d", version, err, c.actual)
		}
		return
	}
	wantKind(t, err, c.kind)
	if after := load(t, s, "order-1", nil); len(after) != len(before) {
		t.Fatalf("a refused append wrote: %d events, then %d", len(before), len(after))
	}
	var conflict *event.ConflictError
	if got := errors.As(err, &conflict); got != (c.kind == mainstem.ErrConflict) {
		t.Fatalf("%v is a ConflictError: %v", err, got)
	}
	if conflict == nil {
		return
	}
	if conflict.Stream != "order-1" || conflict.Expected != c.expected || conflict.Actual != c.actual || conflict.Deleted != (c.state == "deleted") {
		t.Fatalf("conflict %+v: want expected %d, actual %d", conflict, c.expected, c.actual)
	}
	var e *mainstem.Error
	if !errors.As(err, &e) || e.Outcome != mainstem.NotWritten {
		t.Fatalf("%v does not say that nothing was written", err)
	}
}

func TestWriteReturnsVersionsAndPositions(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		first := write(t, s, "order-1", event.NoStream, some("A", 3))
		second := write(t, s, "order-1", event.AtVersion(first.Last), some("B", 2))
		if first.First != 1 || first.Last != 3 || second.First != 4 || second.Last != 5 || first.Duplicate || second.Duplicate {
			t.Fatalf("versions: %+v then %+v", first, second)
		}
		evs := load(t, s, "order-1", nil)
		for _, a := range []event.Appended{first, second} {
			f, l := evs[a.First-1], evs[a.Last-1]
			if f.Position != a.FirstPosition || l.Position != a.LastPosition || !f.Time.Equal(a.Time) {
				t.Fatalf("%+v does not match the events %+v and %+v", a, f, l)
			}
		}
		for i := 1; i < len(evs); i++ {
			if evs[i].Position <= evs[i-1].Position || evs[i].Version != evs[i-1].Version+1 || evs[i].Time.Before(evs[i-1].Time) {
				t.Fatalf("event %+v follows %+v", evs[i], evs[i-1])
			}
		}
	})
}

func TestSeveralStreamsInOneBatch(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		write(t, s, "order-2", event.NoStream, some("A", 1))
		b := mainstem.NewBatch()
		b.Ensure("other", mainstem.Policy{})
		s.AppendTo(b, "order-1", event.NoStream, some("A", 2))
		b.Put("other", []byte("k"), []byte("v"))
		s.AppendTo(b, "order-2", event.AtVersion(1), some("B", 3))
		s.AppendTo(b, "order-1", event.AnyVersion, some("C", 1))
		r, err := log.Commit(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		one, _ := s.Result(b, r, "order-1")
		two, _ := s.Result(b, r, "order-2")
		if one.First != 1 || one.Last != 3 || two.First != 2 || two.Last != 4 {
			t.Fatalf("results %+v and %+v", one, two)
		}
		evs := load(t, s, "order-2", nil)
		if evs[1].Position != two.FirstPosition || evs[3].Position != two.LastPosition {
			t.Fatalf("positions of %+v: events %+v", two, evs)
		}
		evs = load(t, s, "order-1", nil)
		if evs[0].Position != one.FirstPosition || evs[2].Position != one.LastPosition {
			t.Fatalf("positions of %+v: events %+v", one, evs)
		}
		if _, ok := s.Result(b, r, "order-3"); ok {
			t.Fatal("a result for a stream that the batch does not append to")
		}
		if _, ok := s.Result(b, mainstem.Receipt{}, "order-1"); ok {
			t.Fatal("a result from the receipt of another batch")
		}

		// One expectation that does not hold: nothing at all is written.
		b.Reset()
		s.AppendTo(b, "order-3", event.NoStream, some("A", 1))
		s.ExpectTo(b, "order-1", event.AtVersion(2))
		_, err = log.Commit(t.Context(), b)
		var conflict *event.ConflictError
		if !errors.As(err, &conflict) || conflict.Stream != "order-1" || conflict.Expected != 2 || conflict.Actual != 3 || !errors.Is(err, mainstem.ErrConflict) {
			t.Fatalf("conflict %v", err)
		}
		if evs := load(t, s, "order-3", nil); len(evs) > 0 {
			t.Fatalf("a batch that failed wrote %d events", len(evs))
		}
		if again := s.Explain(t.Context(), err); again != err {
			t.Fatalf("explained again, %v reads %v", err, again)
		}

		// A condition of the caller's own on the position of a stream is not one that the store explains.
		b.Reset()
		s.AppendTo(b, "order-3", event.NoStream, some("A", 1))
		b.IfNotAfter(s.Space(), []byte("order-1"), 0)
		_, err = log.Commit(t.Context(), b)
		var plain *mainstem.Error
		if errors.As(err, &conflict) || !errors.As(err, &plain) || plain.Want.Test != mainstem.TestNotAfter || plain.GotPosition == 0 {
			t.Fatalf("a condition on a position: %v", err)
		}
		conflict = nil

		// The log's Commit returns a Conflict for StreamExists too; the writes at once return NotFound.
		b.Reset()
		s.AppendTo(b, "order-3", event.StreamExists, some("A", 1))
		_, err = log.Commit(t.Context(), b)
		if !errors.As(err, &conflict) || conflict.Stream != "order-3" || conflict.Expected != event.StreamExists {
			t.Fatalf("conflict %v", err)
		}
		wantKind(t, s.Explain(t.Context(), err), mainstem.ErrNotFound)
	})
}

func TestEventsAreExact(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		custom := map[string]string{"source": "web", "$schema_version": "3", "empty": "", "ünïcode": "\x00\xff"}
		want := identified([]event.Event{
			{Type: "Nil"},
			{Type: "Empty", Data: []byte{}},
			{Type: "Bytes", Data: []byte("{\"b\":1, \"a\": 9007199254740993}\x00\xff\n")},
			{Type: "Meta", Data: []byte("x"), ContentType: "application/json", Metadata: event.Metadata{
				CorrelationID: "c", CausationID: "ca", UserID: "u", TenantID: "t", Custom: custom,
			}},
			{Type: "Some", Metadata: event.Metadata{UserID: "ü"}},
			{Type: "Custom", Metadata: event.Metadata{Custom: map[string]string{"k": "v"}}},
			{Type: strings.Repeat("T", event.MaxType), Data: bytes.Repeat([]byte("0123456789"), 50_000)},
		})
		write(t, s, "order-1", event.NoStream, want)
		check := func(how string, got []event.Recorded) {
			t.Helper()
			wantEqual(t, how+": events", len(got), len(want))
			for i := range want {
				if !reflect.DeepEqual(got[i].Event, want[i]) {
					t.Errorf("%s: event %d is %+v: want %+v", how, i, got[i].Event, want[i])
				}
				if got[i].Stream != "order-1" || got[i].Version != mainstem.Version(i+1) || got[i].Time.IsZero() {
					t.Errorf("%s: event %d is at %s version %d", how, i, got[i].Stream, got[i].Version)
				}
			}
		}
		clones := func(seq func(func(event.Recorded, error) bool)) (out []event.Recorded) {
			seq(func(ev event.Recorded, err error) bool {
				out = append(out, ev.Clone())
				return err == nil
			})
			return out
		}
		check("load", load(t, s, "order-1", nil))
		check("events", clones(s.Events(t.Context(), "order-1", nil)))
		check("feed", clones(s.Feed(t.Context(), nil)))
		page, err := s.Page(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		check("page", page)
	})
}

// What Load returns is the caller's: changing it changes nothing else.
func TestLoadedEventsMayBeChanged(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		write(t, s, "order-1", event.NoStream, some("A", 20))
		got := load(t, s, "order-1", nil)
		for i := range got {
			if want := some("A", 20)[i].Data; !bytes.Equal(got[i].Data, want) {
				t.Fatalf("event %d is %q after its neighbour was changed: want %q", i, got[i].Data, want)
			}
			for j := range got[i].Data {
				got[i].Data[j] = 'X'
			}
			got[i].Data = append(got[i].Data, "beyond the end"...)
		}
		for i, ev := range load(t, s, "order-1", nil) {
			if want := some("A", 20)[i].Data; !bytes.Equal(ev.Data, want) {
				t.Fatalf("event %d reads %q after another result was changed: want %q", i, ev.Data, want)
			}
		}
	})
}

func TestAppendRefuses(t *testing.T) {
	long := strings.Repeat("x", event.MaxStream+1)
	many := map[string]string{}
	for i := range event.MaxCustom + 1 {
		many[strings.Repeat("k", i+1)] = ""
	}
	meta := func(name string) []event.Event {
		return []event.Event{{Type: "A", Metadata: event.Metadata{Custom: map[string]string{name: "v"}}}}
	}
	cases := map[string]struct {
		stream string
		events []event.Event
	}{
		"no stream":            {"", some("A", 1)},
		"long stream":          {long, some("A", 1)},
		"control character":    {"order-\n", some("A", 1)},
		"not UTF-8":            {"order-\xff", some("A", 1)},
		"no events":            {"order-1", nil},
		"no type":              {"order-1", []event.Event{{Type: "A"}, {}}},
		"reserved type":        {"order-1", some("$deleted", 1)},
		"long type":            {"order-1", some(strings.Repeat("x", event.MaxType+1), 1)},
		"type with a newline":  {"order-1", some("A\n", 1)},
		"custom without name":  {"order-1", meta("")},
		"custom long name":     {"order-1", meta(strings.Repeat("x", mainstem.MaxHeaderName+1))},
		"custom own name":      {"order-1", meta("$type")},
		"custom not UTF-8":     {"order-1", meta("\xff")},
		"custom too many":      {"order-1", []event.Event{{Type: "A", Metadata: event.Metadata{Custom: many}}}},
		"metadata too large":   {"order-1", []event.Event{{Type: "A", Metadata: event.Metadata{UserID: strings.Repeat("x", mainstem.MaxHeaderBytes)}}}},
		"data beyond the log":  {"order-1", []event.Event{{Type: "A", Data: make([]byte, mainstem.DefaultMaxValue+1)}}},
		"content type too big": {"order-1", []event.Event{{Type: "A", ContentType: strings.Repeat("x", event.MaxType+1)}}},
	}
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		for name, c := range cases {
			_, err := s.Append(t.Context(), c.stream, event.AnyVersion, c.events)
			if !errors.Is(err, mainstem.ErrInvalid) {
				t.Errorf("%s: write returned %v: want Invalid", name, err)
			}
			b := mainstem.NewBatch()
			s.AppendTo(b, "order-1", event.AnyVersion, some("A", 1))
			s.AppendTo(b, c.stream, event.AnyVersion, c.events)
			if _, err := log.Commit(t.Context(), b); !errors.Is(err, mainstem.ErrInvalid) {
				t.Errorf("%s: commit returned %v: want Invalid", name, err)
			}
		}
		if n := len(collect(t, s.Streams(t.Context(), nil))); n != 0 {
			t.Errorf("refused appends created %d streams", n)
		}
	})
}

func TestMaxEventBytes(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, _ *event.Store) {
		s := open(t, log, &event.Options{MaxEventBytes: 10})
		write(t, s, "order-1", event.AnyVersion, []event.Event{{Type: "A", Data: make([]byte, 10)}})
		_, err := s.Append(t.Context(), "order-1", event.AnyVersion, []event.Event{{Type: "A"}, {Type: "B", Data: make([]byte, 11)}})
		if !errors.Is(err, event.ErrTooLarge) || !errors.Is(err, mainstem.ErrInvalid) {
			t.Fatalf("error %v: want ErrTooLarge, Invalid", err)
		}
		for _, part := range []string{"event 1", "11 bytes", "limit is 10"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error %q does not say %q", err, part)
			}
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, _ *event.Store) {
		for _, name := range []string{"", "a\n", "trailing ", strings.Repeat("x", mainstem.MaxSpaceName)} {
			if _, err := event.Open(log, name, nil); !errors.Is(err, mainstem.ErrInvalid) {
				t.Errorf("open %.20q: %v: want Invalid", name, err)
			}
		}
		_, err := event.Open(log, "orders", &event.Options{MaxEventBytes: -1, KeepSnapshots: -1, Durability: -9})
		for _, field := range []string{"MaxEventBytes", "KeepSnapshots", "Durability"} {
			if err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("error %v does not name %s", err, field)
			}
		}
		if _, err := event.Open(nil, "orders", nil); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("open on no log: %v: want Invalid", err)
		}
	})
}

func TestEventsWithoutIDGetOne(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		given := event.NewID()
		evs := some("A", 3)
		evs[1].ID = given
		write(t, s, "order-1", event.AnyVersion, evs)
		got := load(t, s, "order-1", nil)
		if got[1].ID != given || got[0].ID.IsZero() || got[2].ID.IsZero() || got[0].ID == got[2].ID {
			t.Fatalf("ids %s, %s, %s", got[0].ID, got[1].ID, got[2].ID)
		}
		if !evs[0].ID.IsZero() {
			t.Fatal("the caller's events were changed")
		}
		fixed := open(t, log, &event.Options{NewID: func() event.ID { return event.ID{7} }})
		write(t, fixed, "order-2", event.AnyVersion, some("A", 1))
		wantEqual(t, "id", load(t, s, "order-2", nil)[0].ID, event.ID{7})
	})
}

func TestReadsCreateNothing(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		ctx := t.Context()
		wantEqual(t, "events", len(load(t, s, "order-1", nil)), 0)
		wantEqual(t, "events", len(collect(t, s.Events(ctx, "order-1", nil))), 0)
		wantEqual(t, "feed", len(collect(t, s.Feed(ctx, nil))), 0)
		wantEqual(t, "streams", len(collect(t, s.Streams(ctx, nil))), 0)
		wantEqual(t, "categories", len(collect(t, s.Categories(ctx))), 0)
		wantEqual(t, "checkpoints", len(collect(t, s.Checkpoints(ctx))), 0)
		wantEqual(t, "parked", len(collect(t, s.Parked(ctx, "p"))), 0)
		page, err := s.Page(ctx, nil)
		wantEqual(t, "page", len(page), 0)
		wantEqual(t, "page error", err, nil)
		_, err = s.StreamInfo(ctx, "order-1")
		wantKind(t, err, mainstem.ErrNotFound)
		_, err = s.Snapshot(ctx, "order-1", 0)
		wantKind(t, err, mainstem.ErrNotFound)
		_, err = s.Checkpoint(ctx, "p")
		wantKind(t, err, mainstem.ErrNotFound)
		wantKind(t, s.WaitFor(ctx, "p", 1), mainstem.ErrNotFound)
		wantKind(t, s.Unarchive(ctx, "order-1"), mainstem.ErrNotFound)
		last, err := s.LastPosition(ctx)
		wantEqual(t, "last position", last, 0)
		wantEqual(t, "last position error", err, nil)
		st, err := s.LoadState(ctx, "order-1", nil)
		if err != nil || !reflect.DeepEqual(st, event.State{}) {
			t.Fatalf("state %+v, %v", st, err)
		}
		settings, err := s.Settings(ctx, "order-1")
		if err != nil || !reflect.DeepEqual(settings, event.Settings{}) {
			t.Fatalf("settings %+v, %v", settings, err)
		}
		if stats, err := s.Stats(ctx); err != nil || stats != (event.Stats{}) {
			t.Fatalf("stats %+v, %v", stats, err)
		}
		if done, err := s.Scavenge(ctx); err != nil || done != (event.Scavenged{}) {
			t.Fatalf("scavenged %+v, %v", done, err)
		}
		if _, err := s.Append(ctx, "order-1", event.AtVersion(7), some("A", 1)); !errors.Is(err, mainstem.ErrConflict) {
			t.Fatalf("write: %v", err)
		}
		if err := s.Drop(ctx); err != nil {
			t.Fatal(err)
		}
		for info, err := range log.Spaces(ctx, "") {
			t.Errorf("a read created space %s, %v", info.Name, err)
		}
	})
}

func TestStoresAreApart(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		other, err := event.Open(log, "orders2", nil)
		if err != nil {
			t.Fatal(err)
		}
		write(t, s, "order-1", event.NoStream, some("A", 1))
		write(t, other, "order-1", event.NoStream, some("A", 2))
		if names := collect(t, event.Stores(t.Context(), log)); !reflect.DeepEqual(names, []string{"orders", "orders2"}) {
			t.Fatalf("stores %v", names)
		}
		if err := s.Drop(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "dropped", len(load(t, s, "order-1", nil)), 0)
		wantEqual(t, "kept", len(load(t, other, "order-1", nil)), 2)
		wantEqual(t, "version after drop", write(t, s, "order-1", event.NoStream, some("A", 1)).First, 1)
	})
}
