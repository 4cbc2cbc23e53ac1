package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wake"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// reloadAfter is the time between a failure to store or load a group and the next attempt.
const reloadAfter = time.Second

// maxSweepErrors is how many errors Sweep returns.
const maxSweepErrors = 10

// upkeep is the goroutine of the coordinator. It loads the groups that have members, at the start
// and after failures, because their sessions must end even if no request names the group. It calls
// Sweep every Options.SweepEvery.
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

// missing makes upkeep load the groups with members that are not in memory, after reloadAfter. It
// does not block.
func (c *Coordinator) missing() {
	wake.Signal(c.lost)
}

// restore loads the groups that have members. After a failure it calls missing, unless the group is
// damaged: another attempt would fail too, and requests to the group return the error.
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

// inhabited returns the names of the groups that have members in the log, in the order of their
// keys.
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

// Sweep removes from the log
//
//   - offsets that have expired by [Options.OffsetRetention],
//   - offsets of topics that were deleted,
//   - groups that have neither members nor offsets.
//
// Only groups with a stored header are swept: offsets that a program stored through package topic,
// without a Kafka client, stay. So do expired offsets that an open transaction may change. Sweep
// also drops groups without members from memory that were not used since the last sweep, those that
// it has loaded itself at once. After the error of a group it continues with the others, until ctx
// ends, and returns the first errors joined. It fails with Closed after Close. Several calls may run
// at once.
func (c *Coordinator) Sweep(ctx context.Context) error {
	if !c.enter() {
		return errClosed
	}
	defer c.wg.Done()
	defer c.forgetIdle()
	var names []string // collected first, because the loop below changes the records that are scanned
	for in, err := range c.storedGroups(ctx) {
		if err != nil {
			return err
		}
		names = append(names, in.Name)
	}
	var errs []error
	for _, name := range names {
		err := c.sweepGroup(ctx, name)
		if err != nil && len(errs) < maxSweepErrors {
			errs = append(errs, fmt.Errorf("group %.64q: %w", name, err))
		}
		if ctx.Err() != nil || errors.Is(err, mainstem.ErrClosed) {
			break
		}
	}
	return errors.Join(errs...)
}

// sweepGroup sweeps one group: its offsets, and the group itself if it has none left and no
// members.
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
	defer func() {
		g.dropIdle() // else a sweep of many groups would fill the memory
		g.letGo()
	}()
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
	if err := g.seal(); err != nil {
		return err
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

// expiry returns a function that reports whether an offset of the group has to be kept. An offset
// that is older than the retention is kept while the group has members and is subscribed to the
// topic, is rebalancing, or its subscriptions are not known; and in an empty group for the
// retention after the last member was lost.
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

// forget removes stored offsets in steps. A step in which an offset was stored again meanwhile
// removes nothing.
func (c *Coordinator) forget(ctx context.Context, stale []partition.StoredOffset) error {
	for part := range slices.Chunk(stale, eraseStep) {
		b := mainstem.NewBatch()
		for i := range part {
			part[i].ForgetUnchangedTo(b)
		}
		_, err := c.log.Commit(ctx, b)
		if errors.Is(err, mainstem.ErrConflict) {
			continue // the next sweep tries again
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// forgetIdle drops groups from memory that have no members and were not used since the last call.
func (c *Coordinator) forgetIdle() {
	for _, g := range c.all() {
		g.mu.Lock()
		g.dropIdle()
		g.used = false
		g.mu.Unlock()
	}
}

// dropIdle drops the group, which is locked, from memory if it has no members and was not used since
// the last sweep.
func (g *group) dropIdle() {
	if g.loaded && !g.gone && !g.used && len(g.members)+len(g.pending) == 0 {
		g.discard()
	}
}
