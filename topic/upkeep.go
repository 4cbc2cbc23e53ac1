package topic

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
)

// upkeepLoop runs Upkeep at intervals until the catalog is closed.
func (c *Catalog) upkeepLoop() {
	tick := time.NewTicker(c.o.Every)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
		}
		if err := c.Upkeep(c.ctx); err != nil && c.ctx.Err() == nil {
			c.o.Logger.Warn("upkeep of topics", "error", err)
		}
	}
}

// Upkeep runs the work of the background at once. It removes the index of deleted topics. Then, for
// each partition of each topic, it stores the index, finishes a removal that was interrupted,
// applies retention if cleanup.policy contains delete, and compacts the partition if the policy
// contains compact and the partition is due. It goes on after the error of a partition, and returns
// all errors, joined.
func (c *Catalog) Upkeep(ctx context.Context) error {
	var errs []error
	if err := c.sweep(ctx); err != nil {
		errs = append(errs, err)
	}
	for t, err := range c.survey(ctx) {
		if err == nil {
			err = t.upkeep(ctx, t.last)
		}
		if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// upkeep maintains the partitions of one topic. last is the position of the newest record of its
// space.
func (t *Topic) upkeep(ctx context.Context, last mainstem.Position) error {
	grown := uint64(last) != t.upkept.Load()
	var errs []error
	for _, p := range t.now().parts {
		if err := p.upkeep(ctx, grown); err != nil {
			errs = append(errs, fmt.Errorf("topic %s, partition %d: %w", t.name, p.num, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	if len(errs) == 0 {
		t.upkept.Store(uint64(last))
	}
	return errors.Join(errs...)
}

// upkeep maintains one partition. grown is false if the topic has no new record.
func (p *partitionState) upkeep(ctx context.Context, grown bool) error {
	s, now := &p.t.now().settings, p.t.c.o.Now().UnixMilli()
	if grown {
		if err := retry(func() error { return p.catchUp(ctx, math.MaxInt64) }); err != nil {
			return err
		}
	}
	if err := p.setStart(ctx, 0, mainstem.OS); err != nil { // finishes a removal that was interrupted
		return err
	}
	if s.delete {
		if err := p.retain(ctx, s, now); err != nil {
			return err
		}
	}
	if s.Compact {
		err := p.compact(ctx, s, now, false)
		if !errors.Is(err, mainstem.ErrConflict) { // else another process compacts the partition
			return err
		}
	}
	return nil
}

// sweep removes the index of topics that do not exist any more: the process ended, or the log
// failed, between the deletion of the topic and that of its index. It does so once for each
// catalog, and again after a Delete that may have left an index.
func (c *Catalog) sweep(ctx context.Context) error {
	if c.setSwept(true) {
		return nil
	}
	err := c.sweepIndex(ctx)
	if err != nil {
		c.setSwept(false)
	}
	return err
}

// setSwept sets whether the index of deleted topics was removed, and returns the value before. It
// is set before the work, so that a Delete that fails meanwhile is not missed.
func (c *Catalog) setSwept(swept bool) (before bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, c.mu.swept = c.mu.swept, swept
	return before
}

// sweepIndex is the work of sweep.
func (c *Catalog) sweepIndex(ctx context.Context) error {
	indexed, err := c.indexedIDs(ctx)
	if err != nil {
		return err
	}
	// Topics are listed after the index was read, so a topic that is created meanwhile is not in
	// indexed. An ID is never used again.
	alive := map[ID]bool{}
	if len(indexed) > 0 {
		for t, err := range c.All(ctx) {
			if err != nil {
				return err
			}
			alive[t.id] = true
		}
	}
	for _, id := range indexed {
		if !alive[id] {
			if err := c.dropIndex(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// indexedIDs returns the IDs of topics that occur in the index space, with one scan of one record
// each.
func (c *Catalog) indexedIDs(ctx context.Context) ([]ID, error) {
	var ids []ID
	for from := []byte(nil); ; {
		found := false
		for rec, err := range c.log.Scan(ctx, IndexSpace, mainstem.Range{Start: from, KeysOnly: true, Limit: 1}) {
			if errors.Is(err, mainstem.ErrNotFound) {
				return ids, nil
			}
			if err != nil {
				return nil, err
			}
			if len(rec.Key) < len(ID{}) {
				return nil, corruptIndex(slices.Clone(rec.Key), errors.New("the key is shorter than a topic's ID"))
			}
			id := ID(rec.Key[:len(ID{})])
			ids = append(ids, id)
			from = append(id[:], maxSuffix...)
			found = true
		}
		if !found {
			return ids, nil
		}
	}
}

// maxSuffix is above everything that follows an ID in a key of the index space: partitions are not
// negative, so their first byte is at most 7f.
var maxSuffix = []byte{0xff}

// dropStep is how many records of the index one commit removes.
const dropStep = 1000

// dropIndex removes all records of a deleted topic from the index space.
func (c *Catalog) dropIndex(ctx context.Context, id ID) error {
	for {
		b := mainstem.NewBatch()
		b.Durability = mainstem.OS
		for rec, err := range c.log.Scan(ctx, IndexSpace, mainstem.Range{Prefix: id[:], KeysOnly: true, Limit: dropStep}) {
			if errors.Is(err, mainstem.ErrNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			b.Add(mainstem.Write{Op: mainstem.OpForget, Space: IndexSpace, Key: slices.Clone(rec.Key)})
		}
		if b.Len() == 0 {
			return nil
		}
		if _, err := c.log.Commit(ctx, b); err != nil {
			return err
		}
	}
}
