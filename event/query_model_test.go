package event_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// tagOracle is a store with tags written down as simply as possible: all events, in order.
type tagOracle struct{ events []event.Recorded }

func (o *tagOracle) query(q event.Query, opts event.QueryOptions) (out []mainstem.Position) {
	for _, ev := range o.events {
		if q.Match(ev.Event) && (opts.After == 0 || opts.Backward && ev.Position < opts.After || !opts.Backward && ev.Position > opts.After) {
			out = append(out, ev.Position)
		}
	}
	if opts.Backward {
		slices.Reverse(out)
	}
	if opts.Limit > 0 && len(out) > opts.Limit {
		out = out[:opts.Limit]
	}
	return out
}

func (o *tagOracle) drop(gone func(event.Recorded) bool) {
	o.events = slices.DeleteFunc(o.events, gone)
}

var (
	someTypes = []string{"A", "B", "C"}
	someTags  = []string{"x:1", "x:2", "y:1", "z"}
)

// tagMachine runs random calls on a store with an index and on the oracle.
type tagMachine struct {
	*tagOracle
	s       *event.Store
	other   *event.Store // another handle, which learns by itself
	log     mainstem.Log
	indexed bool
}

func subset(t *rapid.T, of []string, most int, what string) []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, most, rapid.ID[string]).Draw(t, what)
}

func (m *tagMachine) handle(t *rapid.T) *event.Store {
	if rapid.Bool().Draw(t, "other handle") {
		return m.other
	}
	return m.s
}

func (m *tagMachine) stream(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a-1", "a-2", "b-1"}).Draw(t, "stream")
}

func (m *tagMachine) events(t *rapid.T) []event.Event {
	evs := make([]event.Event, rapid.IntRange(1, 4).Draw(t, "events"))
	for i := range evs {
		evs[i] = event.Event{Type: rapid.SampledFrom(someTypes).Draw(t, "type"), Tags: subset(t, someTags, 3, "tags")}
		if len(evs[i].Tags) == 0 {
			evs[i].Tags = nil
		}
	}
	return evs
}

// appended adds to the oracle what a batch has appended, as the stream reads it.
func (m *tagMachine) appended(t *rapid.T, a event.Appended) {
	for ev, err := range m.s.Events(t.Context(), a.Stream, &event.LoadOptions{From: a.First, To: a.Last}) {
		is(t, "load", err, nil)
		m.tagOracle.events = append(m.tagOracle.events, ev.Clone())
	}
}

func (m *tagMachine) Append(t *rapid.T) {
	evs := m.events(t)
	a, err := m.handle(t).Append(t.Context(), m.stream(t), event.AnyVersion, evs)
	is(t, "append", err, nil)
	before := len(m.tagOracle.events)
	m.appended(t, a)
	added := m.tagOracle.events[before:]
	if len(added) != len(evs) || added[0].Position != a.FirstPosition || added[len(added)-1].Position != a.LastPosition {
		t.Fatalf("appended %+v, and there are %+v", a, added)
	}
	for i := range evs {
		if !slices.Equal(added[i].Tags, evs[i].Tags) {
			t.Fatalf("tags %q came back as %q", evs[i].Tags, added[i].Tags)
		}
	}
}

func (m *tagMachine) item(t *rapid.T) event.Item {
	return event.Item{Types: subset(t, someTypes, 2, "types"), Tags: subset(t, someTags, 2, "tags")}
}

func (m *tagMachine) draw(t *rapid.T) event.Query {
	return rapid.SliceOfN(rapid.Custom(m.item), 1, 3).Draw(t, "query")
}

// FailIf appends on condition of a query at a position, which may be an old one.
func (m *tagMachine) FailIf(t *rapid.T) {
	if !m.indexed {
		t.Skip("no index yet")
	}
	q, s := m.draw(t), m.handle(t)
	after := mainstem.Position(0)
	switch n := len(m.tagOracle.events); {
	case rapid.Bool().Draw(t, "at the head"):
		head, err := m.log.Head(t.Context())
		is(t, "head", err, nil)
		after = head
	case n > 0:
		after = m.tagOracle.events[rapid.IntRange(0, n-1).Draw(t, "after")].Position
	}
	if _, err := s.Plan(t.Context(), q); err != nil { // the handle knows the index
		t.Fatal(err)
	}
	streams := []string{m.stream(t), m.stream(t)}
	b := mainstem.NewBatch()
	s.AppendTo(b, streams[0], event.AnyVersion, m.events(t))
	s.FailIf(b, q, after)
	s.AppendTo(b, streams[1], event.AnyVersion, m.events(t))
	r, err := s.Commit(t.Context(), b)
	found := m.query(q, event.QueryOptions{After: after, Limit: 1})
	if after == 0 {
		found = m.query(q, event.QueryOptions{Limit: 1})
	}
	if len(found) == 0 {
		is(t, "commit", err, nil)
		for i, stream := range streams {
			if i == 0 || stream != streams[0] {
				a, ok := s.Result(b, r, stream)
				if !ok {
					t.Fatal("no result")
				}
				m.appended(t, a)
			}
		}
		slices.SortFunc(m.tagOracle.events, func(a, b event.Recorded) int { return int(a.Position) - int(b.Position) })
		return
	}
	var failed *event.ConditionError
	if !errors.As(err, &failed) || failed.Found != found[0] || failed.After != after || !errors.Is(err, mainstem.ErrConflict) {
		t.Fatalf("commit %v with an event of %s at %d after %d: %+v", err, q, found[0], after, failed)
	}
}

func (m *tagMachine) Remove(t *rapid.T) {
	stream := m.stream(t)
	before := mainstem.Version(0)
	for _, ev := range m.tagOracle.events {
		if ev.Stream == stream {
			before = ev.Version + 1 // all of them
		}
	}
	s := m.handle(t)
	switch rapid.IntRange(0, 2).Draw(t, "how") {
	case 0:
		is(t, "delete", s.Delete(t.Context(), stream, event.AnyVersion), nil)
	case 1:
		is(t, "forget", s.Forget(t.Context(), stream), nil)
	case 2:
		if before == 0 {
			return
		}
		before -= mainstem.Version(rapid.IntRange(0, 2).Draw(t, "keep"))
		if before == 0 {
			return
		}
		is(t, "truncate", s.Truncate(t.Context(), stream, before), nil)
		m.drop(func(ev event.Recorded) bool { return ev.Stream == stream && ev.Version < before })
		return
	}
	m.drop(func(ev event.Recorded) bool { return ev.Stream == stream })
}

func (m *tagMachine) Sweep(t *rapid.T) {
	_, err := m.handle(t).SweepIndex(t.Context())
	is(t, "sweep", err, nil)
	if n := indexProblems(t, t.Context(), m.log, m.tagOracle.events, m.indexed); n != "" {
		t.Fatal(n)
	}
}

func (m *tagMachine) Index(t *rapid.T) {
	switch {
	case !m.indexed:
		is(t, "create index", m.s.CreateIndex(t.Context(), &event.IndexOptions{All: true, Pairs: []event.Pair{{Type: "A", Prefix: "x:"}, {Type: "B", Prefix: "x:1"}}}), nil)
		m.indexed = true
	case rapid.IntRange(0, 2).Draw(t, "rarely") == 0:
		last := func(tags []string) []string { return append(slices.Clone(tags)[:0:0], tags[max(len(tags)-1, 0):]...) }
		is(t, "retag", m.handle(t).Retag(t.Context(), func(ev event.Recorded) []string { return last(ev.Tags) }, nil), nil)
		for i := range m.tagOracle.events {
			if ev := &m.tagOracle.events[i]; len(ev.Tags) > 0 {
				ev.Tags = last(ev.Tags)
			}
		}
	}
}

// Check compares a random query, a feed by type and its pages with the oracle.
func (m *tagMachine) Check(t *rapid.T) {
	q := m.draw(t)
	o := event.QueryOptions{Backward: rapid.Bool().Draw(t, "backward"), Limit: rapid.IntRange(0, 5).Draw(t, "limit")}
	if n := len(m.tagOracle.events); n > 0 && rapid.Bool().Draw(t, "after") {
		o.After = m.tagOracle.events[rapid.IntRange(0, n-1).Draw(t, "after")].Position
	}
	var got []mainstem.Position
	for ev, err := range m.handle(t).Query(t.Context(), q, &o) {
		is(t, "query", err, nil)
		if !q.Match(ev.Event) {
			t.Fatalf("%s yields %+v", q, ev)
		}
		got = append(got, ev.Position)
	}
	if want := m.query(q, o); !slices.Equal(got, want) {
		t.Fatalf("query %s %+v: %v: want %v", q, o, got, want)
	}
	filter := event.Filter{Types: subset(t, someTypes, 2, "types"), Category: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "category")}
	feed := &event.FeedOptions{After: o.After, Filter: filter}
	if o.Backward {
		feed.After = 0
	}
	var want []mainstem.Position
	for _, ev := range m.tagOracle.events {
		if (len(filter.Types) == 0 || slices.Contains(filter.Types, ev.Type)) && (filter.Category == "" || ev.Stream[:1] == filter.Category) && ev.Position > feed.After {
			want = append(want, ev.Position)
		}
	}
	page, err := m.handle(t).Page(t.Context(), feed)
	is(t, "page", err, nil)
	got = got[:0]
	for _, ev := range page {
		got = append(got, ev.Position)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("page %+v: %v: want %v", feed, got, want)
	}
}

// indexProblems compares the records of the index with the events that are there: "" if it has
// one for each key of each event, and, of events that are gone, only those that keep a key
// in lists.
func indexProblems(t interface{ Fatal(...any) }, ctx context.Context, log mainstem.Log, events []event.Recorded, indexed bool) string {
	if !indexed {
		return ""
	}
	want := map[string]int{}
	for _, ev := range events {
		want["y:"+ev.Type]++
		for _, tag := range ev.Tags {
			want["t:"+tag]++
		}
	}
	got := map[string]int{}
	for head, err := range log.Scan(ctx, "event.tag/orders", mainstem.Range{KeysOnly: true}) {
		if err != nil {
			t.Fatal(err)
		}
		key := string(head.Key)
		if key[0] == 'g' {
			return "a marker is left"
		}
		if key[0] == 'o' {
			key = key[1:]
		}
		if !strings.HasPrefix(key, "t:") && !strings.HasPrefix(key, "y:") {
			continue
		}
		for rec, err := range log.Read(ctx, "event.tag/orders", head.Key, mainstem.Versions{}) {
			if err != nil {
				t.Fatal(err)
			}
			if len(rec.Value) > 4 { // with a stream: a-1 has three bytes
				got[key]++
			}
		}
	}
	for key, n := range want {
		if got[key] != n {
			return fmt.Sprintf("key %s has %d entries: want %d", key, got[key], n)
		}
	}
	for key, n := range got {
		if n != want[key] {
			return fmt.Sprintf("key %s has %d entries: want %d", key, n, want[key])
		}
	}
	return ""
}

// Random appends, conditions, removals, sweeps and builds, and random queries, do what the
// oracle does.
func TestQueriesAreTheirModel(t *testing.T) {
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
				m := &tagMachine{tagOracle: &tagOracle{}, log: log}
				for _, h := range []**event.Store{&m.s, &m.other} {
					if *h, err = event.Open(log, "orders", nil); err != nil {
						t.Fatal(err)
					}
				}
				t.Repeat(map[string]func(*rapid.T){
					"append": m.Append, "append again": m.Append, "fail if": m.FailIf, "fail if again": m.FailIf, "remove": m.Remove,
					"sweep": m.Sweep, "index": m.Index, "": m.Check,
				})
			})
		})
	}
}

// A long key is read by halving, in both directions, from everywhere.
func TestLongKeysAreSoughtByHalving(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		o := &tagOracle{}
		rng := rand.New(rand.NewPCG(1, 1))
		add := func(n int) {
			for range n {
				evs := make([]event.Event, 50)
				for i := range evs {
					evs[i] = event.Event{Type: "A", Tags: []string{"all"}}
					if rng.IntN(40) == 0 {
						evs[i].Tags = append(evs[i].Tags, "rare")
					}
				}
				write(t, s, "long-1", event.AnyVersion, evs)
			}
		}
		add(16)
		if err := s.CreateIndex(t.Context(), nil); err != nil { // half of them in built keys
			t.Fatal(err)
		}
		add(16)
		for ev, err := range s.Feed(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			o.events = append(o.events, ev.Clone())
		}
		for range testkit.Rounds(12) {
			after := o.events[rng.IntN(len(o.events))].Position
			for _, opts := range []event.QueryOptions{{After: after, Limit: 3}, {After: after, Limit: 3, Backward: true}, {After: after}} {
				for _, q := range []event.Query{event.Tagged("all"), event.Tagged("all", "rare"), {{Types: []string{"A"}, Tags: []string{"rare"}}}} {
					var got []mainstem.Position
					for ev, err := range s.Query(t.Context(), q, &opts) {
						if err != nil {
							t.Fatal(err)
						}
						got = append(got, ev.Position)
					}
					if want := o.query(q, opts); !slices.Equal(got, want) {
						t.Fatalf("query %s %+v: %v: want %v", q, opts, got, want)
					}
				}
			}
		}
	})
}
