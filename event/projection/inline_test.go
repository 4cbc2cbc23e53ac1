package projection_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// inline opens the store of f with projections as part of its appends.
func (f *fixture) inline(o *projection.InlineOptions, ps ...*projection.Projection) *projection.InlineStore {
	f.t.Helper()
	s, err := f.tryInline(o, ps...)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *fixture) tryInline(o *projection.InlineOptions, ps ...*projection.Projection) (*projection.InlineStore, error) {
	if o == nil {
		o = &projection.InlineOptions{}
	}
	o.Logger = slog.New(slog.DiscardHandler)
	return projection.OpenInline(f.t.Context(), f.store, f.types, o, ps...)
}

// event returns an event of a payment.
func (f *fixture) event(customer string, cents int) event.Event {
	ev, err := f.types.Encode(paid{customer, cents})
	if err != nil {
		f.t.Error(err)
	}
	return ev
}

// expect notes that a payment was appended.
func (f *fixture) expect(customer string, cents int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.want[customer]
	f.want[customer] = total{customer, w.Cents + cents, w.Count + 1}
}

// payInline appends a payment through s.
func (f *fixture) payInline(s *projection.InlineStore, stream int, customer string, cents int) error {
	_, err := s.Append(f.t.Context(), fmt.Sprint("order-", stream), event.AnyVersion, []event.Event{f.event(customer, cents)})
	if err == nil {
		f.expect(customer, cents)
	}
	return err
}

func (f *fixture) mustPayInline(s *projection.InlineStore, n int) {
	f.t.Helper()
	for range n {
		if err := f.payInline(s, rand.IntN(10), fmt.Sprint("customer", rand.IntN(5)), rand.IntN(1000)); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fixture) events() int {
	f.t.Helper()
	st, err := f.store.Stats(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return int(st.Events)
}

func (f *fixture) inlineStatus(name string) projection.Status {
	f.t.Helper()
	all, err := projection.InlineStatuses(f.t.Context(), f.store)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, s := range all {
		if s.Name == name {
			return s
		}
	}
	return projection.Status{}
}

// The rows are there when Append returns, and not before; a handler that fails leaves none.
func TestInlineAppend(t *testing.T) {
	f := newFixture(t)
	no := errors.New("no")
	var seen []event.Recorded
	p := f.projection("totals", 1, func(ctx context.Context, tx *projection.Tx, ev paid, r event.Recorded) error {
		seen = append(seen, r)
		err := f.add(ctx, tx, ev, r)
		if ev.Cents < 0 {
			return no
		}
		return err
	})
	s := f.inline(nil, p)
	f.mustPayInline(s, 20)
	f.check(1)
	events := f.events()
	if err := f.payInline(s, 1, "customer1", -1); !errors.Is(err, no) || !strings.Contains(err.Error(), "projection totals: Paid") {
		t.Errorf("a handler that fails: %v", err)
	}
	b := mainstem.NewBatch()
	if err := s.AppendTo(t.Context(), b, "order-1", event.AnyVersion, []event.Event{f.event("x", 1), f.event("x", -1)}); !errors.Is(err, no) {
		t.Errorf("in a batch: %v", err)
	}
	if _, err := f.log.Commit(t.Context(), b); !errors.Is(err, no) {
		t.Errorf("the commit of that batch: %v", err)
	}
	if n := f.events(); n != events {
		t.Errorf("%d events, before %d", n, events)
	}
	f.check(1)

	seen = nil
	id := event.NewID()
	for _, c := range []struct {
		stream   string
		expected event.Expected
		want     []mainstem.Version
	}{
		{"order-new", event.NoStream, []mainstem.Version{1, 2}},
		{"order-new", event.AtVersion(2), []mainstem.Version{3, 4}},
		{"order-new", event.AnyVersion, []mainstem.Version{0, 0}},
		{"order-new", event.StreamExists, []mainstem.Version{0, 0}},
		{"other-1", event.NoStream, nil}, // not selected
	} {
		seen = nil
		evs := []event.Event{f.event("v", 1), f.event("v", 2)}
		evs[1].ID = id
		a, err := s.Append(t.Context(), c.stream, c.expected, evs)
		if err != nil || a.Last != a.First+1 || a.LastPosition != a.FirstPosition+1 || a.Duplicate {
			t.Fatalf("%v: %+v, %v", c.expected, a, err)
		}
		var got []mainstem.Version
		for _, r := range seen {
			got = append(got, r.Version)
			if r.Position != 0 || !r.Time.IsZero() || r.Stream != c.stream || r.ID.IsZero() || r.Type != "Paid" {
				t.Errorf("%v: the handler saw %+v", c.expected, r)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v: versions %d, want %d", c.expected, got, c.want)
		}
	}
	if st, err := s.Status(t.Context(), "totals"); err != nil || st.State != projection.Running || !st.Inline || st.Stale || st.Lag != 0 || st.Handled == 0 || st.Position == 0 {
		t.Errorf("%+v, %v", st, err)
	}
}

// A stream that does not meet the caller's expectation is returned at once, even if a handler
// failed because of the same writes.
func TestInlineExpectations(t *testing.T) {
	f := newFixture(t)
	calls := 0
	p := f.projection("totals", 1, func(ctx context.Context, tx *projection.Tx, ev paid, r event.Recorded) error {
		calls++
		if _, err := projection.Get(ctx, tx, f.totals, ev.Customer); err == nil && ev.Cents == 0 {
			return mainstem.Errorf(mainstem.KindExists, "add", "%s is there", ev.Customer)
		}
		return f.add(ctx, tx, ev, r)
	})
	s := f.inline(nil, p)
	first := []event.Event{f.event("ann", 0)}
	first[0].ID = event.NewID()
	if _, err := s.Append(t.Context(), "order-1", event.NoStream, first); err != nil {
		t.Fatal(err)
	}
	f.expect("ann", 0)
	for what, again := range map[string]func() (event.Appended, error){
		"exact": func() (event.Appended, error) { return s.Append(t.Context(), "order-1", event.NoStream, first) },
		"any":   func() (event.Appended, error) { return s.Append(t.Context(), "order-1", event.AnyVersion, first) },
	} {
		if a, err := again(); err != nil || !a.Duplicate || a.First != 1 || a.LastPosition != a.FirstPosition || a.FirstPosition == 0 {
			t.Errorf("a repetition, expecting %s: %+v, %v", what, a, err)
		}
	}
	var conflict *event.ConflictError
	calls = 0
	for _, cents := range []int{0, 5} {
		_, err := s.Append(t.Context(), "order-1", event.NoStream, []event.Event{f.event("ann", cents)})
		if !errors.As(err, &conflict) || conflict.Stream != "order-1" || conflict.Actual != 1 {
			t.Errorf("a conflict, %d cents: %v", cents, err)
		}
		b := mainstem.NewBatch()
		err = s.AppendTo(t.Context(), b, "order-1", event.NoStream, []event.Event{f.event("ann", cents)})
		if err == nil {
			_, err = f.log.Commit(t.Context(), b)
		}
		if !errors.As(err, &conflict) {
			t.Errorf("a conflict in a batch, %d cents: %v", cents, err)
		}
	}
	if calls != 4 {
		t.Errorf("%d calls: want 4, none again", calls)
	}
	if _, err := s.Append(t.Context(), "order-2", event.NoStream, []event.Event{f.event("ann", 0)}); !errors.Is(err, mainstem.ErrExists) {
		t.Errorf("an error of the handler alone: %v", err)
	}
	if err := f.store.Archive(t.Context(), "order-1"); err != nil {
		t.Fatal(err)
	}
	var sealed *event.SealedError
	if err := f.payInline(s, 1, "ann", 5); !errors.As(err, &sealed) {
		t.Errorf("an archived stream: %v", err)
	}
	if _, err := s.Append(t.Context(), "order-9", event.StreamExists, []event.Event{f.event("ann", 5)}); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("a stream that is not there: %v", err)
	}
	if _, err := s.Append(t.Context(), "", event.AnyVersion, first); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("no stream: %v", err)
	}
	f.check(1)
}

// Appends to different streams that change one row lose no update, on every engine.
func TestInlineConcurrentAppends(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		f := newFixtureOn(t, log)
		s := f.inline(&projection.InlineOptions{Retries: 10_000}, f.projection("totals", 1, nil), f.projection("again", 1, nil))
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 6 {
					if err := f.payInline(s, g, fmt.Sprint("customer", i%2), g+i); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		f.check(2)
	})
}

// Appends in one batch see each other's rows, and rows that the program itself adds to the batch.
func TestInlineBatch(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		f := newFixtureOn(t, log)
		s := f.inline(nil, f.projection("totals", 1, nil))
		b := mainstem.NewBatch()
		for range 2 { // used anew after Reset
			b.Reset()
			if err := errors.Join(f.totals.UpsertTo(t.Context(), b, total{"given", 1000, 0}), f.totals.DeleteTo(t.Context(), b, "gone")); err != nil {
				t.Fatal(err)
			}
			for i := range 20 {
				for _, customer := range []string{"ann", "given", "gone", fmt.Sprint("many", i)} {
					if err := s.AppendTo(t.Context(), b, fmt.Sprint("order-", i%3), event.AnyVersion, []event.Event{f.event(customer, i), f.event(customer, 1)}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if n, err := f.totals.Count(t.Context(), readmodel.All()); err != nil || n != 0 {
				t.Errorf("%d rows before the commit, %v", n, err)
			}
		}
		if _, err := log.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		for _, want := range []total{{"ann", 210, 40}, {"given", 1210, 40}, {"gone", 210, 40}, {"many7", 8, 2}} {
			if got, err := f.totals.Get(t.Context(), want.Customer); err != nil || got != want {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
		}
	})
}

// If another writer has changed a row of a batch, the commit is a Conflict and nothing is written.
func TestInlineBatchConflict(t *testing.T) {
	f := newFixture(t)
	s := f.inline(nil, f.projection("totals", 1, nil))
	b := mainstem.NewBatch()
	if err := s.AppendTo(t.Context(), b, "order-1", event.NoStream, []event.Event{f.event("ann", 1)}); err != nil {
		t.Fatal(err)
	}
	if err := f.payInline(s, 2, "ann", 5); err != nil {
		t.Fatal(err)
	}
	_, err := f.log.Commit(t.Context(), b)
	if !errors.Is(err, mainstem.ErrConflict) || !s.Again(t.Context(), "order-1", err, 1) {
		t.Errorf("the batch: %v", err)
	}
	if f.events() != 1 {
		t.Errorf("%d events", f.events())
	}
	f.check(1)
}
