package pebblelog

import (
	"bytes"
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/wake"
)

// How the sweeper removes records correctly:
//
//   - What it reads outside of a commit is only a hint. It reads the indexes while commits go
//     on, and reads each record again in the commit that removes it: the record may have been
//     removed or replaced, or may not be due any more, since the clock was set back.
//   - A removal is a commit like any other: durable, in order, and visible to followers if the
//     space has a feed and the newest record of a key expires (a tombstone follows it).
//   - Readers do not depend on the sweeper: the clock alone makes expired records invisible.
//   - A crash does not lose removals: an index entry is deleted in the frame that deletes its
//     record.

// sweeper removes from disk what readers do not see any more: expired records, records beyond
// the age and size limits of their space, and expired batch IDs. It sleeps until something is
// due, and works in small commits, so that other commits are not delayed much.
type sweeper struct {
	l      *Log
	wake   chan struct{} // capacity 1: sweep now
	rearm  chan struct{} // capacity 1: compute the wait again: something is due sooner, or a space got a limit
	cancel context.CancelFunc
	done   chan struct{}
	looked time.Time // time of the last check of the clock; of run
	// next is the earliest known expiry, in unix ns without the jump of a hold; 0: none. A sweep
	// sets it to 0 and finds all index entries that are visible by then; later entries lower it
	// again. A sweep that fails sets it to the present time.
	next atomic.Int64
}

// lookEvery is the longest sleep of the sweeper while records are going to expire. Timers do not
// follow a clock that is set, so the clock must be read again.
const lookEvery = 30 * time.Second

// sweepChunk is the number of records that one commit of the sweeper removes.
const sweepChunk = 256

func startSweeper(l *Log) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &sweeper{l: l, wake: make(chan struct{}, 1), rearm: make(chan struct{}, 1), cancel: cancel, done: make(chan struct{}), looked: time.Now()}
	l.sweeper = s
	s.poke()
	go s.run(ctx)
}

// expiresAt notes that a visible record expires at the time at, in unix ns without the jump of a
// hold (see [wallclock.Hold.Trusted]). The sweeper wakes when that is due, not at once.
func (s *sweeper) expiresAt(at int64) {
	for {
		next := s.next.Load()
		if next != 0 && at >= next {
			return
		}
		if s.next.CompareAndSwap(next, at) {
			wake.Signal(s.rearm)
			return
		}
	}
}

func (s *sweeper) poke() { wake.Signal(s.wake) }

// limited notes that a space got an age or a size limit.
func (s *sweeper) limited() { wake.Signal(s.rearm) }

func (s *sweeper) run(ctx context.Context) {
	defer close(s.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var next time.Time // when timer fires; zero if it is not set
	var failed bool    // the last sweep has failed: it is not repeated at once
	arm := func() {
		wait := s.wait()
		if failed {
			wait = min(s.l.opts.SweepEvery, DefaultSweepEvery)
		}
		if wait > 0 && (next.IsZero() || time.Until(next) > wait) {
			next = time.Now().Add(wait)
			timer.Reset(wait)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.rearm:
			arm()
			continue
		case <-s.wake:
		case <-timer.C:
		}
		err := s.once(ctx)
		if failed = err != nil; failed && ctx.Err() == nil && s.l.failure.Load() == nil {
			s.l.opts.Logger.Warn("removing expired records failed; it will be tried again", "error", err)
		}
		next = time.Time{}
		arm()
	}
}

// once sweeps, and first checks the clock if the last check is SweepEvery ago.
func (s *sweeper) once(ctx context.Context) error {
	if time.Since(s.looked) >= s.l.opts.SweepEvery {
		s.looked = time.Now()
		if err := s.l.mindClock(ctx); err != nil {
			return err
		}
	}
	return s.l.sweep(ctx)
}

// wait returns how long the sweeper may sleep. 0 means until it is woken.
func (s *sweeper) wait() time.Duration {
	var wait time.Duration
	sooner := func(d time.Duration) {
		if d = max(d, time.Millisecond); wait == 0 || d < wait {
			wait = d
		}
	}
	if next := s.next.Load(); next != 0 && next != math.MaxInt64 {
		m := s.l.moment()
		sooner(min(time.Duration(next-m.Due()), lookEvery))
	}
	if s.l.minding() {
		sooner(s.l.opts.SweepEvery - time.Since(s.looked))
	}
	if s.l.hasIDs.Load() {
		sooner(s.l.opts.BatchIDAge / 16)
	}
	for _, sp := range s.l.spaces.Load().byName {
		if limited(sp.policy.Load()) { // even if it is empty: writes do not wake the sweeper
			sooner(s.l.opts.SweepEvery)
			break
		}
	}
	return wait
}

// limited reports whether the policy has an age or a size limit, which the sweeper enforces.
func limited(p *mainstem.Policy) bool { return p.MaxAge > 0 || p.MaxBytes > 0 }

func (s *sweeper) stop() {
	s.cancel()
	<-s.done
}

// Sweep removes everything that has expired or exceeds the limits of its space. It also frees
// the disk space of all removals since the log was opened, as far as there is room to merge
// files. The engine does both in the background; Sweep is for tests and for operators. It
// returns when both are done.
func (l *Log) Sweep(ctx context.Context) error {
	if l.opts.ReadOnly {
		return l.writable("sweep")
	}
	if err := l.mindClock(ctx); err != nil {
		return err
	}
	if err := l.sweep(ctx); err != nil {
		return err
	}
	if err := l.reclaimer.now(ctx); err != nil {
		return err
	}
	return l.sound("sweep")
}

// sweep is Sweep without freeing disk space. Sweeps do not overlap: the records that another
// sweep is removing are not in the indexes any more, but in the totals until its commit is
// published.
func (l *Log) sweep(ctx context.Context) (err error) {
	began := time.Now()
	select {
	case l.sweeping <- struct{}{}:
		defer func() { <-l.sweeping }()
	case <-ctx.Done():
		return mainstem.Ended(ctx, "sweep", began, "another sweep")
	}
	defer func() {
		if err != nil {
			m := l.moment()
			l.sweeper.expiresAt(m.Due())
		}
	}()
	if m := l.moment(); len(m.Marks) < len(l.clockMarks()) {
		if err := l.mindClock(ctx); err != nil {
			return err
		}
	}
	if err := l.moveAll(ctx); err != nil {
		return err
	}
	for {
		n, err := l.sweepExpired(ctx)
		if err != nil {
			return err
		}
		if n < sweepChunk {
			break
		}
	}
	if err := l.sweepHeld(ctx); err != nil {
		return err
	}
	for _, s := range l.spaces.Load().byName {
		p := s.policy.Load()
		if !limited(p) {
			continue
		}
		if p.NoFeed && p.MaxAge > 0 {
			if err := l.sweepAged(ctx, s); err != nil {
				return err
			}
		}
		for more := true; more; {
			var err error
			if more, err = l.sweepSpace(ctx, s.name); err != nil {
				return err
			}
		}
	}
	if err := l.sweepIDs(ctx); err != nil {
		return err
	}
	return l.sound("sweep") // after a failed removal the indexes may look as if nothing were due
}

// expire removes the record of key at version, if it is still there and has expired. If it is
// the newest, and the space has a feed, a tombstone follows it, so that followers see the
// expiry. An expired tombstone in a slot, with all records before it, or an expired version marker
// is removed without a trace.
func (t *tx) expire(ts *stagedSpace, key []byte, version uint64) error {
	h, err := t.keyState(ts, key)
	if err != nil {
		return err
	}
	newest := h.version == version
	if newest && slots(ts.policy) {
		slot, err := t.readBody(format.AppendSlotKey(nil, ts.s.id, key))
		if err != nil || slot == nil || !t.Over(slot.Clock, slot.Expires, 0) {
			return err
		}
		if slot.VersionMarker && h.held { // written by a program before this rule: see leaveMarker
			t.leaveMarker(ts, key, version, ts.written(h), true)
			ts.dirty = true
			return nil
		}
		if slot.VersionMarker || slot.Tombstone != mainstem.Live {
			return t.vanish(ts, key)
		}
	}
	records := ts.totals.Records
	err = t.removeWhere(ts, key, version, func(b *format.Body) bool {
		return b.Version == version && t.Over(b.Clock, b.Expires, 0)
	})
	if err != nil || !newest || records == ts.totals.Records || ts.policy.NoFeed {
		return err
	}
	_, err = t.put(ts, &mainstem.Write{Op: mainstem.OpDelete, Space: ts.s.name, Key: key}, mainstem.Expired)
	return err
}

// vanish removes the last trace of a key from its slot. The floor of the space rises to the
// version of the key, so the versions of keys that are new from then on begin above it.
func (t *tx) vanish(ts *stagedSpace, key []byte) error {
	h, err := t.keyState(ts, key)
	if err != nil {
		return err
	}
	version, written := h.version, ts.written(h)
	if err := t.removeUpTo(ts, key, math.MaxUint64); err != nil {
		return err
	}
	hk := t.stateKey(ts, key)
	t.del(hk)
	t.l.keyStates.drop(hk)
	ts.dirty = true
	ts.totals.Floor = max(ts.totals.Floor, version)
	ts.traces = max(ts.traces, written)
	return nil
}

// errEnough ends a loop over records without an error.
var errEnough = errors.New("enough")

// sweepSpace removes up to sweepChunk of the first records of eachOldest that exceed the age or the
// size limit of the space. It reports whether there may be more.
func (l *Log) sweepSpace(ctx context.Context, name string) (more bool, err error) {
	s := l.spaces.Load().byName[name]
	if s == nil || !l.overLimits(s) {
		return false, nil
	}
	err = l.removal(ctx, "sweep", func(t *tx) error {
		ts := t.space(name)
		if ts == nil {
			return nil
		}
		n := 0
		err := t.eachOldest(ts, func(key []byte, b *format.Body) error {
			old := !ts.policy.NoFeed && t.Over(b.Clock, 0, ts.maxAge) // without a feed see sweepAged
			big := ts.policy.MaxBytes > 0 && ts.totals.Bytes > ts.policy.MaxBytes
			if n == sweepChunk || !old && !big {
				return errEnough
			}
			n++
			version := b.Version
			return t.evict(ts, bytes.Clone(key), version)
		})
		more = n == sweepChunk
		if err == errEnough {
			err = nil
		}
		return err
	})
	return more, err
}

// overLimits is a cheap check, outside of a commit, whether the limits may be exceeded. It
// spares an idle log the commit.
func (l *Log) overLimits(s *space) bool {
	p, t := s.policy.Load(), s.totals()
	if p.MaxBytes > 0 && t.Bytes > p.MaxBytes {
		return true
	}
	if p.NoFeed || p.MaxAge == 0 || t.Records == 0 || !l.readers.begin() {
		return false
	}
	defer l.readers.end()
	if l.drainSpace(s) != nil {
		return true
	}
	keyState := format.AppendHead(nil, format.TagFeed, s.id)
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: keyState, UpperBound: format.AppendSuccessor(nil, keyState)})
	if err != nil {
		return true
	}
	defer it.Close()
	if !it.First() {
		return it.Error() != nil // the sweep itself reports the error
	}
	val, err := it.ValueAndErr()
	if err != nil {
		return true
	}
	_, body, _, err := format.NextFeedEntry(val)
	if err != nil {
		return true
	}
	b, err := format.DecodeBody(body)
	m := l.moment()
	m.rebase(&b)
	return err != nil || m.Over(b.Clock, 0, int64(p.MaxAge))
}

// evict removes one record because of a limit, without a tombstone. If the record is in a slot,
// the whole key is removed without a trace.
func (t *tx) evict(ts *stagedSpace, key []byte, version uint64) error {
	if !slots(ts.policy) {
		return t.removeWhere(ts, key, version, func(b *format.Body) bool { return b.Version == version })
	}
	h, err := t.keyState(ts, key)
	if err != nil {
		return err
	}
	if h.version == version {
		return t.forget(ts, key)
	}
	return t.removeWhere(ts, key, version, func(b *format.Body) bool { return b.Version == version })
}

// eachOldest calls f for the records of a space, oldest first. A space without a feed has no
// such order: there the order is by key, and by version within a key.
func (t *tx) eachOldest(ts *stagedSpace, f func(key []byte, b *format.Body) error) error {
	if ts.policy.NoFeed {
		return t.eachByKey(ts, f)
	}
	keyState := format.AppendHead(nil, format.TagFeed, ts.s.id)
	it, err := t.iter(&pebble.IterOptions{LowerBound: keyState, UpperBound: format.AppendSuccessor(nil, keyState)})
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		block, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		block = bytes.Clone(block)
		for len(block) > 0 {
			key, body, rest, err := format.NextFeedEntry(block)
			if err != nil {
				return err
			}
			block = rest
			b, err := format.DecodeBody(body)
			if err != nil {
				return err
			}
			t.rebase(&b)
			if err := f(key, &b); err != nil {
				return err
			}
		}
	}
	return it.Error()
}

func (t *tx) eachByKey(ts *stagedSpace, f func(key []byte, b *format.Body) error) error {
	tags := []byte{format.TagVersion}
	if slots(ts.policy) {
		tags = []byte{format.TagOlder, format.TagSlot}
	}
	for _, tag := range tags {
		keyState := format.AppendHead(nil, tag, ts.s.id)
		it, err := t.iter(&pebble.IterOptions{LowerBound: keyState, UpperBound: format.AppendSuccessor(nil, keyState)})
		if err != nil {
			return err
		}
		err = walkBodies(it, func(k []byte, b *format.Body) error {
			key, err := userKey(k)
			if err != nil || b.VersionMarker {
				return err
			}
			t.rebase(b)
			return f(key, b)
		})
		if cerr := it.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func walkBodies(it *pebble.Iterator, f func(k []byte, b *format.Body) error) error {
	for ok := it.First(); ok; ok = it.Next() {
		val, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		b, err := format.DecodeBody(val)
		if err != nil {
			return err
		}
		if err := f(it.Key(), &b); err != nil {
			return err
		}
	}
	return it.Error()
}

// userKey returns the user's key of a slot key or a versioned key.
func userKey(k []byte) ([]byte, error) {
	if k[0] == format.TagSlot {
		return format.SlotKey(k)
	}
	prefix, _, err := format.SplitVersioned(k)
	if err != nil {
		return nil, err
	}
	return format.AppendUnescaped(nil, prefix)
}

// sweepIDs removes the batch IDs that are older than Options.BatchIDAge. Entries that were read
// before the commit still exist in it: only this function, under sweeping, and moveIDs, which
// runs before it in a sweep, remove such entries.
func (l *Log) sweepIDs(ctx context.Context) error {
	for {
		old, err := l.oldIDs()
		if err != nil || len(old) == 0 {
			return mapError("sweep", err)
		}
		err = l.removal(ctx, "sweep", func(t *tx) error {
			for _, k := range old {
				_, id, err := format.DecodeIDOrderKey(k)
				if err != nil {
					return err
				}
				t.del(k)
				t.del(format.AppendReceiptKey(nil, id))
			}
			return nil
		})
		if err != nil || len(old) < sweepChunk {
			return err
		}
	}
}

// oldIDs returns up to sweepChunk index entries of batch IDs that are too old. If there are
// younger ones, it sets hasIDs, so that the sweeper comes again.
func (l *Log) oldIDs() (old [][]byte, err error) {
	if !l.readers.begin() {
		return nil, &mainstem.Error{Kind: mainstem.KindClosed, Op: "sweep"}
	}
	defer l.readers.end()
	if err := l.drainHot(); err != nil {
		return nil, err
	}
	m := l.moment()
	until := m.Due() - int64(l.opts.BatchIDAge)
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: []byte{format.TagIDOrder}, UpperBound: []byte{format.TagIDOrder + 1}})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for ok := it.First(); ok && len(old) < sweepChunk; ok = it.Next() {
		at, _, err := format.DecodeIDOrderKey(it.Key())
		if err != nil {
			return nil, err
		}
		if at > until {
			l.hasIDs.Store(true)
			break
		}
		old = append(old, bytes.Clone(it.Key()))
	}
	return old, it.Error()
}
