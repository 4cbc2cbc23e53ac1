package projection

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/lease"
)

// step makes the step that the control row asks for, or returns nil if there is none to make here. Every engine
// makes steps; the first commit wins, and what a crash leaves is gone on with by the next.
func (g *generation) step(ctx context.Context) error {
	ctl := &g.ctl
	mine := ctl.NextVersion == g.u.p.version // the rebuild is one with these handlers
	switch {
	case ctl.Rebuilding && (mine || ctl.NextVersion == 0 && g.u.p.version >= ctl.Version):
		return g.u.rebuildInPlace(ctx)
	case ctl.Frozen:
		return g.align(ctx)
	case ctl.Aligning && (ctl.Next == 0 || mine):
		return g.finishAligned(ctx)
	case ctl.Next > 0 && ctl.NextVersion == 0 && g.u.p.version >= ctl.Version:
		return g.commit(ctx, mainstem.NewBatch(), func(c *control) { c.NextVersion = g.u.p.version })
	case ctl.Next > 0 && mine && ctl.To > 0:
		return g.finishBuilt(ctx)
	case ctl.Next > 0 && mine:
		return g.freeze(ctx)
	}
	return nil
}

// freeze stops everything when the tables that are being built show nearly what the others do, so that what
// is left is little.
func (g *generation) freeze(ctx context.Context) error {
	for range 2 { // the first wait may take hours, in which much comes
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

// await waits until all subscriptions of a set have handled what they select up to p.
func (g *generation) await(ctx context.Context, build int, p mainstem.Position) error {
	for _, name := range subscriptions(g.u.p.name, build, g.ctl.partitions()) {
		if err := g.u.e.store.WaitFor(ctx, name, p); err != nil {
			return err
		}
	}
	return nil
}

// greatest returns the greatest checkpoint of a set, and the names of those subscriptions that have none.
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

// align lets everything go on up to the greatest checkpoint. Since nothing has moved while the row said
// Frozen, no partition is beyond it.
func (g *generation) align(ctx context.Context) error {
	handled, err := g.fence(ctx) // before the checkpoints are read: a target may be ahead of them
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
	return g.commit(ctx, b, func(c *control) { c.Frozen, c.Aligning, c.Upto = false, true, upto })
}

// finishAligned ends an alignment: with the new number of partitions, and the new tables.
func (g *generation) finishAligned(ctx context.Context) error {
	if err := g.await(ctx, g.ctl.Next, g.ctl.Upto); err != nil {
		return err
	}
	return g.finish(ctx, g.ctl.Upto)
}

// finishBuilt ends a rebuild up to a position: the tables show what was there then, and the projection is paused.
func (g *generation) finishBuilt(ctx context.Context) error {
	if err := g.await(ctx, g.ctl.Next, g.ctl.To); err != nil {
		return err
	}
	return g.finish(ctx, g.ctl.To)
}

// finish replaces the checkpoints by as many as are asked for, all at one position, and the tables by those that
// were built, in one commit.
func (g *generation) finish(ctx context.Context, at mainstem.Position) error {
	b := mainstem.NewBatch()
	e, ctl, name := g.u.e, &g.ctl, g.u.p.name
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
			c.Build, c.Version, c.Paused = c.Next, c.NextVersion, c.Paused || c.To > 0
			c.abandon()
		}
	})
}

// replaceCheckpoints makes the checkpoints of a projection those that it will have after a change, at one position.
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

// replaced notes in the row that the checkpoints were replaced.
func (c *control) replaced() {
	c.Partitions, c.Resize, c.Aligning, c.Frozen, c.Upto = c.then(), 0, false, false, 0
	c.Epoch++
}

// abandon notes that no tables are being built.
func (c *control) abandon() { c.Next, c.NextVersion, c.From, c.To, c.Keep = 0, 0, 0, 0, 0 }

// rebuildInPlace removes what the projection has written, and lets it handle all events again. Only one
// engine at a time does that: what it removes must not be what is written after.
func (u *unit) rebuildInPlace(ctx context.Context) error {
	k, err := u.e.keeper(ctx)
	if err != nil {
		return err
	}
	for {
		changed := k.Changed()
		l, err := k.Acquire(ctx, clearKey(u.p.name), "")
		if err == nil {
			defer release(ctx, l)
			return u.clear(ctx, l)
		}
		if !errors.Is(err, lease.ErrHeld) {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
		if ctl, _, _, err := u.e.controls.get(ctx, u.p.name); err != nil || !ctl.Rebuilding {
			return err // another has done it
		}
	}
}

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
	if err := u.reset(clearing); err != nil {
		return fmt.Errorf("rebuild projection %s: its target: %w", u.p.name, err)
	}
	if err := u.p.clearAll(clearing, ctl.Build); err != nil {
		return fmt.Errorf("rebuild projection %s: remove what it has written: %w", u.p.name, err)
	}
	_, err = u.e.controls.changeWith(ctx, u.e.store.Log(), u.p.name, func(c *control, b *mainstem.Batch) error {
		if !c.Rebuilding {
			return nil
		}
		l.Fence(b)
		u.e.replaceCheckpoints(b, u.p.name, c, c.From)
		c.replaced()
		c.Rebuilding, c.Version = false, u.p.version
		c.abandon()
		return nil
	})
	return err
}
