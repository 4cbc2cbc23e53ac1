package event

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/internal/inlineset"
)

var (
	// ErrTooLarge is in the chain of the Invalid error for an event whose data is
	// over [Options.MaxEventBytes].
	ErrTooLarge = errors.New("event too large")
	// ErrCheckpointMoved is in the chain of the Conflict error with which an exclusive subscription
	// ends when another instance or [Store.SetCheckpointTo] moved its checkpoint; see
	// [SubscribeOptions.Exclusive].
	ErrCheckpointMoved = errors.New("the checkpoint was moved by another instance of the subscription")
)

// ConflictError reports that a stream did not meet the expectation of an append. It is a Conflict:
// errors.Is(err, mainstem.ErrConflict) holds.
type ConflictError struct {
	Store    string
	Stream   string
	Expected Expected
	Actual   mainstem.Version // newest version of the stream, 0 if it was never written
	Deleted  bool             // the stream has a version and no events

	hint  string // what the caller can do, or ""
	cause *mainstem.Error
}

// Error says which version was expected and which was found.
func (e *ConflictError) Error() string {
	got := fmt.Sprintf("it is at version %d", e.Actual)
	switch {
	case e.Actual == 0:
		got = "it does not exist"
	case e.Deleted:
		got += ", deleted"
	}
	return fmt.Sprintf("event store %s: stream %.64q: conflict: expected %s, but %s%s", e.Store, e.Stream, e.Expected, got, after(e.hint))
}

func after(hint string) string {
	if hint == "" {
		return ""
	}
	return "; " + hint
}

// Unwrap returns the error of the log.
func (e *ConflictError) Unwrap() error { return e.cause }

// SealedError reports that a stream accepts no events, either for the time being (archived) or
// permanently (tombstoned). It is a Conflict, but trying again does not help.
type SealedError struct {
	Store  string
	Stream string
	Seal   Seal // NotSealed if it could not be read

	cause *mainstem.Error
}

// Error says why the stream accepts no events.
func (e *SealedError) Error() string {
	what, hint := "sealed", ""
	switch e.Seal {
	case Archived:
		what, hint = "archived", "; unarchive it first"
	case Tombstoned:
		what, hint = "tombstoned", "; use another stream"
	}
	return fmt.Sprintf("event store %s: stream %.64q is %s and accepts no events%s", e.Store, e.Stream, what, hint)
}

// Unwrap returns the error of the log.
func (e *SealedError) Unwrap() error { return e.cause }

// Explain turns the error of a Commit of a batch that this store wrote into into the error that an
// immediate write, such as [Store.Append], returns: NotFound if [StreamExists] did not hold;
// otherwise the error that Commit itself returns on engines that support [mainstem.Explainer]: a
// [*ConflictError], a [*SealedError], a [*ConditionError], a [*StaleIndexError], an [*InlineError],
// or err as it is.
func (s *Store) Explain(ctx context.Context, err error) error {
	var e *mainstem.Error
	if !errors.As(err, &e) || e.Kind != mainstem.KindConflict {
		return err
	}
	var sealed *SealedError
	var inline *InlineError
	var changed *inlineset.ChangedError
	if errors.As(err, &sealed) || errors.As(err, &inline) || errors.As(err, &changed) {
		return err
	}
	var condition *ConditionError
	if isStale(err) || errors.As(err, &condition) {
		return err
	}
	var conflict *ConflictError
	if !errors.As(err, &conflict) { // the engine does not explain conflicts, or the batch was written for another store
		switch said := s.ExplainConflict(ctx, nil, e).(type) {
		case nil:
			return err
		case *ConflictError:
			conflict, err = said, said
		default:
			return said
		}
	}
	if conflict.Expected == StreamExists && conflict.Store == s.name {
		missing := s.streamNotFound("commit", conflict.Stream, mainstem.NotWritten)
		missing.Hint = conflict.hint
		return missing
	}
	return err
}

// ExplainConflict implements [mainstem.Explainer]. The error is a [*ConflictError], a
// [*SealedError], a [*StaleIndexError] or an [*InlineError]. For a condition on a position it is
// nil, since that is a condition of [Store.FailIf], except for the one on the control record, which
// fails if the store was dropped and created again.
func (s *Store) ExplainConflict(ctx context.Context, b *mainstem.Batch, e *mainstem.Error) error {
	if e.Want.Test == mainstem.TestNotAfter {
		if e.Space != s.spaces.tags || string(e.Key) != string(controlKey) {
			return nil
		}
		_, _ = s.readIndex(ctx) // best effort, as below
		return &StaleIndexError{Store: s.name, cause: e}
	}
	stream := string(e.Key)
	switch e.Space {
	case s.spaces.tags:
		// Best effort: if the index cannot be read, the next batch fails in the same way.
		x, _ := s.readIndex(ctx)
		if x != nil && len(x.Inline) > 0 && !s.opts.WithoutInline && s.writesEvents(b) && !s.madeWithInline(ctx, e) {
			return s.explainInline(ctx, e)
		}
		return &StaleIndexError{Store: s.name, cause: e}
	case s.spaces.inline:
		if inlineset.IsRefusal(e) {
			return nil
		}
		return s.explainInline(ctx, e)
	case s.spaces.seals:
		seal, _, _ := s.seal(ctx, stream) // best effort: the seal may be gone by now
		return &SealedError{Store: s.name, Stream: stream, Seal: seal, cause: e}
	case s.spaces.events:
		c := &ConflictError{
			Store: s.name, Stream: stream, Expected: expectedOf(e.Want),
			Actual: e.Got, Deleted: e.Got > 0 && !e.GotLive, cause: e,
		}
		if c.Expected == StreamExists && b != nil && s.onlySnapshot(b, stream) {
			c.hint = "a snapshot is of events: append some before it, or in the same batch"
		}
		return c
	}
	return nil
}

// madeWithInline reports whether the batch that failed with e was built for a control record that
// names inline projections, so that it contains their writes.
func (s *Store) madeWithInline(ctx context.Context, e *mainstem.Error) bool {
	if e.Want.Test != mainstem.TestVersion {
		return false
	}
	for rec, err := range s.log.Read(ctx, s.spaces.tags, controlKey, mainstem.Versions{From: e.Want.Version, To: e.Want.Version}) {
		if err != nil {
			return false
		}
		c, err := decodeControl(&rec)
		return err == nil && len(c.Inline) > 0
	}
	return false
}

// writesEvents reports whether b writes events of the store.
func (s *Store) writesEvents(b *mainstem.Batch) bool {
	return b != nil && slices.ContainsFunc(b.Writes(), func(w mainstem.Write) bool { return w.Op == mainstem.OpPut && w.Space == s.spaces.events })
}

func (s *Store) streamNotFound(op, stream string, o mainstem.Outcome) *mainstem.Error {
	return &mainstem.Error{Kind: mainstem.KindNotFound, Op: op, Space: s.spaces.events, Key: []byte(stream), Outcome: o}
}

func isNotFound(err error) bool { return errors.Is(err, mainstem.ErrNotFound) }
