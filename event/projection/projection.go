package projection

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// Projection computes something from events, usually the rows of read models. It must not be
// changed after it was registered.
type Projection struct {
	name    string
	version int
	filter  event.Filter
	// handlers are by Go type of the event; clear may be nil.
	handlers map[reflect.Type]func(ctx context.Context, tx *Tx, v any, r event.Recorded) error
	clear    func(ctx context.Context) error
	tables   []Versioned
	target   Target // nil: it writes to the log only
}

// Versioned is a table with versions, so that a new version can be built beside the one that is
// read: a [*readmodel.Alias].
type Versioned interface {
	// Name returns the name without a version.
	Name() string
	// PointTo makes the name refer to another version, as part of b.
	PointTo(b *mainstem.Batch, version int)
	// Clear removes all rows of a version. It may take many commits.
	Clear(ctx context.Context, version int) error
}

// Handler handles the events of one Go type. It is made with [On].
type Handler struct {
	typ reflect.Type
	do  func(ctx context.Context, tx *Tx, v any, r event.Recorded) error
}

// On returns the handler of events that decode to a T. What f writes through tx is committed
// together with the projection's checkpoint, so it takes effect once for each event. f may be
// called again for an event whose commit failed, so its other effects happen at least once. After
// an error nothing of the commit is written.
func On[T any](f func(ctx context.Context, tx *Tx, ev T, r event.Recorded) error) Handler {
	h := Handler{typ: reflect.TypeFor[T]()}
	if f != nil {
		h.do = func(ctx context.Context, tx *Tx, v any, r event.Recorded) error { return f(ctx, tx, v.(T), r) }
	}
	return h
}

// New returns a projection of the events that filter selects. Events of types without a handler
// change nothing. The name is also that of the checkpoint; it has at most [MaxName] bytes and no @
// or #. The version is that of the handlers, from 1: increase it when they compute other rows, and
// rebuild; see [Engine.Rebuild]. Arguments out of range are Invalid.
func New(name string, version int, filter event.Filter, handlers ...Handler) (*Projection, error) {
	const op = "projection"
	p := &Projection{name: name, version: version, filter: filter, handlers: make(map[reflect.Type]func(context.Context, *Tx, any, event.Recorded) error)}
	switch {
	case name == "" || len(name) > MaxName || strings.ContainsAny(name, "@#"):
		return nil, mainstem.Refusef(mainstem.KindInvalid, op, "name %.60q: want 1 to %d bytes without @ and #", name, MaxName)
	case version < 1:
		return nil, mainstem.Refusef(mainstem.KindInvalid, op, "%s: version %d: want 1 or more", name, version)
	case len(handlers) == 0:
		return nil, mainstem.Refusef(mainstem.KindInvalid, op, "%s: there are no handlers", name)
	}
	for _, h := range handlers {
		if h.do == nil {
			return nil, mainstem.Refusef(mainstem.KindInvalid, op, "%s: a handler is nil", name)
		}
		if p.handlers[h.typ] != nil {
			return nil, mainstem.Refusef(mainstem.KindInvalid, op, "%s: two handlers for %s", name, h.typ)
		}
		p.handlers[h.typ] = h.do
	}
	return p, nil
}

// WithClear sets the function that removes everything that the projection has written, and returns
// p. A rebuild in place calls it, after it has removed the rows of the tables of
// [Projection.WithTables]; it needs one of the two. The function may take many commits, and is
// called again if it fails.
func (p *Projection) WithClear(clear func(ctx context.Context) error) *Projection {
	p.clear = clear
	return p
}

// WithTables declares the tables that this projection alone writes, and returns p. A blue/green
// rebuild needs them; see [Engine.Rebuild]. A [Tx] selects the version of the tables that its
// commit writes.
func (p *Projection) WithTables(tables ...Versioned) *Projection {
	p.tables = append(p.tables, tables...)
	return p
}

// tableNames returns the names of the tables, without versions.
func (p *Projection) tableNames() []string {
	var names []string
	for _, t := range p.tables {
		names = append(names, t.Name())
	}
	return names
}

// describe records in a control row which rebuilds the handlers of p make possible.
func (p *Projection) describe(c *control) {
	c.Tables, c.Clears, c.Described = strings.Join(p.tableNames(), ","), p.clear != nil || len(p.tables) > 0, p.version
}

// clearAll removes everything that the projection has written: the given version of its tables, and
// what clear removes.
func (p *Projection) clearAll(ctx context.Context, version int) error {
	for _, t := range p.tables {
		if err := t.Clear(ctx, version); err != nil {
			return err
		}
	}
	if p.clear == nil {
		return nil
	}
	return p.clear(ctx)
}

// Name returns the name of the projection.
func (p *Projection) Name() string { return p.name }

// Version returns the version of the projection.
func (p *Projection) Version() int { return p.version }

// apply calls the handlers for one event.
func (p *Projection) apply(ctx context.Context, tx *Tx, types *event.Types, r event.Recorded) error {
	return p.applyAll(ctx, tx, types, []event.Recorded{r})
}

// applyAll upcasts and decodes events and calls the handlers, up to the first error. It skips
// deletions of streams.
func (p *Projection) applyAll(ctx context.Context, tx *Tx, types *event.Types, events []event.Recorded) error {
	see := func(v any, r event.Recorded) error { return p.applyValue(ctx, tx, v, r) }
	for i := range events {
		if events[i].Type == event.TypeDeleted {
			continue
		}
		if err := types.Each(events[i], see); err != nil {
			return err
		}
	}
	return nil
}

// applyValue calls the handler for the Go type of v, if there is one.
func (p *Projection) applyValue(ctx context.Context, tx *Tx, v any, r event.Recorded) error {
	do := p.handlers[reflect.TypeOf(v)]
	if do == nil {
		return nil
	}
	if err := do(ctx, tx, v, r); err != nil {
		return fmt.Errorf("projection %s: %s: %w", p.name, r.Type, err)
	}
	return nil
}
