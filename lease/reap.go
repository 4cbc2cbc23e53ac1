package lease

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// reap removes, until Close, members that are silent for longer than their TTL, strays of this
// node's session, and leases without an owner. All keepers do so. The deletions have revisions as
// conditions, so only one of them succeeds. It runs when the view changes, when an Acquire has
// failed, and when the next member is due.
func (k *Keeper) reap() {
	waiting := make(map[Held]time.Time) // leases without an owner, and when each was first seen
	for {
		changed := k.view.next()
		over, orphans, again := k.view.silent(k.self.Name, time.Now())
		for _, m := range over {
			if err := k.evict(m); err != nil && k.ctx.Err() == nil {
				k.logger.Warn("cannot remove a silent member", "member", m.name, "error", err)
				again = min(again, k.ttl/5)
			}
		}
		if len(over) > 0 {
			again = min(again, k.ttl/5) // the view does not have the removals yet
		}
		if !k.dropStrays() {
			again = min(again, k.ttl/5)
		}
		if len(orphans) > 0 {
			waiting = k.sweep(orphans, waiting)
			again = min(again, k.ttl/2+rand.N(k.ttl/2))
		}
		t := time.NewTimer(max(again, time.Millisecond))
		select {
		case <-changed:
		case <-k.doubt:
		case <-t.C:
		case <-k.ctx.Done():
			t.Stop()
			return
		}
		t.Stop()
	}
}

// evict removes a member, unless it has renewed its session or joined again since m was read from
// the view.
func (k *Keeper) evict(m suspect) error {
	b := mainstem.NewBatch()
	k.bucket.DeleteTo(b, memberPrefix+m.name, kv.IfRevision(m.epoch))
	k.bucket.DeleteTo(b, beatPrefix+m.name, kv.IfRevision(m.beat))
	ctx, cancel := context.WithTimeout(k.ctx, k.ttl)
	defer cancel()
	_, err := k.log.Commit(ctx, b)
	if errors.Is(err, mainstem.ErrConflict) {
		return nil
	}
	if err == nil {
		k.logger.Warn("a member was silent for its whole time and is removed", "member", m.name, "epoch", m.epoch)
	}
	return err
}

// dropStrays deletes the strays of this node's session: leases that it took without learning of it,
// because the answer to an Acquire was lost or came after its caller had given up. It reports
// whether it has left none.
//
// The log may carry out such a commit long after it was sent, so a check when Acquire fails is not
// enough: this runs whenever the view changes. A lease of a key that is owned or being acquired is
// not a stray. An Acquire that begins after that check may replace the entry; then the revision is
// another, and the deletion fails.
func (k *Keeper) dropStrays() bool {
	s := k.session()
	if s == nil || s.Over() {
		return true
	}
	for _, h := range k.view.ofSession(k.self.Name, s.epoch) {
		if s.accounts(h) {
			continue
		}
		ctx, cancel := context.WithTimeout(k.ctx, k.ttl/5)
		err := k.bucket.Delete(ctx, leasePrefix+h.Key, kv.IfRevision(kv.Revision(h.Epoch)))
		cancel()
		if err != nil && !errors.Is(err, mainstem.ErrConflict) {
			if k.ctx.Err() == nil {
				k.logger.Warn("cannot remove a lease whose Acquire has failed", "lease", h.Key, "error", err)
			}
			return false // the other deletions would fail, too, each after its timeout
		}
	}
	return true
}

// sweep deletes leases without an owner that nobody has acquired for half a TTL. It returns those
// that are there, each with the time at which it was first seen.
func (k *Keeper) sweep(orphans []Held, before map[Held]time.Time) map[Held]time.Time {
	left := make(map[Held]time.Time)
	for _, h := range orphans {
		since, ok := before[h]
		if !ok {
			since = time.Now()
		}
		left[h] = since
		if time.Since(since) < k.ttl/2 {
			continue
		}
		ctx, cancel := context.WithTimeout(k.ctx, k.ttl)
		err := k.bucket.Delete(ctx, leasePrefix+h.Key, kv.IfRevision(kv.Revision(h.Epoch)))
		cancel()
		if err != nil && !errors.Is(err, mainstem.ErrConflict) && k.ctx.Err() == nil {
			k.logger.Warn("cannot remove the lease of a member that is gone", "lease", h.Key, "error", err)
		}
	}
	return left
}
