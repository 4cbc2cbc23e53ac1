package event_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/event"
)

// oracle is the event store written down as simply as possible.
type oracle struct {
	streams map[string]*oracleStream
	feed    []*oracleEvent // in order; removed ones have no stream
}

type oracleStream struct {
	version mainstem.Version
	events  []*oracleEvent
	tomb    bool // the newest record is a tombstone
	seal    event.Seal
}

type oracleEvent struct {
	stream  string
	version mainstem.Version
	id      event.ID
	gone    bool
}

func (o *oracle) stream(name string) *oracleStream {
	if o.streams[name] == nil {
		o.streams[name] = &oracleStream{}
	}
	return o.streams[name]
}

// meets says whether st meets the expectation: nil, or the kind of the error.
func (st *oracleStream) meets(e event.Expected) error {
	switch {
	case e < event.StreamExists:
		return mainstem.ErrInvalid
	case st.seal != event.NotSealed:
		return mainstem.ErrConflict
	case e == event.NoStream && len(st.events) > 0, e > 0 && mainstem.Version(e) != st.version:
		return mainstem.ErrConflict
	case e == event.StreamExists && len(st.events) == 0:
		return mainstem.ErrNotFound
	}
	return nil
}

func (o *oracle) append(name string, ids []event.ID) (first, last mainstem.Version) {
	st := o.stream(name)
	first = st.version + 1
	for _, id := range ids {
		st.version++
		ev := &oracleEvent{name, st.version, id, false}
		st.events, o.feed = append(st.events, ev), append(o.feed, ev)
	}
	st.tomb = false
	return first, st.version
}

func (st *oracleStream) drop(n int) {
	for _, ev := range st.events[:n] {
		ev.gone = true
	}
	st.events = st.events[n:]
}

func (st *oracleStream) purge() {
	if len(st.events) > 0 {
		st.drop(len(st.events))
		st.version++
		st.tomb = true
	}
}

// machine runs random calls on a store and on the oracle and compares.
type machine struct {
	*oracle
	s   *event.Store
	log mainstem.Log
}

var streamNames = []string{"a-1", "a-2", "ab-1", "b", "-c"}

func (m *machine) name(t *rapid.T) string { return rapid.SampledFrom(streamNames).Draw(t, "stream") }

func (m *machine) expected(t *rapid.T, name string) event.Expected {
	near := []event.Expected{event.AnyVersion, event.NoStream, event.StreamExists, event.AtVersion(m.stream(name).version)}
	return rapid.OneOf(rapid.SampledFrom(near), rapid.Map(rapid.Int64Range(-4, 12), func(v int64) event.Expected { return event.Expected(v) })).Draw(t, "expected")
}

func is(t *rapid.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: %v: want %v", what, err, want)
	}
}

func (m *machine) Write(t *rapid.T) {
	name := m.name(t)
	expected := m.expected(t, name)
	n := rapid.IntRange(1, 4).Draw(t, "events")
	evs := make([]event.Event, n)
	ids := make([]event.ID, n)
	for i := range evs {
		evs[i] = event.Event{ID: event.NewID(), Type: "T", Data: []byte(name)}
		ids[i] = evs[i].ID
	}
	want := m.stream(name).meets(expected)
	a, err := m.s.Append(t.Context(), name, expected, evs)
	is(t, "write", err, want)
	if err != nil {
		return
	}
	first, last := m.append(name, ids)
	if a.First != first || a.Last != last || a.Duplicate {
		t.Fatalf("wrote %+v: want versions %d to %d", a, first, last)
	}
	again, err := m.s.Append(t.Context(), name, expected, evs)
	if err != nil || !again.Duplicate || again.First != first || again.Last != last || again.FirstPosition != a.FirstPosition || again.LastPosition != a.LastPosition {
		t.Fatalf("wrote again %+v, %v: want %+v", again, err, a)
	}
}

// Batch appends to two streams at once, both or neither.
func (m *machine) Batch(t *rapid.T) {
	one := m.name(t)
	two := rapid.SampledFrom(streamNames).Filter(func(s string) bool { return s != one }).Draw(t, "other")
	e1, e2 := m.expected(t, one), m.expected(t, two)
	ids := []event.ID{event.NewID()}
	evs := []event.Event{{ID: ids[0], Type: "T"}}
	b := mainstem.NewBatch()
	m.s.AppendTo(b, one, e1, evs)
	m.s.AppendTo(b, two, e2, evs)
	r, err := m.log.Commit(t.Context(), b)
	err = m.s.Explain(t.Context(), err)
	w1, w2 := m.stream(one).meets(e1), m.stream(two).meets(e2)
	if errors.Is(w1, mainstem.ErrInvalid) || w1 == nil || errors.Is(w2, mainstem.ErrInvalid) {
		w1, w2 = w2, w1 // the batch fails with the first Invalid before any condition
	}
	if errors.Is(w2, mainstem.ErrInvalid) {
		w1 = w2
	}
	is(t, "batch", err, w1)
	if err != nil {
		return
	}
	for _, name := range []string{one, two} {
		first, last := m.append(name, ids)
		if a, ok := m.s.Result(b, r, name); !ok || a.First != first || a.Last != last {
			t.Fatalf("batch wrote %+v to %s: want version %d", a, name, first)
		}
	}
}

func (m *machine) Delete(t *rapid.T) {
	name := m.name(t)
	expected := m.expected(t, name)
	err := m.s.Delete(t.Context(), name, expected)
	is(t, "delete", err, m.stream(name).meets(expected))
	if err == nil {
		m.stream(name).purge()
	}
}

func (m *machine) Truncate(t *rapid.T) {
	name := m.name(t)
	st := m.stream(name)
	before := mainstem.Version(rapid.Uint64Range(1, uint64(st.version)+1).Draw(t, "before"))
	err := m.s.Truncate(t.Context(), name, before)
	is(t, "truncate", err, st.meets(event.AnyVersion))
	if err != nil {
		return
	}
	n := 0
	for n < len(st.events) && st.events[n].version < before {
		n++
	}
	st.drop(n)
	if st.version < before {
		st.tomb = false // a tombstone is truncated like an event
	}
}

func (m *machine) Archive(t *rapid.T) {
	name := m.name(t)
	err := m.s.Archive(t.Context(), name)
	is(t, "archive", err, m.stream(name).meets(event.StreamExists))
	if err == nil {
		m.stream(name).seal = event.Archived
	}
}

func (m *machine) Unarchive(t *rapid.T) {
	name := m.name(t)
	err := m.s.Unarchive(t.Context(), name)
	switch m.stream(name).seal {
	case event.Archived:
		is(t, "unarchive", err, nil)
		m.stream(name).seal = event.NotSealed
	case event.NotSealed:
		is(t, "unarchive", err, mainstem.ErrNotFound)
	case event.Tombstoned:
		is(t, "unarchive", err, mainstem.ErrConflict)
	}
}

func (m *machine) Tombstone(t *rapid.T) {
	name := m.name(t)
	if rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
		t.Skip("a tombstone ends the stream: rarely")
	}
	err := m.s.Tombstone(t.Context(), name, event.AnyVersion)
	is(t, "tombstone", err, nil)
	m.stream(name).purge()
	m.stream(name).seal = event.Tombstoned
}

func (m *machine) Forget(t *rapid.T) {
	name := m.name(t)
	err := m.s.Forget(t.Context(), name)
	is(t, "forget", err, nil)
	st := m.stream(name)
	st.purge()
	st.tomb, st.seal = false, event.NotSealed
}

// Check compares everything that can be read.
func (m *machine) Check(t *rapid.T) {
	for _, name := range streamNames {
		m.checkStream(t, name)
	}
	m.checkLists(t)
	var want, all []string
	for _, ev := range m.feed {
		if ev.gone {
			continue
		}
		s := fmt.Sprintf("%s@%d %s", ev.stream, ev.version, ev.id)
		all = append(all, s)
		if m.stream(ev.stream).seal != event.Archived {
			want = append(want, s)
		}
	}
	for archived, want := range map[bool][]string{false: want, true: all} {
		var got []string
		for ev, err := range m.s.Feed(t.Context(), &event.FeedOptions{Filter: event.Filter{Archived: archived}}) {
			is(t, "feed", err, nil)
			got = append(got, fmt.Sprintf("%s@%d %s", ev.Stream, ev.Version, ev.ID))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("feed, archived %v: %q: want %q", archived, got, want)
		}
	}
}

func (m *machine) checkStream(t *rapid.T, name string) {
	st := m.stream(name)
	o := event.LoadOptions{
		From: mainstem.Version(rapid.Uint64Range(0, 6).Draw(t, "from")), To: mainstem.Version(rapid.Uint64Range(0, 9).Draw(t, "to")),
		Limit: rapid.IntRange(0, 4).Draw(t, "limit"), Backward: rapid.Bool().Draw(t, "backward"),
	}
	var want []event.ID
	for _, ev := range st.events {
		if ev.version >= o.From && (o.To == 0 || ev.version <= o.To) {
			want = append(want, ev.id)
		}
	}
	if o.Backward {
		slices.Reverse(want)
	}
	if o.Limit > 0 && len(want) > o.Limit {
		want = want[:o.Limit]
	}
	evs, err := m.s.Load(t.Context(), name, &o)
	is(t, "load", err, nil)
	var got []event.ID
	for _, ev := range evs {
		got = append(got, ev.ID)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("load %s %+v: %v: want %v", name, o, got, want)
	}
	in, err := m.s.StreamInfo(t.Context(), name)
	if len(st.events) == 0 && !st.tomb && st.seal != event.Tombstoned {
		is(t, "info", err, mainstem.ErrNotFound)
		return
	}
	is(t, "info", err, nil)
	if in.Count != uint64(len(st.events)) || in.Seal != st.seal || in.Deleted != (len(st.events) == 0) || (in.Version != st.version && in.Version != 0) {
		t.Fatalf("info %s %+v: want %d events, version %d, seal %v", name, in, len(st.events), st.version, st.seal)
	}
}

func (m *machine) checkLists(t *rapid.T) {
	var want, archived, categories []string
	for _, name := range streamNames {
		if st := m.stream(name); len(st.events) > 0 {
			archived = append(archived, name)
			if st.seal != event.Archived {
				want = append(want, name)
			}
			if c := event.ParseStreamID(name).Category; c != "" && !slices.Contains(categories, c) {
				categories = append(categories, c)
			}
		}
	}
	for all, want := range map[bool][]string{false: want, true: archived} {
		slices.Sort(want)
		var got []string
		for e, err := range m.s.Streams(t.Context(), &event.ListOptions{Archived: all}) {
			is(t, "streams", err, nil)
			got = append(got, e.Stream)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("streams, archived %v: %q: want %q", all, got, want)
		}
	}
	slices.Sort(categories)
	var got []string
	for c, err := range m.s.Categories(t.Context()) {
		is(t, "categories", err, nil)
		got = append(got, c)
	}
	if !slices.Equal(got, categories) {
		t.Fatalf("categories %q: want %q", got, categories)
	}
}

// Random programs of every call do what the oracle does.
func TestStoreIsItsModel(t *testing.T) {
	engines := map[string]func() (mainstem.Log, error){
		"model":     func() (mainstem.Log, error) { return model.New(nil), nil },
		"pebblelog": func() (mainstem.Log, error) { return pebblelog.OpenMemory(nil) },
	}
	for name, start := range engines {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				log, err := start()
				if err != nil {
					t.Fatal(err)
				}
				defer log.Close()
				s, err := event.Open(log, "orders", nil)
				if err != nil {
					t.Fatal(err)
				}
				m := &machine{&oracle{streams: map[string]*oracleStream{}}, s, log}
				t.Repeat(map[string]func(*rapid.T){
					"write": m.Write, "write again": m.Write, "write more": m.Write, "batch": m.Batch, "delete": m.Delete, "truncate": m.Truncate,
					"archive": m.Archive, "unarchive": m.Unarchive, "tombstone": m.Tombstone, "forget": m.Forget,
					"": m.Check,
				})
			})
		})
	}
}
