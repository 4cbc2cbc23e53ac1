package projection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/internal/inlineset"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// DefaultRetries is how often an append to an [InlineStore] is built anew after a conflict, unless
// [InlineOptions.Retries] says otherwise.
const DefaultRetries = 100

// InlineOptions tune an [InlineStore]. Nil and zero fields mean the defaults.
type InlineOptions struct {
	// Retries is how often Append builds its batch anew because somebody else has changed what
	// the projections had read. Default [DefaultRetries]; -1 means never.
	Retries int
	// Rebuild lets [OpenInline] rebuild projections whose rows are those of an older version, or stale; see
	// [InlineStore.Rebuild]. Default: the older version is a [*VersionError], and a stale projection is logged and left as it is.
	Rebuild bool
	// Keep is how long tables stay that are read no more after a rebuild, for readers that are at them. Default
	// [DefaultKeep]. OpenInline, Rebuild, and engines of the store remove what is due.
	Keep time.Duration
	// Progress, if set, is called while projections are brought up to date, with the position that one has come to and that
	// of the newest event.
	Progress func(name string, done, total mainstem.Position)
	Logger   *slog.Logger // default slog.Default
}

// InlineStore is an event store whose appends include projections: the rows that they write are in the
// commit of the events, so a reader that sees an event sees its rows. It is safe for concurrent use, and
// holds no resources.
//
// The store's metadata names the projections with their versions. An append by a program that has not the same ones is an
// [*event.InlineError], and nothing is written; with [event.Options.WithoutInline] it is written, and the projections are stale.
type InlineStore struct {
	store       *event.Store
	types       *event.Types
	opts        InlineOptions
	controls    controls
	projections []*Projection // in the order in which they are called

	current atomic.Pointer[inlineState] // as it was read last; nil: it is to be read
	handled []atomic.Uint64             // events, by index of projections
	turn    chan struct{}               // holds a token; who has it switches projections on
}

// inlineState is a set of inline projections that the program can append under.
type inlineState struct {
	revision mainstem.Version
	on       []inlineCall // in the order of the projections
}

// inlineCall is a projection that appends call.
type inlineCall struct {
	index int // of projections
	build int // version of the tables that are read, which it writes
	next  int // version of the tables that it writes, too; 0: none
}

// OpenInline returns store with projections that are part of its appends from now on, in the order in which they are called.
//
// A projection that the store does not have yet is brought up to date first: its events are handled as an
// [Engine] would, from its checkpoint if it was one of an engine, while others append; then appends
// wait, or fail with Unavailable in programs without it, until the last of them are handled, which is short. That may take long; when it fails or the
// process ends, the next call goes on from there. One that ctx ends returns Canceled.
//
// All programs that append must have the same projections: one that the store has and this call lacks is an
// [*event.InlineError] (see [RemoveInline]), one of another version a [*VersionError] unless [InlineOptions.Rebuild] says so.
func OpenInline(ctx context.Context, store *event.Store, types *event.Types, o *InlineOptions, projections ...*Projection) (*InlineStore, error) {
	s, err := newInlineStore(store, types, o, projections)
	if err != nil {
		return nil, err
	}
	set, err := s.set(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range set.Entries {
		if s.projection(e.Name) == nil { // before anything is changed
			return nil, s.unfit(set, nil)
		}
	}
	for _, p := range s.projections {
		if err := s.bring(ctx, p); err != nil {
			return nil, fmt.Errorf("inline projection %s: %w", p.name, err)
		}
	}
	if _, err := s.state(ctx); err != nil {
		return nil, err
	}
	s.removeOld(ctx)
	return s, nil
}

// removeOld removes tables that are read no more, if they are due. What fails is left to the next one.
func (s *InlineStore) removeOld(ctx context.Context) {
	if _, err := s.controls.removeOld(ctx, s.store, s.opts.Logger); err != nil {
		s.opts.Logger.Warn("tables that are read no more cannot be removed yet", "store", s.store.Name(), "error", err)
	}
}

func newInlineStore(store *event.Store, types *event.Types, o *InlineOptions, projections []*Projection) (*InlineStore, error) {
	const op = "open inline projections"
	if store == nil || types == nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, op, "the store or the types are nil")
	}
	if len(projections) == 0 {
		return nil, mainstem.Refusef(mainstem.KindInvalid, op, "store %s: there are no projections", store.Name())
	}
	names := make(map[string]bool)
	for _, p := range projections {
		switch {
		case p == nil:
			return nil, mainstem.Refusef(mainstem.KindInvalid, op, "store %s: a projection is nil", store.Name())
		case names[p.name]:
			return nil, mainstem.Refusef(mainstem.KindExists, op, "store %s: two projections are called %s", store.Name(), p.name)
		}
		if p.target != nil {
			return nil, mainstem.Refusef(mainstem.KindInvalid, op, "store %s: %s has a target, which is not written by the commits of appends: register it with an Engine", store.Name(), p.name)
		}
		names[p.name] = true
	}
	c, err := openControls(store.Log(), store.Name())
	if err != nil {
		return nil, err
	}
	s := &InlineStore{store: store, types: types, controls: c, projections: projections, handled: make([]atomic.Uint64, len(projections)), turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	if o != nil {
		s.opts = *o
	}
	switch {
	case s.opts.Keep < 0:
		return nil, mainstem.Refusef(mainstem.KindInvalid, op, "Keep is %v: want 0 (default %v) or more", s.opts.Keep, DefaultKeep)
	case s.opts.Retries < -1:
		return nil, mainstem.Refusef(mainstem.KindInvalid, op, "Retries is %d: want -1 (never), 0 (default %d) or more", s.opts.Retries, DefaultRetries)
	case s.opts.Retries == -1:
		s.opts.Retries = 0
	case s.opts.Retries == 0:
		s.opts.Retries = DefaultRetries
	}
	if s.opts.Logger == nil {
		s.opts.Logger = slog.Default()
	}
	if s.opts.Keep == 0 {
		s.opts.Keep = DefaultKeep
	}
	return s, nil
}

// Store returns the store without the projections, for all that it does but append.
func (s *InlineStore) Store() *event.Store { return s.store }

// Append appends events to stream at once, with what the projections write, and returns when both are as durable as
// [event.Options.Durability] of the store says. The errors and the idempotence by event ID are those of [event.Store.Append]. An error of a
// handler is returned, and nothing is written.
//
// If somebody else has changed what the projections had read, the handlers are called again, up to [InlineOptions.Retries] times;
// then the error is that Conflict. A stream that is not as expected is returned at once.
func (s *InlineStore) Append(ctx context.Context, stream string, expected event.Expected, events []event.Event) (event.Appended, error) {
	for try := 1; ; try++ {
		in, err := s.inline(ctx)
		if err != nil {
			return event.Appended{}, err
		}
		a, err := s.store.AppendInline(ctx, stream, expected, events, in)
		if err == nil || !s.Again(ctx, stream, err, try) {
			return a, err
		}
	}
}

// AppendTo adds events to the end of stream as part of b, with what the projections write, and the conditions that what they
// read stays as it is until then. They see what b holds already, so a batch may append many times. Otherwise it is like
// [event.Store.AppendTo]. An error is returned, and by Commit, too; after a conflict, which may be one about a row, make
// the batch anew.
func (s *InlineStore) AppendTo(ctx context.Context, b *mainstem.Batch, stream string, expected event.Expected, events []event.Event) error {
	in, err := s.inline(ctx)
	if err != nil {
		b.Fail(err)
		return err
	}
	return s.store.AppendInlineTo(ctx, b, stream, expected, events, in)
}

// afterInlineConflict is the pause before an append is built anew.
var afterInlineConflict = backoff.Policy{First: 100 * time.Microsecond, Max: 20 * time.Millisecond, Jitter: 1}

// Again reports whether an append to stream that failed with err may succeed when it is built anew, because the conflict
// is about what the projections had read; it pauses then. The first try is 1. Append does this by itself.
func (s *InlineStore) Again(ctx context.Context, stream string, err error, try int) bool {
	var conflict *event.ConflictError
	var sealed *event.SealedError
	var inline *event.InlineError
	var handler handlerError
	var changed *inlineset.ChangedError
	tries := s.opts.Retries
	var stale *event.StaleIndexError
	if errors.As(err, &changed) || errors.As(err, &stale) { // which has nothing to do with contention
		tries += DefaultRetries
		s.current.Store(nil) // the next append reads it
	}
	switch {
	case !errors.Is(err, mainstem.ErrConflict) || errors.As(err, &inline) || errors.As(err, &handler) || try > tries:
		return false
	case errors.As(err, &conflict) && conflict.Store == s.store.Name() && conflict.Stream == stream,
		errors.As(err, &sealed) && sealed.Store == s.store.Name() && sealed.Stream == stream:
		return false
	}
	return afterInlineConflict.Wait(ctx, try)
}

// handlerError is an error of a handler: it is final, whatever its kind.
type handlerError struct{ error }

func (e handlerError) Unwrap() error { return e.error }

// inline returns what an append includes now.
func (s *InlineStore) inline(ctx context.Context) (event.Inline, error) {
	st := s.current.Load()
	if st == nil {
		var err error
		if st, err = s.state(ctx); err != nil {
			return event.Inline{}, err
		}
	}
	return event.Inline{Revision: st.revision, Explainer: s, Handle: func(ctx context.Context, b *mainstem.Batch, events []event.Recorded) error {
		return s.handle(ctx, b, events, st.on)
	}}, nil
}

// handle calls the projections for events that are appended, and writes what they write into b.
func (s *InlineStore) handle(ctx context.Context, b *mainstem.Batch, events []event.Recorded, on []inlineCall) error {
	tx := newTxOn(b)
	for i := range events {
		if err := s.apply(ctx, tx, &events[i], on); err != nil {
			tx.expect(b) // so that it is known whether the handler saw one moment
			return handlerError{err}
		}
	}
	return tx.flush(ctx)
}

// apply calls the projections that select r. It is decoded once for all of them, and not at all for none.
func (s *InlineStore) apply(ctx context.Context, tx *Tx, r *event.Recorded, on []inlineCall) error {
	var few [8]inlineCall
	selected := few[:0]
	for _, c := range on {
		if s.projections[c.index].filter.Selects(r) {
			selected = append(selected, c)
			s.handled[c.index].Add(1)
		}
	}
	if len(selected) == 0 {
		return nil
	}
	return s.types.Each(*r, func(v any, r event.Recorded) error {
		for _, c := range selected {
			p := s.projections[c.index]
			if err := p.applyValue(ctx, tx.as(p, c.build, false), v, r); err != nil {
				return err
			}
			if c.next == 0 {
				continue
			}
			if err := p.applyValue(ctx, tx.as(p, c.next, true), v, r); err != nil {
				return err
			}
		}
		return nil
	})
}

// state reads the set of the store, and finishes switching on projections that another process has not.
func (s *InlineStore) state(ctx context.Context) (*inlineState, error) {
	for {
		set, err := s.set(ctx)
		if err != nil {
			return nil, err
		}
		st, held, ok := s.fits(set)
		switch {
		case !ok:
			return nil, s.unfit(set, nil)
		case held == nil:
			s.current.Store(st)
			return st, nil
		}
		if err := s.switchOn(ctx, held); err != nil {
			return nil, fmt.Errorf("inline projection %s: %w", held.name, err)
		}
	}
}

// switchOn is bring, by one goroutine at a time.
func (s *InlineStore) switchOn(ctx context.Context, p *Projection) error {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return mainstem.Ended(ctx, "append", time.Time{}, "an inline projection to be switched on")
	}
	defer func() { s.turn <- struct{}{} }()
	return s.bring(ctx, p)
}

// fits returns what appends do under a set; held is a projection that is to be switched on first, and ok is false if
// the program lacks a projection of the set or has another version of it.
func (s *InlineStore) fits(set inlineset.Set) (st *inlineState, held *Projection, ok bool) {
	st = &inlineState{revision: set.Revision}
	found := 0
	for _, e := range set.Entries {
		p := s.projection(e.Name)
		if p != nil {
			found++
		}
		version, waits := e.Held()
		switch {
		case e.State == inlineset.Building: // the process that rebuilds it handles the events
		case p == nil || e.State == inlineset.Removing:
			return nil, nil, false
		case waits && version == p.version:
			held = p
		case waits || e.Version != p.version:
			return nil, nil, false
		}
	}
	if found < len(s.projections) {
		return nil, nil, false
	}
	for i, p := range s.projections {
		e := set.Find(p.name)
		if e.State != inlineset.On {
			continue
		}
		c := inlineCall{index: i, build: e.Build}
		if e.Both() {
			c.next = e.Next
		}
		st.on = append(st.on, c)
	}
	return st, held, true
}

// unfit returns the error of a set that is not the program's.
func (s *InlineStore) unfit(set inlineset.Set, cause *mainstem.Error) error {
	var has, program []string
	for _, e := range set.Entries {
		has = append(has, e.String())
	}
	for _, p := range s.projections {
		program = append(program, inlineset.Entry{Name: p.name, Version: p.version}.String())
	}
	return event.NewInlineError(s.store.Name(), has, program, cause)
}

func (s *InlineStore) projection(name string) *Projection {
	for _, p := range s.projections {
		if p.name == name {
			return p
		}
	}
	return nil
}

// ExplainConflict implements [mainstem.Explainer]: a conflict with the set of inline projections is an [*event.InlineError], unless
// the program may append under the set as it is now. Others are not explained: nil.
func (s *InlineStore) ExplainConflict(ctx context.Context, _ *mainstem.Batch, e *mainstem.Error) error {
	if !inlineset.IsOf(e, s.store.Name()) {
		return nil
	}
	s.current.Store(nil) // the next append reads it
	set, err := inlineset.Read(ctx, s.store.Log(), s.store.Name())
	if err == nil {
		if _, _, ok := s.fits(set); !ok {
			return s.unfit(set, e)
		}
	}
	return &inlineset.ChangedError{Store: s.store.Name(), Cause: e}
}
