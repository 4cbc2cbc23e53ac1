package projection_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// Decisions across streams that all change the same rows, together with appends and rebuilds that
// change these rows too: no decision is based on an old state, and the rows are equal to a replay.
func TestInlineDecide(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		const places, students = 9, 6
		f := newFixtureOn(t, log)
		if err := f.store.CreateIndex(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		var handled atomic.Int64
		s := f.inline(nil, f.projection("totals", 1, func(ctx context.Context, tx *projection.Tx, ev paid, r event.Recorded) error {
			handled.Add(1)
			return f.add(ctx, tx, ev, r)
		}))
		full := errors.New("the course is full")
		var subscribed, decided atomic.Int64
		var wg sync.WaitGroup
		for student := range students {
			wg.Go(func() {
				for range 3 {
					_, err := s.Decide(t.Context(), event.Tagged("course:1"), func(past []event.Recorded) ([]event.Append, error) {
						decided.Add(1)
						if len(past) >= places {
							return nil, full
						}
						ev := f.event("course", 1)
						ev.Tags = []string{"course:1"}
						return []event.Append{{Stream: fmt.Sprint("order-", student), Events: []event.Event{ev}}}, nil
					})
					switch {
					case err == nil:
						subscribed.Add(1)
						f.expect("course", 1)
					case !errors.Is(err, full):
						t.Error(err)
					}
				}
			})
		}
		wg.Go(func() { // of other events, that change the row
			for range 10 {
				if err := f.payInline(s, 100, "course", 1); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() { // changes the record that all depend on
			if err := s.Rebuild(t.Context(), "totals"); err != nil {
				t.Error(err)
			}
			if err := f.store.Retag(t.Context(), nil, nil); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		if subscribed.Load() != places {
			t.Errorf("%d have a place, of %d", subscribed.Load(), places)
		}
		if decided.Load() < places {
			t.Errorf("decided %d times", decided.Load())
		}
		f.check(1)
	})
}

// A batch is built again, with its handlers, after a conflict with a row. It is not after a
// conflict with a state that build decided on, or after an error of build.
func TestInlineCommit(t *testing.T) {
	f := newFixture(t)
	if err := f.store.CreateIndex(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	var handled int
	s := f.inline(nil, f.projection("totals", 1, func(ctx context.Context, tx *projection.Tx, ev paid, r event.Recorded) error {
		handled++
		return f.add(ctx, tx, ev, r)
	}))
	f.mustPayInline(s, 1)
	handled = 0
	head, err := f.log.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	built := 0
	build := func(stream string, expected event.Expected, after mainstem.Position, disturb func()) func(context.Context, *mainstem.Batch) error {
		built = 0
		return func(ctx context.Context, b *mainstem.Batch) error {
			built++
			f.store.FailIf(b, event.Tagged("x"), after)
			err := s.AppendTo(ctx, b, stream, expected, []event.Event{f.event("ann", 1)})
			if built == 1 {
				disturb()
			}
			return err
		}
	}
	r, err := s.Commit(t.Context(), build("order-50", event.NoStream, head, func() {
		if err := f.payInline(s, 51, "ann", 2); err != nil { // the row that it has read
			t.Error(err)
		}
	}))
	if err != nil || r.Last == 0 || built != 2 || handled != 3 {
		t.Fatalf("a row has changed: %v, %v; it was built %d times, handled %d times", r, err, built, handled)
	}
	f.expect("ann", 1)
	f.check(1)

	_, err = s.Commit(t.Context(), build("order-52", event.NoStream, head, func() {
		if err := s.Rebuild(t.Context(), "totals"); err != nil { // which changes the record that it depends on
			t.Error(err)
		}
	}))
	if err != nil || built != 2 {
		t.Fatalf("the projections have changed: %v; it was built %d times", err, built)
	}
	f.expect("ann", 1)
	f.check(1)

	var condition *event.ConditionError
	_, err = s.Commit(t.Context(), build("order-53", event.NoStream, head, func() {
		ev := f.event("bob", 1)
		ev.Tags = []string{"x"}
		if _, err := s.Append(t.Context(), "order-54", event.NoStream, []event.Event{ev}); err != nil {
			t.Error(err)
		}
		f.expect("bob", 1)
	}))
	if !errors.As(err, &condition) || condition.Found == 0 || built != 1 {
		t.Errorf("an event of the query: %v; it was built %d times", err, built)
	}
	if head, err = f.log.Head(t.Context()); err != nil {
		t.Fatal(err)
	}
	var conflict *event.ConflictError
	if _, err = s.Commit(t.Context(), build("order-50", event.NoStream, head, func() {})); !errors.As(err, &conflict) || built != 1 {
		t.Errorf("a stream that is there: %v; it was built %d times", err, built)
	}
	no := errors.New("no")
	if _, err = s.Commit(t.Context(), func(context.Context, *mainstem.Batch) error { built++; return no }); !errors.Is(err, no) || built != 2 {
		t.Errorf("an error of its own: %v; it was built %d times", err, built)
	}
	f.check(1)
}
