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

// DefaultRetries is how often an append to an [InlineStore] is repeated after a conflict, unless
// [InlineOptions.Retries] says otherwise.
const DefaultRetries = 100

// InlineOptions configure an [InlineStore]. Nil and zero fields mean the defaults.
type InlineOptions struct {
	// Retries is how often Append builds its batch again because a row that a projection had read
	// was changed. Default [DefaultRetries]; -1 means never.
	Retries int
	// Rebuild lets [OpenInline] rebuild projections that are stale or whose rows are those of an
	// older version; see [InlineStore.Rebuild]. Default: an older version is a [*VersionError], and
	// a stale projection is logged and used as it is.
	Rebuild bool
	// Keep is how long old tables are kept after a rebuild, for readers that still use them.
	// Default [DefaultKeep]. OpenInline, Rebuild and the engines of the store remove tables that
	// are due.
	Keep time.Duration
	// Progress, if set, is called while older events of a projection are handled, before each
	// commit, with the position of the last event of the commit and that of the newest event. It is
	// called by the goroutine of a subscription.
	Progress func(name string, done, total mainstem.Position)
	Logger   *slog.Logger // default slog.Default()
}

// InlineStore is an event store whose appends include projections: their rows are written in the
// commits of the events. So a reader that sees an event sees its rows. It is safe for concurrent
// use, and need not be closed.
//
// The metadata of the store lists its inline projections with their versions. An append by a
// program with other ones fails with [*event.InlineError], and nothing is written. With
// [event.Options.WithoutInline] it is written, and the projections become stale.
//
// How an append works: the InlineStore keeps the set of inline projections as it was last read. The
// handlers run while the batch is built, and their reads become conditions of the batch, as does
// the revision of the set. So a commit that succeeds was built with the present projections and the
// present rows. After a conflict with a row the batch is built again; after one with the set, the
// set is read again first.
type InlineStore struct {
	store       *event.Store
	types       *event.Types
	opts        InlineOptions
	controls    controls
	projections []*Projection // in the order in which appends call them

	current atomic.Pointer[inlineState] // the state that was read last; nil if it must be read again
	handled []atomic.Uint64             // number of events, by index of projections
	turn    chan struct{}               // a mutex: the goroutine that holds the token switches projections on
}

// inlineState is what appends do under one revision of the set.
type inlineState struct {
	revision mainstem.Version // of the store's control record, a condition of each append
	on       []inlineCall     // the projections that appends call, in their order
}

// inlineCall is a call of a projection by an append.
type inlineCall struct {
	index int // of projections
	build int // version of the tables that are read; the projection writes it
	next  int // version of the tables that it writes too; 0: none
}

// OpenInline returns store with projections that are part of its appends from now on, in the given
// order.
//
// A projection that the store does not have yet first handles the events that are stored, as an
// [Engine] does, from the checkpoint if it was run by one. Other programs append meanwhile. For the
// last of these events appends are held for a short time: they wait in programs with the
// projection, and fail with Unavailable in others. All this may take long. If it fails or the
// process ends, the next call continues. If ctx ends the error is Canceled.
//
// All programs that append must have the same projections. A projection that the store has and this
// call lacks is an [*event.InlineError] (see [RemoveInline]); one of another version is a
// [*VersionError], unless [InlineOptions.Rebuild] allows a rebuild. Arguments out of range are
// Invalid, two projections of one name Exists. A projection that an Engine has paused, divided into
// partitions or is rebuilding is Unavailable.
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
		if s.projection(e.Name) == nil { // tested before anything is changed
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

// removeOld removes tables that are no longer read, if they are due. Failures are logged; the next
// call tries again.
func (s *InlineStore) removeOld(ctx context.Context) {
	if _, err := s.controls.removeOld(ctx, s.store, s.opts.Logger); err != nil {
		s.opts.Logger.Warn("tables that are read no more cannot be removed yet", "store", s.store.Name(), "error", err)
	}
}

// newInlineStore checks the arguments and fills in the defaults.
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
		case p.filter.Partitions != 0 || p.filter.Partition != 0:
			return nil, mainstem.Refusef(mainstem.KindInvalid, op, "store %s: the filter of %s selects a partition, which appends cannot", store.Name(), p.name)
		case p.target != nil:
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

// Store returns the store itself, for everything except appends.
func (s *InlineStore) Store() *event.Store { return s.store }

// Append appends events to stream together with the writes of the projections. When it returns,
// both have the durability of [event.Options.Durability]. The errors and the idempotence by event
// ID are those of [event.Store.Append]. An error of a handler is returned, and nothing is written.
//
// If a row that a projection had read was changed, the handlers are called again with new reads, up
// to [InlineOptions.Retries] times; then the error is that Conflict. A stream that does not meet
// the expectation is returned at once.
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

// AppendTo adds events to the end of stream as part of b, with the writes of the projections, and
// the conditions that the rows they read are unchanged at the commit. The projections see the
// earlier writes of b, so a batch may append several times. Otherwise it is like
// [event.Store.AppendTo]. Its error also fails b: Commit returns it too. After a conflict, which
// may be about a row, the caller builds a new batch; [InlineStore.Commit] does that.
func (s *InlineStore) AppendTo(ctx context.Context, b *mainstem.Batch, stream string, expected event.Expected, events []event.Event) error {
	in, err := s.inline(ctx)
	if err != nil {
		b.Fail(err)
		return err
	}
	return s.store.AppendInlineTo(ctx, b, stream, expected, events, in)
}

// afterInlineConflict is the pause before an append is built again.
var afterInlineConflict = backoff.Policy{First: 100 * time.Microsecond, Max: 20 * time.Millisecond, Jitter: 1}

// Again reports whether an append to stream that failed with err may succeed if it is built again,
// because the conflict is about a row that a projection had read, or about the set of projections.
// It pauses before it returns true. try counts from 1. Append does this itself; it is for callers
// of AppendTo.
func (s *InlineStore) Again(ctx context.Context, stream string, err error, try int) bool {
	var conflict *event.ConflictError
	var sealed *event.SealedError
	var inline *event.InlineError
	var handler handlerError
	var changed *inlineset.ChangedError
	tries := s.opts.Retries
	var stale *event.StaleIndexError
	if errors.As(err, &changed) || errors.As(err, &stale) { // such conflicts are not caused by contention for rows
		tries += DefaultRetries
		s.current.Store(nil) // the next append reads the set again
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

// handlerError is an error of a handler: the append is not repeated, whatever its kind.
type handlerError struct{ error }

func (e handlerError) Unwrap() error { return e.error }

// inline returns what an append must include now.
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

// handle calls the projections for events that are being appended and adds their writes to b.
func (s *InlineStore) handle(ctx context.Context, b *mainstem.Batch, events []event.Recorded, on []inlineCall) error {
	tx := newTxOn(b)
	for i := range events {
		if err := s.apply(ctx, tx, &events[i], on); err != nil {
			tx.expect(b) // the store then tests whether the error is only a consequence of a concurrent change
			return handlerError{err}
		}
	}
	return tx.flush(ctx)
}

// apply calls the projections that select r. The event is decoded once for all of them, and not at
// all if there are none.
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

// state reads the set of the store. If the set holds appends for a projection that another process
// has not finished switching on, state finishes that.
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

// switchOn is bring for one goroutine at a time.
func (s *InlineStore) switchOn(ctx context.Context, p *Projection) error {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return mainstem.Ended(ctx, "append", time.Time{}, "an inline projection to be switched on")
	}
	defer func() { s.turn <- struct{}{} }()
	return s.bring(ctx, p)
}

// fits returns what appends do under a set. held is a projection of the program that must be
// switched on first; ok is false if the program lacks a projection of the set or has another
// version of it, or the set lacks one of the program.
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
		case e.State == inlineset.Building: // appends do not include it
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

// unfit returns the error for a set that the program cannot append under.
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

// projection returns the projection called name, or nil.
func (s *InlineStore) projection(name string) *Projection {
	for _, p := range s.projections {
		if p.name == name {
			return p
		}
	}
	return nil
}

// ExplainConflict implements [mainstem.Explainer]. A conflict with the set of inline projections is
// an [*event.InlineError] if the program cannot append under the present set, else an error after
// which the append is built again. For other conflicts it returns nil.
func (s *InlineStore) ExplainConflict(ctx context.Context, _ *mainstem.Batch, e *mainstem.Error) error {
	if !inlineset.IsOf(e, s.store.Name()) {
		return nil
	}
	s.current.Store(nil) // the next append reads the set again
	set, err := inlineset.Read(ctx, s.store.Log(), s.store.Name())
	if err == nil {
		if _, _, ok := s.fits(set); !ok {
			return s.unfit(set, e)
		}
	}
	return &inlineset.ChangedError{Store: s.store.Name(), Cause: e}
}
