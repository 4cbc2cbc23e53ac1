package projection

import (
	"context"
	"errors"
	"iter"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// This file keeps the parked events of a projection correct when its subscriptions change: they are
// the events that the tables that are read lack.
//
// A rebuild handles the events after From again, so what was parked after From is dropped before
// the rows of the rebuild are read. Events that the rebuild itself has parked, at NAME@vn, are moved
// to the subscriptions of NAME, as are those of partitions that are no more. All this is part of the
// commit that ends the change. If there are too many for one commit, some are dropped or moved
// before, while no subscription of the projection runs:
//
//	drop   conditional on the control row or the lease; repeated after a crash
//	Moving is set in the control row, so that moved events are not dropped after a crash
//	move   each event in one commit; repeated after a crash
//
// An event that somebody else has handled meanwhile (RetryParked) is a conflict, after which the
// parked events are read again.

// parkedOf yields the parked events of sets of subscriptions: NAME or NAME@vn, and their partitions.
func parkedOf(ctx context.Context, store *event.Store, sets ...string) iter.Seq2[event.Parked, error] {
	return func(yield func(event.Parked, error) bool) {
		for _, set := range sets {
			for _, parked := range []iter.Seq2[event.Parked, error]{store.Parked(ctx, set), store.ParkedUnder(ctx, set+"#")} {
				for p, err := range parked {
					if !yield(p, err) || err != nil {
						return
					}
				}
			}
		}
	}
}

// readSets returns the sets that may have parked events that the tables of the version build lack.
// Earlier releases left the events that a rebuild had parked at NAME@vBUILD.
func readSets(name string, build int) []string {
	if build == 0 {
		return []string{name}
	}
	return []string{name, setName(name, build)}
}

// maxRepark is the number of writes after which reparkTo calls flush. Tests change it.
var maxRepark = 500

// reparkTo adds to b what the change that c describes does to the parked events of a projection. It
// calls flush when b has many writes: flush commits and empties b, and sets control.Moving first if
// moving is true.
func (e *Engine) reparkTo(ctx context.Context, b *mainstem.Batch, name string, c *control, flush func(moving bool) error) error {
	names := subscriptions(name, 0, c.then())
	repark := func(sets []string, built bool) error {
		drop := !built && !c.Moving && (c.Rebuilding || c.Next > 0)
		for p, err := range parkedOf(ctx, e.store, sets...) {
			to := names[event.PartitionOf(p.Stream, len(names))]
			switch {
			case err != nil:
				return err
			case drop && p.Position > c.From:
				e.store.UnparkTo(b, p)
			case p.Subscription != to:
				e.store.UnparkTo(b, p)
				p.Subscription = to
				e.store.ParkTo(b, p)
			}
			if b.Len() >= maxRepark {
				if err := flush(built); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := repark(readSets(name, c.Build), false); err != nil || c.Next == 0 {
		return err
	}
	return repark([]string{setName(name, c.Next)}, true)
}

// flush commits and empties b, on condition that the row is the one of the generation. With moving
// it sets Moving, if that is not set; then it returns errChanged, because the next generation
// continues.
func (g *generation) flush(ctx context.Context, b *mainstem.Batch, moving bool) error {
	if moving && !g.ctl.Moving {
		if err := g.commit(ctx, b, func(c *control) { c.Moving = true }); err != nil {
			return err
		}
		return errChanged
	}
	g.expect(b)
	_, err := g.u.e.store.Log().Commit(ctx, b)
	if errors.Is(err, mainstem.ErrConflict) {
		if _, rerr := g.recheck(ctx); rerr != nil {
			return rerr
		}
	}
	b.Reset()
	return err
}

// dropLacking removes the parked events that the tables of the version build lack, while no
// subscription of the projection runs.
func dropLacking(ctx context.Context, store *event.Store, name string, build int) error {
	for _, set := range readSets(name, build) {
		for n := 1; ; n++ {
			err := dropParked(ctx, store, set)
			if err == nil {
				break
			}
			if !errors.Is(err, mainstem.ErrConflict) || !again.Wait(ctx, n) { // somebody else has handled one meanwhile
				return err
			}
		}
	}
	return nil
}

// dropParked removes the parked events of a version of tables that is no longer read.
func dropParked(ctx context.Context, store *event.Store, set string) error {
	b := mainstem.NewBatch()
	commit := func() error {
		_, err := store.Log().Commit(ctx, b)
		b.Reset()
		return err
	}
	for p, err := range parkedOf(ctx, store, set) {
		if err != nil {
			return err
		}
		store.UnparkTo(b, p)
		if b.Len() >= maxRepark {
			if err := commit(); err != nil {
				return err
			}
		}
	}
	if b.Len() == 0 {
		return nil
	}
	return commit()
}
