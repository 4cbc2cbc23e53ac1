package projection

import (
	"context"
	"errors"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// Commit commits a batch that build fills: with appends by [InlineStore.AppendTo], conditions by
// [event.Store.FailIf] and any other writes. It is [event.Store.Commit] for a store with inline
// projections. After a conflict about a row that a projection had read, build is called again with
// an empty batch, up to [InlineOptions.Retries] times, and with it the handlers. So build must have
// no other effects that cannot be repeated.
//
// A conflict with an event that no query of FailIf selects is tried again with the same batch, as
// by [event.Store.Commit]. A conflict with an expected version, or with an event that a query
// selects, is returned, because build may have decided on that state. While the outcome of a try is
// unknown the same batch is committed again, until the outcome is known or ctx ends. An error of
// build or of a handler is returned, and nothing is written.
func (s *InlineStore) Commit(ctx context.Context, build func(ctx context.Context, b *mainstem.Batch) error) (mainstem.Receipt, error) {
	for try := 1; ; try++ {
		r, final, err := s.commitOnce(ctx, build)
		if err == nil || final || !s.againBatch(ctx, err, try) {
			return r, err
		}
	}
}

// commitOnce is one try. final is true if the error is one of build itself.
func (s *InlineStore) commitOnce(ctx context.Context, build func(ctx context.Context, b *mainstem.Batch) error) (r mainstem.Receipt, final bool, err error) {
	b := mainstem.NewBatch()
	b.Durability = s.store.Durability()
	err = build(ctx, b)
	switch {
	case err == nil:
		r, err = s.store.Commit(ctx, b)
		return r, false, err
	case b.Err() == nil: // not an error of an append, which would fail b too
		return r, true, err
	}
	return r, false, err
}

// againBatch reports whether a batch that failed with err may succeed if it is built again. It
// pauses before it returns true.
func (s *InlineStore) againBatch(ctx context.Context, err error, try int) bool {
	var conflict *event.ConflictError
	var sealed *event.SealedError
	var condition *event.ConditionError
	if errors.As(err, &conflict) || errors.As(err, &sealed) || errors.As(err, &condition) {
		return false
	}
	return s.Again(ctx, "", err, try)
}

// Decide is [event.Store.Decide] with the writes of the projections in the same commit. It reads
// the events that q selects, calls decide with them, and appends the events that decide returns, on
// condition that no event that q selects was appended meanwhile. If one was, or if a row that a
// projection had read was changed, it reads and decides again, up to [InlineOptions.Retries] times.
// The store must have an index.
func (s *InlineStore) Decide(ctx context.Context, q event.Query, decide func([]event.Recorded) ([]event.Append, error)) (mainstem.Receipt, error) {
	for try := 1; ; try++ {
		r, final, err := s.decideOnce(ctx, q, decide)
		var condition *event.ConditionError
		switch {
		case err == nil || final:
			return r, err
		case errors.As(err, &condition) && (condition.Found == 0 || try > s.opts.Retries || !afterInlineConflict.Wait(ctx, try)):
			return r, err
		case condition == nil && !s.againBatch(ctx, err, try):
			return r, err
		}
	}
}

// decideOnce is one try. final is true if the error is one of a read or of decide.
func (s *InlineStore) decideOnce(ctx context.Context, q event.Query, decide func([]event.Recorded) ([]event.Append, error)) (r mainstem.Receipt, final bool, err error) {
	after, err := s.store.Log().Head(ctx)
	if err != nil {
		return r, true, err
	}
	var past []event.Recorded
	for ev, err := range s.store.Query(ctx, q, nil) {
		if err != nil {
			return r, true, err
		}
		past = append(past, ev.Clone())
		after = max(after, ev.Position)
	}
	appends, err := decide(past)
	if err != nil || len(appends) == 0 {
		return r, true, err
	}
	return s.commitOnce(ctx, func(ctx context.Context, b *mainstem.Batch) error {
		s.store.FailIf(b, q, after)
		for i := range appends {
			if err := s.AppendTo(ctx, b, appends[i].Stream, event.AnyVersion, appends[i].Events); err != nil {
				return err
			}
		}
		return nil
	})
}
