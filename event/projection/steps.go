package projection

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/lease"
)

// step makes the step that the control row asks for. It returns nil if it has made it, or if there
// is none that this engine can make: a rebuild takes an engine with the right version of the
// handlers. All engines try; the first commit succeeds and changes the row. After a crash another
// engine, or the next that starts, makes the step.
//
//	Rebuilding              remove the rows, set the checkpoints to From
//	Frozen                  align: find Upto; finish if it is 0
//	Aligning                wait until Upto is handled, then finish
//	Next, no NextVersion    choose the version of this engine's handlers
//	Next, To set            wait until To is handled, then finish
//	Next                    wait until the new tables have nearly caught up, then freeze
func (g *generation) step(ctx context.Context) error {
	ctl := &g.ctl
	mine := ctl.NextVersion == g.u.p.version // the rebuild is for the handlers of this engine
	switch {
	case ctl.Rebuilding && (mine || ctl.NextVersion == 0 && g.u.p.version >= ctl.Version):
		return g.u.rebuildInPlace(ctx)
	case ctl.Frozen:
		return g.align(ctx)
	case ctl.Aligning && (ctl.Next == 0 || mine):
		return g.finishAligned(ctx)
	case ctl.Next > 0 && ctl.NextVersion == 0 && g.u.p.version >= ctl.Version:
		return g.commit(ctx, mainstem.NewBatch(), func(c *control) {
			c.NextVersion = g.u.p.version
			g.u.p.describe(c)
		})
	case ctl.Next > 0 && mine && ctl.To > 0:
		return g.finishBuilt(ctx)
	case ctl.Next > 0 && mine:
		return g.freeze(ctx)
	}
	return nil
}

// freeze sets Frozen when the new tables have nearly caught up with the present ones, so that
// little is left for Aligning.
func (g *generation) freeze(ctx context.Context) error {
	for range 2 { // many events may be appended during the first wait, which may take hours
		_, live, err := g.greatest(ctx, 0)
		if err != nil {
			return err
		}
		if err := g.await(ctx, g.ctl.Next, live); err != nil {
			return err
		}
	}
	return g.commit(ctx, mainstem.NewBatch(), func(c *control) { c.Frozen = true })
}

// await waits until all subscriptions that build a version, or that write the tables that are read
// if build is 0, have handled the events up to p.
func (g *generation) await(ctx context.Context, build int, p mainstem.Position) error {
	for _, name := range subscriptions(g.u.p.name, build, g.ctl.partitions()) {
		if err := g.u.e.store.WaitFor(ctx, name, p); err != nil {
			return err
		}
	}
	return nil
}

// greatest returns the greatest checkpoint of the subscriptions that build a version, or that write
// the tables that are read if build is 0. Those without a checkpoint count as at the beginning, and
// are returned too.
func (g *generation) greatest(ctx context.Context, build int) (missing []string, p mainstem.Position, err error) {
	for _, name := range subscriptions(g.u.p.name, build, g.ctl.partitions()) {
		cp, err := g.u.e.store.Checkpoint(ctx, name)
		switch {
		case errors.Is(err, mainstem.ErrNotFound):
			if cp.Position, err = g.u.beginning(ctx); err != nil {
				return nil, 0, err
			}
			missing = append(missing, name)
		case err != nil:
			return nil, 0, err
		}
		p = max(p, cp.Position)
	}
	return missing, p, nil
}

// align sets Aligning, up to the greatest checkpoint. No checkpoint moves while the row is Frozen,
// since commits depend on the row; so no partition is beyond that position. It also writes the
// checkpoints that are missing. If the position is 0 it finishes the change at once, because a set
// that ends at 0 would have no end.
func (g *generation) align(ctx context.Context) error {
	// The target is fenced before the checkpoints are read, because it may be ahead of them.
	handled, err := g.fence(ctx)
	if err != nil {
		return err
	}
	missing, upto, err := g.greatest(ctx, 0)
	if err != nil {
		return err
	}
	upto = max(upto, handled)
	b := mainstem.NewBatch()
	for _, name := range missing {
		at, err := g.u.beginning(ctx)
		if err != nil {
			return err
		}
		g.u.e.store.SetCheckpointTo(b, name, at)
	}
	if g.ctl.Next > 0 {
		_, built, err := g.greatest(ctx, g.ctl.Next)
		if err != nil {
			return err
		}
		upto = max(upto, built)
	}
	if upto == 0 { // no partition has handled anything, and none can while the row is Frozen
		if g.ctl.Next > 0 && g.ctl.NextVersion != g.u.p.version {
			return nil // an engine with the new tables finishes
		}
		return g.finish(ctx, 0)
	}
	return g.commit(ctx, b, func(c *control) { c.Frozen, c.Aligning, c.Upto = false, true, upto })
}

// finishAligned waits until everything up to Upto is handled and finishes the change.
func (g *generation) finishAligned(ctx context.Context) error {
	if err := g.await(ctx, g.ctl.Next, g.ctl.Upto); err != nil {
		return err
	}
	return g.finish(ctx, g.ctl.Upto)
}

// finishBuilt waits until the new tables have everything up to To and finishes the rebuild, after
// which the projection is paused.
func (g *generation) finishBuilt(ctx context.Context) error {
	if err := g.await(ctx, g.ctl.Next, g.ctl.To); err != nil {
		return err
	}
	if !g.ctl.Paused { // so that nothing is parked while the parked events are read
		return g.commit(ctx, mainstem.NewBatch(), func(c *control) { c.Paused = true })
	}
	return g.finish(ctx, g.ctl.To)
}

// finish makes the last step of a change in one commit: as many checkpoints as requested, all at
// one position, the parked events are at their subscriptions, and the aliases point to the new
// tables, if there are any.
func (g *generation) finish(ctx context.Context, at mainstem.Position) error {
	b := mainstem.NewBatch()
	e, ctl, name := g.u.e, &g.ctl, g.u.p.name
	err := e.reparkTo(ctx, b, name, ctl, func(moving bool) error { return g.flush(ctx, b, moving) })
	if errors.Is(err, errChanged) {
		return nil // the next generation continues
	}
	if err != nil {
		return err
	}
	e.replaceCheckpoints(b, name, ctl, at)
	if ctl.Next > 0 {
		for _, t := range g.u.p.tables {
			t.PointTo(b, ctl.Next)
		}
		e.controls.leaveTo(b, name, ctl.Tables, ctl.Build, ctl.Keep)
	}
	return g.commit(ctx, b, func(c *control) {
		c.replaced()
		if c.Next > 0 {
			c.Build, c.Version, c.Stale, c.Paused = c.Next, c.NextVersion, false, c.Paused || c.To > 0
			c.abandon()
		}
	})
}

// replaceCheckpoints adds to b the checkpoints that a projection has after a change, all at one
// position, and the removal of the others.
func (e *Engine) replaceCheckpoints(b *mainstem.Batch, name string, ctl *control, at mainstem.Position) {
	next := subscriptions(name, 0, ctl.then())
	gone := subscriptions(name, 0, ctl.partitions())
	if ctl.Next > 0 {
		gone = append(gone, subscriptions(name, ctl.Next, ctl.partitions())...)
	}
	for _, s := range gone {
		if !slices.Contains(next, s) {
			e.store.DeleteCheckpointTo(b, s)
		}
	}
	for _, s := range next {
		e.store.SetCheckpointTo(b, s, at)
	}
}

// replaced records in the row that the checkpoints were replaced, which ends the change of
// partitions.
func (c *control) replaced() {
	c.Partitions, c.Resize, c.Aligning, c.Frozen, c.Upto = c.then(), 0, false, false, 0
	c.Epoch++
}

// abandon records in the row that no tables are being built.
func (c *control) abandon() {
	c.Next, c.NextVersion, c.From, c.To, c.Keep, c.Moving = 0, 0, 0, 0, 0, false
}

// rebuildInPlace removes the rows of the projection and moves its checkpoints back, if the row is
// still Rebuilding when it is this engine's turn. Only one engine at a time may do that, since it
// would remove what is written afterwards; a lease ensures that. If the lease is lost before the
// last commit, rebuildInPlace begins again with another one.
func (u *unit) rebuildInPlace(ctx context.Context) error {
	k, err := u.e.keeper(ctx)
	if err != nil {
		return err
	}
	for {
		if _, err := k.Session(ctx); err != nil {
			return err
		}
		changed := k.Changed()
		l, err := k.Acquire(ctx, clearKey(u.p.name), "")
		switch {
		case err == nil:
			err = u.clear(ctx, l)
			lost := !l.Valid()
			release(ctx, l)
			if err == nil || !lost && !errors.Is(err, errChanged) || ctx.Err() != nil {
				return err
			}
			u.e.opts.Logger.Warn("a rebuild in place begins again", "store", u.e.store.Name(), "projection", u.p.name, "error", err)
		case errors.Is(err, lease.ErrHeld):
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err()
			}
		case !errors.Is(err, lease.ErrLost):
			return err
		}
		if ctl, _, _, err := u.e.controls.get(ctx, u.p.name); err != nil || !ctl.Rebuilding {
			return err // another has done it
		}
	}
}

// clear removes the rows and commits the end of the rebuild, while the engine holds the lease l. It
// ends with an error when the lease is lost, because the last commit could not succeed any more.
func (u *unit) clear(ctx context.Context, l *lease.Lease) error {
	clearing, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-l.Done():
			cancel()
		case <-clearing.Done():
		}
	}()
	ctl, _, _, err := u.e.controls.get(ctx, u.p.name)
	if err != nil || !ctl.Rebuilding {
		return err
	}
	// The parked events are dropped first, so that what RetryParked does with them is removed too.
	if err := u.changeClearing(clearing, l, nil); err != nil {
		return err
	}
	if err := u.reset(clearing); err != nil {
		return fmt.Errorf("rebuild projection %s: its target: %w", u.p.name, err)
	}
	if err := u.p.clearAll(clearing, ctl.Build); err != nil {
		return fmt.Errorf("rebuild projection %s: remove what it has written: %w", u.p.name, err)
	}
	return u.changeClearing(clearing, l, func(c *control, b *mainstem.Batch) {
		u.e.replaceCheckpoints(b, u.p.name, c, c.From)
		c.replaced()
		c.Rebuilding, c.Stale, c.Version = false, false, u.p.version
		c.abandon()
	})
}

// changeClearing drops the parked events that the rebuild in place handles again and makes a change,
// which may be nil, in one commit that is conditional on the lease l. It does nothing if the rebuild
// has ended.
func (u *unit) changeClearing(ctx context.Context, l *lease.Lease, change func(c *control, b *mainstem.Batch)) error {
	log := u.e.store.Log()
	_, err := u.e.controls.changeWith(ctx, log, u.p.name, func(c *control, b *mainstem.Batch) error {
		if !c.Rebuilding {
			return nil
		}
		err := u.e.reparkTo(ctx, b, u.p.name, c, func(bool) error {
			l.Fence(b)
			_, err := log.Commit(ctx, b)
			b.Reset()
			if errors.Is(err, mainstem.ErrConflict) {
				err = errChanged
			}
			return err
		})
		if err != nil {
			return err
		}
		l.Fence(b)
		if change != nil {
			change(c, b)
		}
		return nil
	})
	return err
}
