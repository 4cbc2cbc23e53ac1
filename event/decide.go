package event

import (
	"context"
	"errors"

	"github.com/mainstemdev/mainstem"
)

// Append lists the events that a decision adds to one stream.
type Append struct {
	Stream string
	Events []Event
}

// Decide reads the events that q selects, calls decide with them, and appends the events that it
// returns to the streams that it names, in one commit, on condition that no event that q selects
// was appended meanwhile. If one was, Decide reads and calls decide again, at most
// [Options.Retries] times, with pauses; so decide must have no side effects that cannot be
// repeated. The events belong to decide.
//
// If decide returns no appends, nothing is written. An error of decide is returned as it is. When
// all attempts have failed the error is the [*ConditionError] of the last one. Unknown outcomes are
// resolved as in [Store.Commit].
//
// Last of the receipt is at or behind the last event, so it can be given to [Store.WaitFor].
//
// The store must have an index; see [Store.CreateIndex].
func (s *Store) Decide(ctx context.Context, q Query, decide func([]Recorded) ([]Append, error)) (mainstem.Receipt, error) {
	for try := 1; ; try++ {
		r, err := s.decideOnce(ctx, q, decide)
		var failed *ConditionError
		again := isStale(err) || errors.As(err, &failed) && failed.Found > 0
		if !again || try > s.opts.Retries || !afterQuery.Wait(ctx, try) {
			return r, err
		}
	}
}

func (s *Store) decideOnce(ctx context.Context, q Query, decide func([]Recorded) ([]Append, error)) (mainstem.Receipt, error) {
	head, err := s.log.Head(ctx)
	if err != nil {
		return mainstem.Receipt{}, err
	}
	var events []Recorded
	err = s.query(ctx, q, QueryOptions{}, head, func(ev Recorded) bool {
		events = append(events, ev.Clone())
		return true
	})
	if err != nil {
		return mainstem.Receipt{}, err
	}
	appends, err := decide(events)
	if err != nil || len(appends) == 0 {
		return mainstem.Receipt{}, err
	}
	b := mainstem.NewBatch()
	b.Durability = s.opts.Durability
	s.FailIf(b, q, head)
	for i := range appends {
		s.AppendTo(b, appends[i].Stream, AnyVersion, appends[i].Events)
	}
	return s.Commit(ctx, b)
}
