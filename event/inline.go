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

// Inline is the part of an append that writes more than events, in the same commit. Package
// projection uses it; programs use its InlineStore.
type Inline struct {
	// Revision is that of the store's control record that names the inline projections of Handle,
	// or 0 for none. If the control record has another revision when the batch is committed,
	// nothing is written.
	Revision mainstem.Version
	// Handle is called once, while the batch is built, with the events as they will be recorded. It
	// writes into b; its error fails the append. Position and Time of the events are not known yet,
	// and are zero. Version is set if the append expects an exact version or [NoStream], and zero
	// otherwise; with NoStream it counts from 1, which is too low if the stream was deleted or
	// forgotten before.
	Handle func(ctx context.Context, b *mainstem.Batch, events []Recorded) error
	// Explainer, if set, explains conflicts before the store does.
	Explainer mainstem.Explainer
}

// AppendInlineTo is [Store.AppendTo] together with the writes of in. It returns errors of its
// arguments and of in.Handle, and Commit returns them too.
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

// AppendInline is [Store.Append] together with the writes of in. It does not try again after a
// conflict. It is idempotent like Append: a repeated call writes nothing, even if in.Handle fails
// because of the writes of the first call.
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

// resultOfInline returns the result for the n events that b, or an earlier batch with its ID,
// appended. The earlier batch may have had another number of records of the index before the
// events, and of records of in after them.
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
	if first := a.Last - mainstem.Version(n) + 1; a.Last != 0 && a.First != first { // the first ones were truncated since
		a.First, a.FirstPosition = first, r.First
	}
	if a.First == 0 { // the events were removed since: only their former existence is known
		a.FirstPosition, a.LastPosition = r.First, r.Last
	}
	return a, nil
}

// appendInline adds events, all of which have IDs, and the writes of in.
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

// doubt determines whether failed, the error of a handler, is only a consequence of a conflict or a
// repetition of the append. In these cases it returns the conflict, or the receipt of the first
// append under the ID; otherwise it returns failed. It commits only the conditions, followed by one
// that cannot hold, so it writes nothing.
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

// firstVersion returns the version of the next event that b appends to stream, if it follows from
// expected, else 0. It counts events that b appends to the stream already.
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

// identify returns events with an ID each; events that have none get a new one.
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

// indexAt makes b depend on the control record with the revision of in, and returns its index, nil
// for none.
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

// changed returns the error of an append that was built for an outdated control record.
func (s *Store) changed(ctx context.Context, b *mainstem.Batch, in Inline) error {
	e := &mainstem.Error{Kind: mainstem.KindConflict, Op: "append", Space: s.spaces.tags, Key: controlKey, Outcome: mainstem.NotWritten}
	if in.Explainer != nil {
		if err := in.Explainer.ExplainConflict(ctx, b, e); err != nil {
			return err
		}
	}
	return &inlineset.ChangedError{Store: s.name, Cause: e}
}

// expectAppend makes b, which appends, depend on the control record that the handle has read. If
// the record names inline projections the append is refused or, with [Options.WithoutInline], marks
// them as stale. It returns the index, nil for none.
func (s *Store) expectAppend(b *mainstem.Batch) *index {
	x := s.index.Load()
	if s.opts.WithoutInline {
		inlineset.BypassTo(b, s.spaces.inline)
		return s.expectIndex(b)
	}
	if x == nil || x.old { // it is not known whether inline projections exist in the new form only
		b.IfAbsent(s.spaces.inline, inlineset.Old)
	}
	if x != nil && len(x.Inline) > 0 { // refuse the append, unless they were removed since
		s.expectControl(b, bare)
		return nil
	}
	return s.expectIndex(b)
}

// InlineError reports that an append did not include the present inline projections of its store,
// so nothing was written. It is Unavailable, and has the Conflict of the log in its chain.
type InlineError struct {
	Store       string
	Projections []string // of the store, such as "totals version 1"; nil if they could not be read
	Program     []string // projections that the append included

	cause *mainstem.Error
}

// NewInlineError returns the error of an append that included the projections program where the
// store has the projections has. Cause is the conflict of the log, or nil if nothing was committed.
func NewInlineError(store string, has, program []string, cause *mainstem.Error) *InlineError {
	return &InlineError{Store: store, Projections: has, Program: program, cause: cause}
}

// Error names the projections and what to do.
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
	set, _ := inlineset.Read(ctx, s.log, s.name) // best effort: they may have been removed since
	var names []string
	for _, entry := range set.Entries {
		names = append(names, entry.String())
	}
	return NewInlineError(s.name, names, nil, e)
}

// Selects reports whether f selects an event that is appended now, so that a subscription with f
// would handle it. f selects no partition.
func (f *Filter) Selects(r *Recorded) bool {
	return (f.Category == "" || len(r.Stream) > len(f.Category) && r.Stream[len(f.Category)] == '-' && r.Stream[:len(f.Category)] == f.Category) &&
		(len(f.Types) == 0 || slices.Contains(f.Types, r.Type)) &&
		(len(f.Streams) == 0 || slices.Contains(f.Streams, r.Stream))
}
