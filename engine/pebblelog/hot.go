package pebblelog

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem/internal/invariants"
	"github.com/mainstemdev/mainstem/internal/store"
)

// Groups that only append go to the hot tier (internal/store) when they are in the journal;
// Pebble, the cold tier, gets them later, many in one batch. All others go to Pebble at once,
// when it has all before them. So what is in Pebble is always the outcome of a beginning of the
// journal, and its key 'n' says how long it is.
//
// A reader that finds what it looks for in the hot tier needs nothing else. One that does
// not asks Pebble, which has all that the hot tier did not have when it was asked. A reader
// of ranges of keys has pending groups of its space written to Pebble first.
//
// A reader of a stream may find its end in the hot tier and its beginning in Pebble. If a
// group that goes to Pebble at once was shown between these two looks, by the counter edits,
// it looks again: such a group may have changed both. See openStream.
//
// If Pebble itself is broken, pending groups stay where they are: what is asked of the hot
// tier is answered, and readers of ranges of their spaces get Unavailable.

// The shares of the hot tier, of which a half is the young table.
const (
	drainShare = 8 // a piece; so much is pending when draining begins
	paceShare  = 2 // so much is pending when commits wait for it
	groupShare = 4 // larger groups are not for the hot tier
)

// drainPiece is the most that one Pebble batch takes, in bytes of groups: Pebble puts large
// batches aside, as tables of their own.
const drainPiece = 4 << 20

// changeOverhead is what a change takes in a batch beside its key and value, at most but for
// large ones: its kind and two lengths.
const changeOverhead = 1 + 3 + 3

// coldOnly reports whether a tx must go to Pebble at once. In checked builds some others do.
func (t *tx) coldOnly() bool {
	return t.indexed || t.remarked || t.pb.Len() > min(store.MaxGroup, t.l.opts.hotBytes/groupShare) || invariants.Sometimes(2)
}

// drainHot hands to Pebble what it lacks. When it returns, Pebble has all groups that readers could
// see before the call.
func (l *Log) drainHot() error {
	if l.broken.Load() && l.hot.PendingBytes() > 0 {
		return l.sound("read")
	}
	return l.hot.Drain(min(drainPiece, l.opts.hotBytes/drainShare), l.writeCold)
}

// drainSpace is drainHot for readers of one space.
func (l *Log) drainSpace(s *space) error {
	if !l.hot.Pending(s.id) {
		return nil
	}
	return l.drainHot()
}

// drain is drainSpace for a view: a snapshot has all that it shows in Pebble.
func (r *read) drain() error {
	if r.snap != nil {
		return nil
	}
	return r.l.drainSpace(r.s)
}

// writeCold writes changes to Pebble, all or none of them.
func (l *Log) writeCold(changes []store.Change) (err error) {
	defer func() {
		if p := recover(); p != nil { // as in show
			l.broken.Store(true)
			err = l.fail(p)
		}
	}()
	size := 0
	for i := range changes {
		size += len(changes[i].Key) + len(changes[i].Value) + changeOverhead
	}
	b := l.db.NewBatchWithSize(size)
	defer b.Close()
	for i := range changes {
		if c := &changes[i]; c.Delete {
			err = b.Delete(c.Key, nil)
		} else {
			err = b.Set(c.Key, c.Value, nil)
		}
		if err != nil {
			return l.fail(err)
		}
	}
	if err := b.Commit(pebble.NoSync); err != nil {
		return l.fail(err)
	}
	if l.broken.Load() {
		return l.sound("read")
	}
	return nil
}

// showHot adds a tx that only appends to the hot tier.
func (l *Log) showHot(t *tx) error {
	l.commitGate.start() // finish ends it
	if err := l.hot.Apply(t.pb.Repr()); err != nil {
		l.commitGate.end()
		return l.fail(err)
	}
	if l.hot.PendingBytes() >= l.opts.hotBytes/drainShare {
		l.drainer.poke()
	}
	return nil
}

// keepPace waits for the cold tier if it is too far behind: memory is bounded.
func (l *Log) keepPace() error {
	if l.hot.PendingBytes() < l.opts.hotBytes/paceShare {
		return nil
	}
	return l.drainHot()
}

// drainQuietly is drainHot in the background.
func (l *Log) drainQuietly() {
	if err := l.drainHot(); err != nil && l.failure.Load() == nil {
		l.opts.Logger.Warn("what was written lately could not be handed to the sorted files; it will be tried again", "error", err)
	}
}
