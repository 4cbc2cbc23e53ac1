package eventtest

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
)

// Rows is a read model: a [*readmodel.Table] or a [*readmodel.Alias].
type Rows[T any] interface {
	Key(v T) string
	Get(ctx context.Context, key string) (T, error)
	Find(ctx context.Context, q *readmodel.Query) ([]T, error)
}

// ProjectionCase is a projection with the read model that it writes.
type ProjectionCase[T any] struct {
	t     testing.TB
	store *event.Store
	types *event.Types
	p     *projection.Projection
	table Rows[T]
}

// GivenProjection returns a case of a projection p of the events of store, decoded with types, that
// writes table. The log of both may be in memory. No other test may write to it.
func GivenProjection[T any](t testing.TB, store *event.Store, types *event.Types, p *projection.Projection, table Rows[T]) *ProjectionCase[T] {
	return &ProjectionCase[T]{t, store, types, p, table}
}

// Given appends events to the streams of [In], else to test-1, and runs the projection twice. The
// first run handles the new events. The second run starts the projection again and, if it has
// tables or a Clear, rebuilds it in place from the first event of the store. The read model must be
// the same after both runs. A handler that fails ends the test.
func (c *ProjectionCase[T]) Given(events ...any) *ProjectionCase[T] {
	c.t.Helper()
	var last mainstem.Position
	for _, p := range placed(events) {
		encoded := make([]event.Event, len(p.events))
		for i, ev := range p.events {
			var err error
			if encoded[i], err = c.types.Encode(ev); err != nil {
				c.t.Fatalf("event %s: %v", shown([]any{ev}), err)
			}
		}
		done, err := c.store.Append(c.t.Context(), p.stream, event.AnyVersion, encoded)
		if err != nil {
			c.t.Fatalf("stream %s: %v", p.stream, err)
		}
		last = done.LastPosition
	}
	c.run(last, false)
	once := c.rows()
	c.run(last, true)
	twice := c.rows()
	for key, row := range once {
		if d := diff(any(twice[key]), any(row)); d != "" {
			c.t.Errorf("row %q is another one when the events are handled again\n%s", key, d)
		}
		delete(twice, key)
	}
	for key, row := range twice {
		c.t.Errorf("row %q is there only when the events are handled again: %+v", key, row)
	}
	return c
}

// patience bounds one wait for the projection; after it, wait checks whether the projection is
// faulted.
const patience = 20 * time.Millisecond

// run runs the projection in an engine until it has handled the events up to the position last.
// With rebuild it then rebuilds the projection in place, if that is possible.
func (c *ProjectionCase[T]) run(last mainstem.Position, rebuild bool) {
	c.t.Helper()
	e, err := projection.Open(c.store, c.types, &projection.Options{Logger: slog.New(slog.DiscardHandler), RestartAfter: -1})
	if err == nil {
		err = errors.Join(e.Register(c.p, &projection.Async{Attempts: 1}), e.Start(c.t.Context()))
	}
	if err != nil {
		c.t.Fatalf("projection %s: %v", c.p.Name(), err)
	}
	defer func() {
		if err := e.Stop(c.t.Context()); err != nil {
			c.t.Errorf("projection %s: %v", c.p.Name(), err)
		}
	}()
	c.wait(e, last)
	if !rebuild {
		return
	}
	// A projection with neither tables nor a Clear returns Invalid.
	if err := e.Rebuild(c.t.Context(), c.p.Name(), &projection.RebuildOptions{InPlace: true}); err != nil && !errors.Is(err, mainstem.ErrInvalid) {
		c.t.Fatalf("projection %s: %v", c.p.Name(), err)
	}
	c.wait(e, last)
}

// wait waits until the projection has handled everything up to a position.
func (c *ProjectionCase[T]) wait(e *projection.Engine, last mainstem.Position) {
	c.t.Helper()
	for {
		ctx, cancel := context.WithTimeout(c.t.Context(), patience)
		err := e.WaitFor(ctx, c.p.Name(), last)
		cancel()
		if err == nil {
			return
		}
		if c.t.Context().Err() != nil {
			c.t.Fatalf("projection %s: %v", c.p.Name(), err)
		}
		if s, serr := e.Status(c.t.Context(), c.p.Name()); serr == nil && s.State == projection.Faulted {
			c.t.Fatalf("projection %s has failed: %v", c.p.Name(), s.Err)
		}
	}
}

// rows returns the rows of the read model by key.
func (c *ProjectionCase[T]) rows() map[string]T {
	c.t.Helper()
	all, err := c.table.Find(c.t.Context(), new(readmodel.Query))
	if err != nil {
		c.t.Fatalf("the read model of projection %s: %v", c.p.Name(), err)
	}
	out := make(map[string]T, len(all))
	for _, row := range all {
		out[c.table.Key(row)] = row
	}
	return out
}

// ThenModel checks the row with a key.
func (c *ProjectionCase[T]) ThenModel(key string, want T) *ProjectionCase[T] {
	c.t.Helper()
	got, err := c.table.Get(c.t.Context(), key)
	if err != nil {
		c.t.Errorf("row %q: %v", key, err)
	} else if d := diff(any(got), any(want)); d != "" {
		c.t.Errorf("row %q is not the one that is wanted\n%s", key, d)
	}
	return c
}

// ThenNone checks that there is no row with a key.
func (c *ProjectionCase[T]) ThenNone(key string) *ProjectionCase[T] {
	c.t.Helper()
	switch got, err := c.table.Get(c.t.Context(), key); {
	case err == nil:
		c.t.Errorf("there is a row %q: %+v", key, got)
	case !errors.Is(err, mainstem.ErrNotFound):
		c.t.Errorf("row %q: %v", key, err)
	}
	return c
}

// ThenCount checks the number of rows.
func (c *ProjectionCase[T]) ThenCount(want int) *ProjectionCase[T] {
	c.t.Helper()
	if rows := c.rows(); len(rows) != want {
		c.t.Errorf("there are %d rows, want %d", len(rows), want)
	}
	return c
}
