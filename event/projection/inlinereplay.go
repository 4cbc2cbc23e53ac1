package projection

import (
	"context"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// The maximum number of events of one commit of InlineStore.Replay, and the size of their data from
// which on no more are added.
const (
	replayEvents = 100
	replayBytes  = 1 << 20
)

// Replay is [Engine.Replay] for an inline projection of this program, with these differences. It
// runs here, in the goroutine of the caller, and not in other programs. If it ends with an error, or
// the process ends, the other tables have a part of the rows: remove them, and call Replay again.
// [ReplayOptions.NoWait] is Invalid. An error of a handler is returned as it is.
func (s *InlineStore) Replay(ctx context.Context, name string, o *ReplayOptions) error {
	const op = "replay projection"
	p := s.projection(name)
	switch {
	case p == nil:
		return mainstem.Refusef(mainstem.KindNotFound, op, "%q is not an inline projection of this program", name)
	case o == nil:
		o = &ReplayOptions{}
	case o.NoWait:
		return mainstem.Refusef(mainstem.KindInvalid, op, "%s: NoWait: an inline projection is replayed by the caller", name)
	}
	until, err := replayUntil(ctx, s.store, o)
	if err != nil {
		return err
	}
	into, err := resolveInto(name, p.tableNames(), o.Into)
	if err == nil {
		err = checkEmpty(ctx, s.store.Log(), into)
	}
	if err != nil {
		return err
	}
	for done := mainstem.Position(0); done < until; {
		if done, err = s.replayAfter(ctx, p, into, done, until); err != nil {
			return err
		}
		if o.Progress != nil {
			o.Progress(uint64(done), uint64(until))
		}
	}
	return nil
}

// replayAfter handles the next events after a position in one commit, and returns the position up
// to which everything is handled.
func (s *InlineStore) replayAfter(ctx context.Context, p *Projection, into map[string]string, after, until mainstem.Position) (mainstem.Position, error) {
	var events []event.Recorded
	done, size := until, 0
	for r, err := range s.store.Feed(ctx, &event.FeedOptions{After: after, Filter: p.filter}) {
		if err != nil {
			return after, err
		}
		if r.Position > until {
			break
		}
		events = append(events, r.Clone())
		if size += len(r.Data); len(events) == replayEvents || size >= replayBytes {
			done = r.Position
			break
		}
	}
	b := mainstem.NewBatch()
	b.Durability = mainstem.OS
	tx := newTx(b).as(p, 0, true)
	tx.into = into
	if err := p.applyAll(ctx, tx, s.types, events); err != nil {
		return after, err
	}
	if err := tx.flushReplay(ctx, p.name); err != nil || b.Len() == 0 {
		return done, err
	}
	_, err := s.store.Log().Commit(ctx, b)
	return done, err
}
