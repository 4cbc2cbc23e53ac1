package pebblelog

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem/internal/invariants"
	"github.com/mainstemdev/mainstem/internal/store"
)

// Groups that only append go to the hot tier (internal/store) when they are in the journal.
// Pebble, the cold tier, gets them later, many in one batch. All other groups go to Pebble at
// once, after all groups before them. So Pebble always holds the outcome of the first n frames
// of the journal, and its key 'n' holds n.
//
// A reader of one key that finds it in the hot tier does not ask Pebble. If the hot tier does
// not have the key, Pebble has everything about it up to the moment of that look. A reader of a
// range of keys first drains pending groups of its space to Pebble.
//
// A stream may have its newest records in the hot tier and its older ones in Pebble. If a group
// that bypasses the hot tier is shown between the two looks of a reader, the reader looks again:
// such a group may have changed both parts. The counter edits shows that; see openStream.
//
// If Pebble itself is broken, pending groups stay in the hot tier. Reads of single keys that are
// there succeed; readers of ranges of their spaces get Unavailable.

// Shares of the hot tier, whose young table takes half of it.
const (
	drainShare = 8 // size of a piece; draining begins when this much is pending
	paceShare  = 2 // commits wait for the drainer when this much is pending
	groupShare = 4 // larger groups bypass the hot tier
)

// drainPiece is the maximum size of groups, in bytes, in one Pebble batch: Pebble makes a large
// batch a memtable of its own.
const drainPiece = 4 << 20

// changeOverhead is the number of bytes of a change in a batch besides its key and value: its
// kind and two lengths. Only large changes need more.
const changeOverhead = 1 + 3 + 3

// coldOnly reports whether a tx must go to Pebble at once. In builds with the tag invariants
// some others do, too.
func (t *tx) coldOnly() bool {
	return t.indexed || t.remarked || t.pb.Len() > min(store.MaxGroup, t.l.opts.hotBytes/groupShare) || invariants.Sometimes(2)
}

// drainHot moves the pending groups of the hot tier to Pebble. When it returns, Pebble has all
// groups that readers could see before the call.
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

// drain is drainSpace for a read. For a snapshot it does nothing, since Pebble has everything
// that a snapshot shows.
func (r *read) drain() error {
	if r.snap != nil {
		return nil
	}
	return r.l.drainSpace(r.s)
}

// writeCold writes changes to Pebble, all of them or none.
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
	l.commitGate.start() // finish calls end
	if err := l.hot.Apply(t.pb.Repr()); err != nil {
		l.commitGate.end()
		return l.fail(err)
	}
	if l.hot.PendingBytes() >= l.opts.hotBytes/drainShare {
		l.drainer.poke()
	}
	return nil
}

// keepPace drains the hot tier if too much is pending, which bounds memory.
func (l *Log) keepPace() error {
	if l.hot.PendingBytes() < l.opts.hotBytes/paceShare {
		return nil
	}
	return l.drainHot()
}

// drainQuietly is drainHot for the background: it logs errors.
func (l *Log) drainQuietly() {
	if err := l.drainHot(); err != nil && l.failure.Load() == nil {
		l.opts.Logger.Warn("what was written lately could not be handed to the sorted files; it will be tried again", "error", err)
	}
}
