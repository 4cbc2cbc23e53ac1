package event_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/logcopy"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

func positions(evs []event.Recorded) []mainstem.Position {
	out := []mainstem.Position{}
	for _, ev := range evs {
		out = append(out, ev.Position)
	}
	return out
}

func wantPlan(t testing.TB, s *event.Store, q event.Query, want string) {
	t.Helper()
	plan, err := s.Plan(t.Context(), q)
	if err != nil || !strings.HasPrefix(plan, want) {
		t.Fatalf("plan %q, %v: want %q", plan, err, want)
	}
}

// A handle that does not know of the index writes nothing past it: a batch is refused, and
// after that the handle knows; calls that commit by themselves do both.
func TestHandlesLearnOfTheIndex(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		early := open(t, log, nil) // before there is an index
		write(t, early, "order-1", event.NoStream, []event.Event{{Type: "A", Tags: []string{"t"}}})
		batch := func(s *event.Store, stream string) error {
			b := mainstem.NewBatch()
			s.AppendTo(b, stream, event.AnyVersion, []event.Event{{Type: "A", Tags: []string{"t"}}})
			_, err := log.Commit(t.Context(), b)
			return err
		}
		if err := s.CreateIndex(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		steps := map[string]func() error{
			"made":    func() error { return s.Retag(t.Context(), nil, nil) },
			"dropped": func() error { return s.Drop(t.Context()) },
		}
		for _, step := range []string{"", "made", "dropped"} {
			if step != "" {
				if err := steps[step](); err != nil {
					t.Fatal(err)
				}
			}
			err := batch(early, "order-2")
			var stale *event.StaleIndexError
			if !errors.As(err, &stale) || stale.Store != "orders" || !errors.Is(err, mainstem.ErrConflict) {
				t.Fatalf("index %s: an append past it: %v", step, err)
			}
			if err := batch(early, "order-2"); err != nil {
				t.Fatalf("index %s: the handle does not know it: %v", step, err)
			}
			write(t, open(t, log, nil), "order-3", event.AnyVersion, []event.Event{{Type: "A", Tags: []string{"t"}}})
			all := collect(t, s.Feed(t.Context(), nil))
			if got := positions(collect(t, s.Query(t.Context(), event.Tagged("t"), nil))); !slices.Equal(got, positions(all)) || len(all) < 2 {
				t.Fatalf("index %s: query %v: want %v", step, got, positions(all))
			}
		}
		wantPlan(t, s, event.Tagged("t"), "all events: the store has no index")
	})
}

func TestCreateIndexWithOtherOptions(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		o := &event.IndexOptions{MaxTags: 2, Pairs: []event.Pair{{Type: "A"}}}
		for _, o := range []*event.IndexOptions{o, o, nil} {
			if err := s.CreateIndex(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		wantKind(t, s.CreateIndex(t.Context(), &event.IndexOptions{}), mainstem.ErrExists)
		wantKind(t, s.CreateIndex(t.Context(), &event.IndexOptions{MaxTags: 33}), mainstem.ErrInvalid)
		wantKind(t, s.CreateIndex(t.Context(), &event.IndexOptions{Pairs: []event.Pair{{}}}), mainstem.ErrInvalid)
		if _, err := s.Append(t.Context(), "order-1", event.AnyVersion, []event.Event{{Type: "A", Tags: []string{"a", "b", "c"}}}); !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), "takes 2") {
			t.Fatalf("three tags: %v", err)
		}
		if err := s.Retag(t.Context(), nil, &event.RetagOptions{Index: &event.IndexOptions{All: true}}); err != nil {
			t.Fatal(err)
		}
		write(t, s, "order-1", event.AnyVersion, []event.Event{{Type: "A", Tags: []string{"a", "b", "c"}}})
		wantPlan(t, s, event.All(), "index: * (1)")
	})
}

// What an index cannot test is refused before anything is written.
func TestFailIfThatCannotBeTested(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		refused := func(q event.Query, want error) {
			t.Helper()
			b := mainstem.NewBatch()
			s.FailIf(b, q, 0)
			s.AppendTo(b, "order-1", event.AnyVersion, some("A", 1))
			_, err := s.Commit(t.Context(), b)
			wantKind(t, err, want)
			var e *mainstem.Error
			if !errors.As(err, &e) || e.Outcome != mainstem.NotWritten {
				t.Fatalf("%v does not say that nothing was written", err)
			}
		}
		refused(event.Tagged("t"), mainstem.ErrUnsupported) // no index
		if err := s.CreateIndex(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		refused(event.All(), mainstem.ErrUnsupported) // no key for every event
		for _, q := range []event.Query{nil, event.Tagged(""), event.Tagged("a\nb"), {{Types: []string{""}}}, make(event.Query, event.MaxItems+1), event.Tagged(slices.Repeat([]string{"t"}, 33)...)} {
			refused(q, mainstem.ErrInvalid)
			for _, err := range s.Query(t.Context(), q, nil) {
				wantKind(t, err, mainstem.ErrInvalid)
			}
		}
		for _, o := range []event.QueryOptions{{Limit: -1}, {Follow: true, Backward: true}} {
			for _, err := range s.Query(t.Context(), event.All(), &o) {
				wantKind(t, err, mainstem.ErrInvalid)
			}
		}
		wantEqual(t, "events", len(load(t, s, "order-1", nil)), 0)
	})
}

// An event that shares the key of a condition, and is not of its query, is no conflict for
// Commit; for a Commit of the log it is one that says so.
func TestConditionIsExactInCommit(t *testing.T) {
	eachIndexed(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		write(t, s, "order-1", event.AnyVersion, []event.Event{{Type: "Other", Tags: []string{"t"}}})
		q := event.Query{{Types: []string{"A"}, Tags: []string{"t"}}}
		b := mainstem.NewBatch()
		s.FailIf(b, q, 0)
		s.AppendTo(b, "order-2", event.NoStream, some("A", 1))
		_, err := log.Commit(t.Context(), b)
		var failed *event.ConditionError
		if !errors.As(err, &failed) || failed.Found != 0 || s.Explain(t.Context(), err) != err {
			t.Fatalf("commit of the log: %v", err)
		}
		if r, err := s.Commit(t.Context(), b); err != nil || r.Last == 0 {
			t.Fatalf("commit: %v", err)
		}
		// Without retries the first one is the last.
		never := open(t, log, &event.Options{Retries: -1})
		wantPlan(t, never, q, "index")
		b = mainstem.NewBatch()
		never.FailIf(b, q, 0)
		never.AppendTo(b, "order-3", event.NoStream, some("A", 1))
		if _, err := never.Commit(t.Context(), b); !errors.As(err, &failed) {
			t.Fatalf("commit without retries: %v", err)
		}
	})
}

// A query waits for more, sees archived streams, and ends at its limit.
func TestQueryFollows(t *testing.T) {
	for _, indexed := range []bool{false, true} {
		t.Run(fmt.Sprintf("indexed %v", indexed), func(t *testing.T) {
			each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
				ev := []event.Event{{Type: "A", Tags: []string{"t"}}, {Type: "B"}}
				write(t, s, "order-1", event.AnyVersion, ev)
				if err := s.Archive(t.Context(), "order-1"); err != nil {
					t.Fatal(err)
				}
				if indexed {
					if err := s.CreateIndex(t.Context(), nil); err != nil {
						t.Fatal(err)
					}
				}
				n := 0
				for r, err := range s.Query(within(t), event.Tagged("t"), &event.QueryOptions{Follow: true, Limit: 4}) {
					if err != nil {
						t.Fatal(err)
					}
					n++
					wantEqual(t, "type", r.Type, "A")
					write(t, s, fmt.Sprintf("order-%d", n+1), event.AnyVersion, ev)
				}
				wantEqual(t, "events", n, 4)
			})
		})
	}
}

// Tags come from the event, from its Go type and from the store.
func TestTagsOfTypesAndTagger(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, _ *event.Store) {
		s := open(t, log, &event.Options{Tagger: func(ev event.Event) []string { return []string{"type:" + ev.Type, "course:7"} }})
		types := event.NewTypes(nil)
		if err := event.Register[tagEvent](types, "Subscribed"); err != nil {
			t.Fatal(err)
		}
		ev, err := types.Encode(tagEvent{Course: "7"})
		if err != nil {
			t.Fatal(err)
		}
		write(t, s, "course-7", event.NoStream, []event.Event{ev})
		want := []string{"course:7", "type:Subscribed"}
		if got := load(t, s, "course-7", nil)[0].Tags; !slices.Equal(got, want) {
			t.Fatalf("tags %q: want %q", got, want)
		}
		for _, tags := range [][]string{{""}, {"a", "a"}, {"a\x00"}, {"\xff"}, {strings.Repeat("x", 257)}, slices.Collect(numbered(32))} {
			_, err := s.Append(t.Context(), "course-8", event.AnyVersion, []event.Event{{Type: "A", Tags: tags}})
			wantKind(t, err, mainstem.ErrInvalid)
		}
		if err := s.Rewrite(t.Context(), "course-7", 1, event.Event{ID: load(t, s, "course-7", nil)[0].ID, Type: "Subscribed", Tags: []string{"other"}}); err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "events by a new tag", len(collect(t, s.Query(t.Context(), event.Tagged("other"), nil))), 1)
	})
}

type tagEvent struct{ Course string }

func (e tagEvent) EventTags() []string { return []string{"course:" + e.Course} }

func numbered(n int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i := range n {
			if !yield(fmt.Sprint("n:", i)) {
				return
			}
		}
	}
}

// A rewrite during a build is not undone by it.
func TestRewriteDuringRetag(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		done := write(t, s, "order-1", event.NoStream, identified([]event.Event{{Type: "A", Data: []byte("secret"), Tags: []string{"t"}}}))
		id := load(t, s, "order-1", nil)[0].ID
		other := open(t, log, nil)
		calls := 0
		err := s.Retag(t.Context(), func(ev event.Recorded) []string {
			if calls++; calls == 1 { // it has read the event, and not committed
				if err := other.Rewrite(t.Context(), "order-1", 1, event.Event{ID: id, Type: "A", Data: []byte("gone"), Tags: []string{"t"}}); err != nil {
					t.Error(err)
				}
			}
			return append(ev.Tags, "new")
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		evs := collect(t, s.Query(t.Context(), event.Tagged("new"), nil))
		if len(evs) != 1 || string(evs[0].Data) != "gone" || evs[0].Position != done.FirstPosition || calls < 2 {
			t.Fatalf("after %d calls: %+v", calls, evs)
		}
	})
}

// A build that a program ended in the middle is gone on with by another, which reads no event
// again that was entered.
func TestRetagGoesOn(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		for i := range 60 {
			write(t, s, fmt.Sprintf("order-%d", i%3), event.AnyVersion, some("A", 10))
		}
		stop := errors.New("stop")
		seen := 0
		tag := func(ev event.Recorded) []string { seen++; return []string{"n:" + string(ev.Data)} }
		var at mainstem.Position
		func() {
			defer func() {
				if p := recover(); p != nil && p != stop {
					panic(p)
				}
			}()
			_ = s.Retag(t.Context(), tag, &event.RetagOptions{Progress: func(done, last mainstem.Position) {
				if at = done; done < last {
					panic(stop)
				}
			}})
		}()
		if at == 0 || seen == 0 || seen == 600 {
			t.Fatalf("stopped at %d after %d events", at, seen)
		}
		again := open(t, log, nil)
		wantPlan(t, again, event.Tagged("n:3"), "all events: the index is being built")
		b := mainstem.NewBatch()
		again.FailIf(b, event.Tagged("n:none"), 0)
		again.AppendTo(b, "order-9", event.NoStream, some("B", 1))
		if _, err := again.Commit(t.Context(), b); err != nil {
			t.Fatalf("a condition while the index is built: %v", err)
		}
		if err := again.CreateIndex(t.Context(), nil); err != nil { // not its business
			t.Fatal(err)
		}
		if err := again.Retag(t.Context(), tag, nil); err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "events tagged", seen, 600)
		wantEqual(t, "events", len(collect(t, s.Query(t.Context(), event.Tagged("n:3"), nil))), 60)
		wantPlan(t, s, event.Tagged("n:3"), "index: t:n:3 (60)")
	})
}

// In a copy of a log positions differ. Its index is not believed, until it is built anew.
func TestIndexOfACopyIsNotBelieved(t *testing.T) {
	from, to := testengines.Memory(t), testengines.Memory(t)
	s := open(t, from, nil)
	if err := s.CreateIndex(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		write(t, s, "order-1", event.AnyVersion, []event.Event{{Type: "A", Tags: []string{"t"}}, {Type: "B"}})
	}
	c, err := logcopy.New(from, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := c.Run(t.Context()); err != nil || r.Err() != nil {
		t.Fatal(err, r.Err())
	}
	copied := open(t, to, nil)
	wantPlan(t, copied, event.Tagged("t"), "all events: the index came from another log")
	wantEqual(t, "events", len(collect(t, copied.Query(t.Context(), event.Tagged("t"), nil))), 5)
	b := mainstem.NewBatch()
	copied.FailIf(b, event.Tagged("t"), 0)
	_, err = copied.Commit(t.Context(), b)
	wantKind(t, err, mainstem.ErrUnavailable)
	write(t, copied, "order-1", event.AnyVersion, []event.Event{{Type: "A", Tags: []string{"t"}}})
	if err := copied.Retag(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	wantPlan(t, copied, event.Tagged("t"), "index: t:t (6)")
	wantEqual(t, "events", len(collect(t, copied.Query(t.Context(), event.Tagged("t"), nil))), 6)
}

// An append that is repeated after the index was made is still known, with its positions.
func TestRepeatedAppendOverAnIndex(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		evs := identified([]event.Event{{Type: "A", Tags: []string{"t"}}, {Type: "B"}})
		first := write(t, s, "order-1", event.AnyVersion, evs)
		if err := s.CreateIndex(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		again := write(t, s, "order-1", event.AnyVersion, evs)
		first.Duplicate = true
		if !again.Time.Equal(first.Time) {
			t.Fatalf("%+v: want %+v", again, first)
		}
		again.Time = first.Time
		wantEqual(t, "appended again", again, first)
		more := identified([]event.Event{{Type: "A", Tags: []string{"t", "u"}}, {Type: "B"}})
		first = write(t, s, "order-2", event.AnyVersion, more)
		again = write(t, s, "order-2", event.AnyVersion, more)
		wantEqual(t, "first position", again.FirstPosition, first.FirstPosition)
		wantEqual(t, "last position", again.LastPosition, first.LastPosition)
		evs2 := load(t, s, "order-2", nil)
		wantEqual(t, "position", evs2[0].Position, first.FirstPosition)
		wantEqual(t, "position", evs2[1].Position, first.LastPosition)
	})
}

// A subscription by type over an index handles what one without it does.
func TestSubscriptionByTypeOverAnIndex(t *testing.T) {
	eachIndexed(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		want := 0
		add := func(i int) {
			write(t, s, "order-b", event.AnyVersion, some("B", 2))
			if i%2 == 0 {
				write(t, s, fmt.Sprintf("order-%d", i%5), event.AnyVersion, some("A", 1))
				want++
			}
		}
		for i := range 100 {
			add(i)
		}
		for range 2 {
			o := quick(event.SubscribeOptions{Filter: event.Filter{Types: []string{"A"}, Category: "order"}})
			sub, err := s.Subscribe(within(t), "count", o, counter(log))
			if err != nil {
				t.Fatal(err)
			}
			add(0)
			last, err := s.LastPosition(t.Context())
			if err == nil {
				err = sub.WaitFor(within(t), last)
			}
			if err = errors.Join(err, sub.Close()); err != nil {
				t.Fatal(err)
			}
		}
		got := 0
		for rec, err := range log.Scan(t.Context(), effects, mainstem.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			if _, err := fmt.Sscan(string(rec.Value), &n); err != nil {
				t.Fatal(err)
			}
			got += n
		}
		wantEqual(t, "effects", got, want)
	})
}

// A handler that appends by a handle that does not know yet that the store has an index has not failed: its event is
// handled again, even if it may fail no more than once.
func TestSubscriptionAfterAnIndexWasMade(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		old, err := event.Open(log, s.Name(), nil)
		if err != nil {
			t.Fatal(err)
		}
		write(t, old, "order-0", event.NoStream, some("E", 1))
		if _, err := event.OpenIndexed(t.Context(), log, s.Name(), nil, nil); err != nil {
			t.Fatal(err)
		}
		o := quick(event.SubscribeOptions{Attempts: 1, OnPoison: event.ParkPoison, Filter: event.Filter{Category: "order"}})
		sub := subscribe(t, s, o, func(_ context.Context, b *mainstem.Batch, ev event.Recorded) error {
			old.AppendTo(b, "late-1", event.AnyVersion, some("Late", 1))
			return nil
		})
		last := write(t, s, "order-1", event.NoStream, some("E", 1)).LastPosition
		waitFor(t, sub, last)
		wantEqual(t, "parked", len(collect(t, s.Parked(t.Context(), "count"))), 0)
		wantEqual(t, "late events", len(load(t, s, "late-1", nil)), 2)
	})
}
