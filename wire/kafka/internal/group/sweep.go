package group

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wake"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// reloadAfter is how long a group that could not be stored or loaded is left alone.
const reloadAfter = time.Second

// upkeep loads the groups that have members, whose sessions must end even if
// nobody asks for the group, and sweeps from time to time.
func (c *Coordinator) upkeep() {
	c.restore()
	close(c.restored)
	var sweep <-chan time.Time
	if c.o.SweepEvery > 0 {
		every := time.NewTicker(c.o.SweepEvery)
		defer every.Stop()
		sweep = every.C
	}
	var reload <-chan time.Time
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-c.lost:
			reload = time.After(reloadAfter)
		case <-reload:
			c.restore()
		case <-sweep:
			if err := c.Sweep(c.ctx); err != nil && c.ctx.Err() == nil {
				c.o.Logger.Warn("expiring offsets of groups", "error", err)
			}
		}
	}
}

// missing notes that a group with members may not be in memory.
func (c *Coordinator) missing() {
	wake.Signal(c.lost)
}

// restore loads the groups that have members. A group that cannot be read is tried again, unless it
// is damaged: then the group's next request says so.
func (c *Coordinator) restore() {
	names, err := c.inhabited()
	again := err != nil
	for _, name := range names {
		g, failed := c.acquire(c.ctx, name, false)
		if failed != nil {
			err, again = failed, again || !errors.Is(failed, mainstem.ErrCorrupt)
		} else if g != nil {
			g.letGo()
		}
	}
	if err != nil && c.ctx.Err() == nil {
		c.o.Logger.Warn("loading groups", "error", err)
	}
	if again {
		c.missing()
	}
}

// inhabited returns the groups that have members in the log.
func (c *Coordinator) inhabited() ([]string, error) {
	var names []string
	r := mainstem.Range{Prefix: []byte{memberKind}, KeysOnly: true}
	for rec, err := range c.log.Scan(c.ctx, partition.GroupSpace, r) {
		if errors.Is(err, mainstem.ErrNotFound) {
			break
		}
		if err != nil {
			return names, err
		}
		name, _, err := keyText(rec.Key[1:])
		if err != nil {
			return names, mainstem.Errorf(mainstem.KindCorrupt, "load group", "%w", err).At(partition.GroupSpace, slices.Clone(rec.Key))
		}
		if len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
	}
	return names, nil
}

// Sweep removes what has expired: offsets of groups that have been empty, and of
// topics that have not been subscribed to, for longer than [Options.OffsetRetention];
// offsets of topics that were deleted; groups that have neither members nor
// offsets. Offsets stored without any group of a client, through the topic
// package, stay. It also frees the memory of groups without members.
func (c *Coordinator) Sweep(ctx context.Context) error {
	if !c.enter() {
		return errClosed
	}
	defer c.wg.Done()
	var names []string // collected first: the loop below reads and writes
	for in, err := range c.storedGroups(ctx) {
		if err != nil {
			return err
		}
		names = append(names, in.Name)
	}
	for _, name := range names {
		if err := c.sweepGroup(ctx, name); err != nil {
			return err
		}
	}
	c.forgetIdle()
	return nil
}

// sweepGroup expires what there is of one group.
func (c *Coordinator) sweepGroup(ctx context.Context, name string) error {
	live, stale, err := c.storedOffsets(ctx, name)
	if err != nil {
		return err
	}
	live = slices.DeleteFunc(live, func(s partition.StoredOffset) bool { return c.pending(name, s.ID, s.Partition) })
	g, err := c.acquire(ctx, name, false)
	if g == nil || err != nil {
		return err
	}
	defer g.letGo()
	keep := g.expiry()
	for _, s := range live {
		if !keep(s) {
			stale = append(stale, s)
		}
	}
	if err := c.forget(ctx, stale); err != nil {
		return err
	}
	if len(g.members)+len(g.pending) > 0 {
		return nil
	}
	if left, err := c.hasOffsets(ctx, name); left || err != nil {
		return err
	}
	err = g.finalize(ctx)
	if errors.Is(err, mainstem.ErrConflict) {
		return nil
	}
	return err
}

// expiry returns which offsets of the group are to be kept.
func (g *group) expiry() func(partition.StoredOffset) bool {
	retention := g.c.o.OffsetRetention
	if retention < 0 {
		return func(partition.StoredOffset) bool { return true }
	}
	oldest := g.c.now().Add(-retention)
	young := func(s partition.StoredOffset) bool { return s.Time.After(oldest) }
	if len(g.members) == 0 {
		return func(s partition.StoredOffset) bool { return young(s) || g.since.After(oldest) }
	}
	topics, known := g.subscriptions()
	isStable := g.kind == consumer || g.state == stable
	return func(s partition.StoredOffset) bool { return young(s) || !known || !isStable || topics[s.Topic] }
}

// forget removes stored offsets, except those stored anew meanwhile.
func (c *Coordinator) forget(ctx context.Context, stale []partition.StoredOffset) error {
	for part := range slices.Chunk(stale, eraseStep) {
		b := mainstem.NewBatch()
		for i := range part {
			part[i].ForgetUnchangedTo(b)
		}
		_, err := c.log.Commit(ctx, b)
		if errors.Is(err, mainstem.ErrConflict) {
			continue // the next sweep finds the rest
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// forgetIdle drops groups without members, which are all in the log, from memory.
func (c *Coordinator) forgetIdle() {
	for _, g := range c.all() {
		g.mu.Lock()
		if idle := !g.used && len(g.members)+len(g.pending) == 0; idle && g.loaded && !g.gone {
			g.discard()
		}
		g.used = false
		g.mu.Unlock()
	}
}
