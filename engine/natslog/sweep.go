package natslog

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wallclock"
)

// sweepKeys is how many keys, or records, one request of a sweep works on, so that
// batches do not wait long for it.
const sweepKeys = 500

// sweeps is the goroutine that does the background work.
func (l *Log) sweeps() {
	defer l.running.Done()
	every, work := l.opts.SweepEvery, l.Sweep
	if every < 0 {
		every, work = DefaultSweepEvery, l.forget
	}
	for l.pause(every) {
		if err := work(l.ctx); err != nil && l.ctx.Err() == nil {
			l.opts.Logger.Warn("sweep", "stream", l.opts.Stream, "error", err)
		}
	}
}

// Sweep does now what is done in the background every Options.SweepEvery: it removes
// records that have expired or are too old, leaves Expired tombstones, removes old
// tombstones, brings spaces below MaxBytes, forgets old batch IDs, and deletes or
// repacks messages of the stream that hold little or nothing any more.
func (l *Log) Sweep(ctx context.Context) error {
	l.sweeping.Lock()
	defer l.sweeping.Unlock()
	for _, work := range []func(t *tx) bool{(*tx).sweep, (*tx).shrink} {
		for more := true; more; {
			if l.ctx.Err() != nil || ctx.Err() != nil {
				return l.ended(ctx, "sweep", time.Time{}, "")
			}
			more = false
			if !l.due(work) {
				break
			}
			if err := l.do(ctx, "sweep", groupBytes, func(t *tx) (bool, error) {
				more = work(t)
				return true, nil
			}); err != nil {
				return err
			}
		}
	}
	l.forgetReceipts()
	if err := l.forgetKeys(ctx); err != nil {
		return err
	}
	if err := l.repack(ctx); err != nil {
		return err
	}
	return l.collect(ctx)
}

func (l *Log) forgetReceipts() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.nowLocked()
	l.st.forgetReceipts(&now, int64(l.opts.BatchIDAge))
}

// forget is what a process does that leaves sweeping to others: it forgets, without writing
// or deleting anything, what the others have removed. Memory would grow with every commit.
func (l *Log) forget(ctx context.Context) error {
	l.sweeping.Lock()
	defer l.sweeping.Unlock()
	l.forgetReceipts()
	l.mu.Lock()
	now := l.nowLocked()
	l.st.overdue(&now) // it takes out dead records on the way
	l.st.sparse = slices.DeleteFunc(l.st.sparse, func(u *unit) bool { return u.refs == 0 || !l.st.current(u) })
	l.mu.Unlock()
	err := l.forgetDeleted(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.st.forgetIdle()
	return err
}

// forgetDeleted forgets the dead units that others have deleted. It ends with the first one
// that is still there, which is looked for after the others the next time.
func (l *Log) forgetDeleted(ctx context.Context) error {
	units := l.garbage(time.Now())
	for i, u := range units {
		last := u.seq + uint64(u.parts) - 1 // it is deleted last
		if _, err := l.askLeader(ctx, last); !errors.Is(err, errGone) {
			l.mu.Lock()
			l.st.dead = append(append(l.st.dead, units[i+1:]...), u)
			l.mu.Unlock()
			if err != nil {
				err = l.explain(ctx, "sweep", "", nil, err)
			}
			return err
		}
		l.deleted(u)
	}
	return nil
}

// deleted notes that the messages of u have left the stream.
func (l *Log) deleted(u *unit) {
	for p := range uint64(u.parts) {
		l.cache.drop(u.seq + p)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.st.deleted(u)
}

// due reports whether work would write anything: a sweep that finds nothing does not
// disturb the committer.
func (l *Log) due(work func(t *tx) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mindClockLocked()
	t := newTx(&l.st, l.nowLocked(), l.limit)
	t.begin()
	work(t)
	return len(t.facts) > 0
}

// sweep removes what has had its time, for at most sweepKeys keys, and reports
// whether there may be more.
func (t *tx) sweep() (more bool) {
	keys := t.s.overdue(t.now)
	slices.SortFunc(keys, func(a, b *key) int {
		return cmp.Or(cmp.Compare(a.space.id, b.space.id), strings.Compare(a.name, b.name))
	})
	keys = slices.Compact(keys)
	more = len(keys) > sweepKeys
	for _, k := range keys[:min(len(keys), sweepKeys)] {
		if sp := t.space(k.space.name); sp != nil && sp.base == k.space {
			t.sweepKey(sp, k)
		}
	}
	return more
}

// overdue returns the keys, not all different, that have records whose time is over.
func (s *state) overdue(now *wallclock.Moment) (keys []*key) {
	for len(s.expiring) > 0 && s.expiring[0].dead {
		s.expiring.pop()
	}
	keys = s.expiring.due(0, now, keys)
	for _, sp := range s.spaces {
		if age := int64(sp.policy.MaxAge); age > 0 {
			for _, r := range sp.order {
				if !r.older(now, age) {
					break
				}
				if !r.dead {
					keys = append(keys, r.key)
				}
			}
		}
		for len(sp.tombs) > 0 && sp.tombs[0].dead {
			sp.tombs[0] = nil
			sp.tombs = sp.tombs[1:]
		}
		for _, r := range sp.tombs {
			if !forgets(&sp.policy, r, now) {
				break
			}
			if !r.dead {
				keys = append(keys, r.key)
			}
		}
	}
	return keys
}

// due appends the keys of the records below the i-th of the heap that have expired.
func (h expiring) due(i int, now *wallclock.Moment, keys []*key) []*key {
	if i >= len(h) || h[i].due > now.Due() {
		return keys
	}
	if !h[i].dead && h[i].over(now, 0) {
		keys = append(keys, h[i].key)
	}
	return h.due(2*i+2, now, h.due(2*i+1, now, keys))
}

// forgets reports whether r is a tombstone that has been kept long enough.
func forgets(p *mainstem.Policy, r *record, now *wallclock.Moment) bool {
	age := cmp.Or(p.TombstoneAge, mainstem.DefaultTombstoneAge)
	return p.History > 0 && r.tomb != mainstem.Live && r.older(now, int64(age))
}

// sweepKey removes the records of one key whose time is over.
func (t *tx) sweepKey(sp *txSpace, k *key) {
	v := t.view(sp, []byte(k.name))
	if v.n == 0 {
		return
	}
	if r := v.rec(v.total() - 1); r != nil && forgets(&sp.policy, r, t.now) {
		v.forget() // the whole history of a key that ended long ago
		t.tell(v, false)
		return
	}
	tell, cut := false, false
	for i, n := v.lo, v.total(); i < n; i++ {
		r := v.rec(i)
		if r == nil {
			continue
		}
		hidden := sp.hidden(r, t.now)
		if hidden { // tell if the newest record is a value whose time to live ran out
			tell = r.version == v.head && r.tomb == mainstem.Live && r.over(t.now, 0)
		}
		switch {
		case !hidden && !forgets(&sp.policy, r, t.now):
		case i == v.lo:
			v.truncate(r.version + 1)
			cut = true
		default:
			v.edits = append(v.edits, edit{r.version, nil})
			v.n--
			t.facts = append(t.facts, fact{kind: factHole, space: sp.id, key: v.name, version: r.version})
		}
	}
	if tell && !sp.policy.NoFeed {
		// A version beyond the last one cannot be told; then nothing is.
		if _, err := t.put(v, &record{count: 1, tomb: mainstem.Expired, size: int64(len(v.name))}, nil, nil); err == nil {
			return
		}
	}
	if cut {
		t.tell(v, false)
	}
}

// shrink removes the oldest records of spaces above their MaxBytes, at most sweepKeys,
// and reports whether there may be more.
func (t *tx) shrink() (more bool) {
	left := sweepKeys
	for _, base := range t.s.spaces {
		excess := base.live.bytes - base.policy.MaxBytes
		if base.policy.MaxBytes == 0 || excess <= 0 {
			continue
		}
		sp := t.space(base.name)
		cut := map[*view]bool{}
		for _, r := range base.order {
			if excess <= 0 || left == 0 {
				break
			}
			if r.dead {
				continue
			}
			v := t.view(sp, []byte(r.key.name))
			v.truncate(r.version + 1)
			cut[v] = true
			excess -= r.size
			left--
		}
		for v := range cut {
			t.tell(v, false)
		}
	}
	return left == 0
}

// forgetKeys forgets the keys of spaces with bounded history that hold nothing any
// more, once the space itself remembers that new keys begin above their versions.
func (l *Log) forgetKeys(ctx context.Context) error {
	l.mu.Lock()
	idle := l.st.idle
	l.st.idle = nil
	l.mu.Unlock()
	idle = slices.DeleteFunc(idle, func(k *key) bool { return k.space.dropped })
	if len(idle) == 0 {
		return nil
	}
	err := l.do(ctx, "sweep", groupBytes, func(t *tx) (bool, error) {
		raised := map[*txSpace]bool{}
		for _, k := range idle {
			sp := t.space(k.space.name)
			if sp == nil || sp.base != k.space || sp.floor >= k.head {
				continue
			}
			t.change(sp)
			sp.floor, raised[sp] = k.head, true
		}
		for sp := range raised {
			t.state(sp)
		}
		return true, nil
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.st.idle = append(l.st.idle, idle...)
	l.st.forgetIdle()
	return err
}

// findIdle notes the keys that are idle. While the log is open a key is noted when its last
// record leaves the stream; this is for those of which none was there when it was opened.
func (s *state) findIdle() {
	for _, sp := range s.byID {
		for _, k := range sp.keys {
			if k.idle() {
				s.idle = append(s.idle, k)
			}
		}
	}
}

// forgetIdle forgets the idle keys below the floor of their space.
func (s *state) forgetIdle() {
	s.idle = slices.DeleteFunc(s.idle, func(k *key) bool {
		if !k.idle() || s.byID[k.space.id] != k.space || k.space.keys[k.name] != k {
			return true // it is not idle any more, or forgotten, or of a state that was replaced
		}
		if k.space.floor < k.head {
			return false
		}
		k.space.traces = max(k.space.traces, k.pos)
		delete(k.space.keys, k.name)
		k.space.index.remove(k)
		s.untell(k)
		return true
	})
}

// idle reports whether k need not be remembered: its space can do so.
func (k *key) idle() bool {
	return !k.space.dropped && k.space.policy.History > 0 && len(k.recs) == 0 && k.phys == 0
}

// collect deletes the messages that hold nothing any more.
func (l *Log) collect(ctx context.Context) error {
	l.mu.Lock()
	torn := l.torn
	l.torn = nil
	l.mu.Unlock()
	for len(torn) > 0 {
		if err := l.deleteMessage(ctx, torn[0], false); err != nil {
			l.mu.Lock()
			l.torn = append(l.torn, torn...)
			l.mu.Unlock()
			return l.explain(ctx, "sweep", "", nil, err)
		}
		torn = torn[1:]
	}
	units := l.garbage(time.Now())
	for i, u := range units {
		for p := range uint64(u.parts) {
			if err := l.deleteMessage(ctx, u.seq+p, u.erase); err != nil {
				l.mu.Lock()
				l.st.dead = append(l.st.dead, units[i:]...)
				l.mu.Unlock()
				return l.explain(ctx, "sweep", "", nil, err)
			}
		}
		l.deleted(u)
	}
	return nil
}

// garbage takes out the units that may be deleted: they died long enough ago.
func (l *Log) garbage(now time.Time) (units []*unit) {
	before := now.Add(-l.opts.Grace)
	if oldest := l.readers.oldest(); oldest.Before(before) {
		before = oldest
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var later []*unit
	for _, u := range l.st.dead {
		if !l.st.current(u) {
			continue
		}
		if u.diedAt.Before(before) {
			units = append(units, u)
		} else {
			later = append(later, u)
		}
	}
	l.st.dead = later
	return units
}
