package lease

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// reap removes members that are silent for too long, until Close. Every keeper does,
// and the first one counts.
func (k *Keeper) reap() {
	waiting := make(map[Held]time.Time) // orphans, and since when they were seen
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
			again = min(again, k.ttl/5) // until the view shows what was done
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

// evict removes a member, unless it has been heard of since: a renewal that this
// keeper has not seen yet makes it fail with Conflict, which is no error.
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

// dropStrays deletes the leases that this node's session took without learning of it: the
// answer to an Acquire was lost, or came after its caller had given up. It reports whether
// none is left.
//
// The log may carry out such a commit long after it was sent, so it is not enough to look
// when Acquire fails: what the view shows decides, whenever it comes. A key that is being
// acquired, or is held, is left alone; if that began after this has looked, the revision has
// changed or the next attempt of Acquire finds the key free.
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
			return false // the others would fail too, each after a while
		}
	}
	return true
}

// sweep deletes leases whose owners are gone and that nobody has taken for half a
// TTL. It returns those that are left, with since when they were seen.
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
