package event

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/internal/inlineset"
)

// Inline is what an append writes besides its events, in the same commit. Package projection is made of
// it, and programs use its InlineStore.
type Inline struct {
	// Revision of the store's control record, which names the inline projections, that Handle carries out: if it is
	// another when the batch is committed, nothing is written. 0: there is none.
	Revision mainstem.Version
	// Handle is called once, while the batch is built, with the events as they will be recorded. It
	// writes into b; an error of it fails the append. Position and Time of the events are not known
	// yet, and zero. Version is known if the append expects an exact version or [NoStream], and zero
	// otherwise; with NoStream it counts from 1, which is too low if the stream was deleted or forgotten before.
	Handle func(ctx context.Context, b *mainstem.Batch, events []Recorded) error
	// Explainer, if set, explains conflicts before the store does.
	Explainer mainstem.Explainer
}

// AppendInlineTo is [Store.AppendTo] with what in writes besides. It returns mistakes and the error of
// in.Handle, and so does Commit.
func (s *Store) AppendInlineTo(ctx context.Context, b *mainstem.Batch, stream string, expected Expected, events []Event, in Inline) error {
	events = s.tagged(events)
	err := s.checkAppend(stream, expected, events)
	if err == nil {
		err = b.Err()
	}
	if err == nil {
		before := len(b.Conditions())
		if err = s.appendInline(ctx, b, new(encoder), stream, expected, s.identify(events), in); err != nil {
			_, err = s.doubt(ctx, "", b.Conditions()[before:], in, err)
			err = s.Explain(ctx, err)
		}
	}
	if err != nil {
		b.Fail(err)
	}
	return err
}

// AppendInline is [Store.Append] with what in writes besides. It does not try again after a conflict. It is
// idempotent as Append is: a repetition writes nothing, also if in.Handle fails because of
// what the first Append wrote.
func (s *Store) AppendInline(ctx context.Context, stream string, expected Expected, events []Event, in Inline) (Appended, error) {
	events = s.tagged(events)
	if err := s.checkAppend(stream, expected, events); err != nil {
		return Appended{}, err
	}
	w := s.writers.Get().(*writer)
	defer s.put(w)
	b := &w.batch
	b.Durability = s.opts.Durability
	given := identified(events)
	if events = s.identify(events); given {
		b.ID = s.batchID(&w.scratch, stream, events)
	}
	var r mainstem.Receipt
	err := s.appendInline(ctx, b, &w.enc, stream, expected, events, in)
	if err == nil {
		r, err = s.log.Commit(ctx, b)
	} else {
		r, err = s.doubt(ctx, b.ID, b.Conditions(), in, err)
	}
	switch {
	case err != nil && given && !isStale(err):
		return s.recover(ctx, stream, expected, events, err)
	case err != nil:
		return Appended{}, s.Explain(ctx, err)
	}
	a, err := s.resultOfInline(ctx, b, r, stream, len(events))
	if err != nil {
		return Appended{}, err
	}
	if r.Duplicate && a.First > 0 {
		if err := s.checkRetry(ctx, a, expected); err != nil {
			return Appended{}, err
		}
	}
	return a, nil
}

// resultOfInline returns what became of the n events that b appended, or an earlier batch with its ID: the number of
// records in the index before the events, and that of what in wrote after them, may have been another then.
func (s *Store) resultOfInline(ctx context.Context, b *mainstem.Batch, r mainstem.Receipt, stream string, n int) (Appended, error) {
	if !r.Duplicate {
		a, _ := s.Result(b, r, stream)
		return a, nil
	}
	return s.resultOfEarlier(ctx, r, stream, n)
}

// resultOfEarlier is resultOfInline for the receipt of an earlier batch, whose events it reads.
func (s *Store) resultOfEarlier(ctx context.Context, r mainstem.Receipt, stream string, n int) (Appended, error) {
	a := Appended{Stream: stream, Time: r.Time, Duplicate: true}
	for rec, err := range s.log.Feed(ctx, mainstem.Filter{Spaces: []string{s.spaces.events}, KeyPrefix: []byte(stream), After: r.First - 1, Limit: n}) {
		if err != nil {
			return a, err
		}
		if rec.Position > r.Last || string(rec.Key) != stream {
			break
		}
		if a.First == 0 {
			a.First, a.FirstPosition = rec.Version, rec.Position
		}
		a.Last, a.LastPosition = rec.Version, rec.Position
	}
	if a.First == 0 { // they are gone since: only that they were there is known
		a.FirstPosition, a.LastPosition = r.First, r.Last
	}
	return a, nil
}

// appendInline adds events, all of which have IDs, and what in writes.
func (s *Store) appendInline(ctx context.Context, b *mainstem.Batch, enc *encoder, stream string, expected Expected, events []Event, in Inline) error {
	first := s.firstVersion(b, stream, expected)
	if in.Explainer != nil {
		b.ExplainWith(in.Explainer)
	}
	x, err := s.indexAt(ctx, b, in)
	if err != nil {
		return err
	}
	s.appendIndexed(b, enc, x, stream, expected, events)
	if in.Handle == nil {
		return b.Err()
	}
	recorded := make([]Recorded, len(events))
	for i := range events {
		recorded[i] = Recorded{Event: events[i], Stream: stream}
		if first > 0 {
			recorded[i].Version = first + mainstem.Version(i)
		}
	}
	if err := in.Handle(ctx, b, recorded); err != nil {
		return err
	}
	return b.Err()
}

// doubt finds out whether failed, the error of a handler, is only due to the append being a conflict, or
// a repetition: then it returns that conflict, or the receipt of the first append under the ID. Otherwise it
// returns failed. It commits the conditions alone, with one that does not hold behind them, so it writes nothing.
func (s *Store) doubt(ctx context.Context, id string, conditions []mainstem.Condition, in Inline, failed error) (mainstem.Receipt, error) {
	b := mainstem.NewBatch()
	b.ID = id
	if in.Explainer != nil {
		b.ExplainWith(in.Explainer)
	}
	b.ExplainWith(s)
	for _, c := range conditions {
		b.If(c)
	}
	inlineset.RefuseTo(b, s.spaces.inline)
	r, err := s.log.Commit(ctx, b)
	var e *mainstem.Error
	switch {
	case err == nil:
		return r, nil
	case errors.Is(err, mainstem.ErrConflict) && errors.As(err, &e) && !inlineset.IsRefusal(e):
		return r, err
	}
	return r, failed
}

// firstVersion returns the version of the first event that is appended to stream next in b, as far as expected
// says it; else 0. Events that b appends to the stream already come before.
func (s *Store) firstVersion(b *mainstem.Batch, stream string, expected Expected) mainstem.Version {
	if expected < 0 {
		return 0
	}
	v := mainstem.Version(expected) + 1
	writes := b.Writes()
	for i := range writes {
		if w := &writes[i]; w.Op == mainstem.OpPut && w.Space == s.spaces.events && string(w.Key) == stream {
			v++
		}
	}
	return v
}

// identified reports whether every event has an ID.
func identified(events []Event) bool {
	for i := range events {
		if events[i].ID.IsZero() {
			return false
		}
	}
	return true
}

// identify returns events with an ID each.
func (s *Store) identify(events []Event) []Event {
	if identified(events) {
		return events
	}
	out := make([]Event, len(events))
	copy(out, events)
	for i := range out {
		if out[i].ID.IsZero() {
			out[i].ID = s.newID()
		}
	}
	return out
}

func (s *Store) newID() ID {
	if s.opts.NewID != nil {
		return s.opts.NewID()
	}
	return NewID()
}

// indexAt makes b depend on the control record with the revision of in, and returns the index that it says, nil for none.
func (s *Store) indexAt(ctx context.Context, b *mainstem.Batch, in Inline) (*index, error) {
	x := s.index.Load()
	if x == nil || x.version != in.Revision {
		var err error
		if x, err = s.readIndex(ctx); err != nil {
			return nil, err
		}
	}
	s.expectControl(b, x)
	switch {
	case x.version != in.Revision:
		return nil, s.changed(ctx, b, in)
	case !x.exists():
		return nil, nil
	}
	return x, nil
}

// changed returns the error of an append that was made for another control record than there is.
func (s *Store) changed(ctx context.Context, b *mainstem.Batch, in Inline) error {
	e := &mainstem.Error{Kind: mainstem.KindConflict, Op: "append", Space: s.spaces.tags, Key: controlKey, Outcome: mainstem.NotWritten}
	if in.Explainer != nil {
		if err := in.Explainer.ExplainConflict(ctx, b, e); err != nil {
			return err
		}
	}
	return &inlineset.ChangedError{Store: s.name, Cause: e}
}

// expectAppend makes b, which appends, depend on the control record being the one that the handle knows, and on
// it naming no inline projections, or, with [Options.WithoutInline], notes that the append goes without them. It
// returns the index, nil for none.
func (s *Store) expectAppend(b *mainstem.Batch) *index {
	x := s.index.Load()
	if s.opts.WithoutInline {
		inlineset.BypassTo(b, s.spaces.inline)
		return s.expectIndex(b)
	}
	if x == nil || x.old { // not known to be there in the new form only
		b.IfAbsent(s.spaces.inline, inlineset.Old)
	}
	if x != nil && len(x.Inline) > 0 { // it is refused, unless they are gone since
		s.expectControl(b, bare)
		return nil
	}
	return s.expectIndex(b)
}

// InlineError says that an append did not include the inline projections of its store as they are now, so
// nothing was written. It is Unavailable, and has the Conflict of the log in its chain.
type InlineError struct {
	Store       string
	Projections []string // of the store, such as "totals version 1"; nil if they could not be read
	Program     []string // those that the append included

	cause *mainstem.Error
}

// NewInlineError returns the error of an append that included some projections where the store has others. Cause is
// the conflict of the log, or nil if nothing was committed.
func NewInlineError(store string, has, program []string, cause *mainstem.Error) *InlineError {
	return &InlineError{Store: store, Projections: has, Program: program, cause: cause}
}

// Error names the projections, and says what to do.
func (e *InlineError) Error() string {
	list := func(names []string) string {
		if len(names) == 0 {
			return "no inline projections"
		}
		return "the inline projections " + strings.Join(names, ", ")
	}
	if len(e.Program) == 0 {
		return fmt.Sprintf("event store %s: it has %s, which every append must include: append through projection.OpenInline, "+
			"or set Options.WithoutInline, which leaves them stale until they are rebuilt", e.Store, list(e.Projections))
	}
	return fmt.Sprintf("event store %s: it has %s now, and this program includes %s: open the store again with those that it has",
		e.Store, list(e.Projections), strings.Join(e.Program, ", "))
}

// Unwrap makes it an error of kind Unavailable.
func (e *InlineError) Unwrap() []error {
	kind := &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "append", Outcome: mainstem.NotWritten}
	if e.cause == nil {
		return []error{kind}
	}
	return []error{kind, e.cause}
}

// explainInline returns the error of an append without inline projections to a store that has some.
func (s *Store) explainInline(ctx context.Context, e *mainstem.Error) error {
	set, _ := inlineset.Read(ctx, s.log, s.name) // best effort: they may be gone by now
	var names []string
	for _, entry := range set.Entries {
		names = append(names, entry.String())
	}
	return NewInlineError(s.name, names, nil, e)
}

// Selects reports whether f selects an event that is appended now: whether a subscription with f would
// handle it.
func (f *Filter) Selects(r *Recorded) bool {
	return (f.Category == "" || len(r.Stream) > len(f.Category) && r.Stream[len(f.Category)] == '-' && r.Stream[:len(f.Category)] == f.Category) &&
		(len(f.Types) == 0 || slices.Contains(f.Types, r.Type)) &&
		(len(f.Streams) == 0 || slices.Contains(f.Streams, r.Stream))
}
