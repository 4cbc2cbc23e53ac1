package pebblelog

import (
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/journal"
)

// A run becomes a frame of the journal before readers or Pebble see it. The effects of a frame
// are its Pebble batch: keys and values to write, and keys and ranges to delete. All of them are
// absolute, so a replay of a frame reads nothing. Frames are numbered from 1.
//
// Invariants:
//
//   - A run becomes readable, and reaches Pebble, only when its frame is as durable as was asked
//     for, and after the run before it.
//   - Pebble gets runs in their order, one or many in one batch (hot.go, replay.go). The key 'n'
//     holds the number of the newest frame whose effects are there. The key is part of the
//     effects, so any state of Pebble has the number of the newest frame that is in it.
//   - A memtable is flushed to a sorted file only after the journal was synced up to the end of
//     the memtable. So sorted files never hold frames that the journal may lose.
//   - A segment of the journal is freed when all its frames are in sorted files on the disk.
//     After a failed write none is freed: see storedFrame.

// openJournal opens the journal of an existing log and verifies all of it. If it is damaged, the
// directory is unchanged. replay reads its frames.
func (l *Log) openJournal() (err error) {
	l.journal, err = journal.Open(l.opts.FS, l.dir.join(journalDir), l.journalOptions())
	l.fs.journal.Store(l.journal)
	return journalError("open "+l.dir.path, err)
}

// createJournal makes an empty journal. It removes files of an earlier one.
func (l *Log) createJournal() error {
	dir := l.dir.join(journalDir)
	if err := l.opts.FS.RemoveAll(dir); err != nil {
		return mapError("open "+l.dir.path, err)
	}
	o := l.journalOptions()
	o.Create = true
	var err error
	l.journal, err = journal.Open(l.opts.FS, dir, o)
	l.fs.journal.Store(l.journal)
	return journalError("open "+l.dir.path, err)
}

func (l *Log) journalOptions() journal.Options {
	first, largest := l.segmentSizes()
	return journal.Options{ReadOnly: l.opts.ReadOnly, Logger: l.opts.Logger, FirstSegment: first, MaxSegment: largest}
}

// Sizes of segments of the journal, in bytes.
const (
	minSegment   = 64 << 10
	firstSegment = 1 << 20
	maxSegment   = 64 << 20
)

// segmentSizes returns the sizes of the first segment and of the largest ones. A memtable needs
// about as much of the journal as its own size. If little disk space is free, segments stay
// small.
func (l *Log) segmentSizes() (first, largest int64) {
	largest = min(int64(l.opts.MemTableBytes), maxSegment)
	if l.opts.MinFree >= 0 {
		largest = min(largest, (l.free()-l.opts.MinFree)/8)
	}
	largest = max(largest, minSegment)
	return min(largest, firstSegment), largest
}

var frameKey = []byte{format.TagFrame}

// appliedFrame returns the number of the newest frame that Pebble holds or, with durable set,
// that its sorted files hold; for the latter see storedFrame.
func (l *Log) appliedFrame(durable bool) (uint64, error) {
	it, err := l.db.NewIter(&pebble.IterOptions{
		LowerBound: frameKey, UpperBound: []byte{format.TagFrame + 1}, OnlyReadGuaranteedDurable: durable,
	})
	if err != nil {
		return 0, err
	}
	defer it.Close()
	if !it.First() {
		return 0, it.Error()
	}
	v, err := it.ValueAndErr()
	if err != nil {
		return 0, err
	}
	return format.DecodeFrameNumber(v)
}

// storedFrame returns the number of the newest frame in sorted files on the disk. After a failed
// write it returns an error: sorted files of Pebble may be in memory then (guard.go).
func (l *Log) storedFrame() (uint64, error) {
	n, err := l.appliedFrame(true)
	if err == nil && l.fs.tripped.Load() { // tripped is set before the first file in memory is made
		return 0, errTripped
	}
	return n, err
}

// write makes the tx as durable as run asks for, and then readable.
func (l *Log) write(t *tx, run []*waiter) error {
	start := time.Now()
	if err := l.checkSpace(start, t.pb.Len(), removesAll(run)); err != nil {
		return err
	}
	if l.journal != nil {
		if err := l.append(t, run); err != nil {
			return err
		}
	}
	if err := l.show(t); err != nil {
		return err
	}
	l.metrics.committed(time.Since(start), t.pb.Len())
	return nil
}

// append writes the frame of the tx to the journal and makes it durable.
func (l *Log) append(t *tx, run []*waiter) error {
	next := l.frame + 1
	t.set(frameKey, format.AppendFrameNumber(t.body[:0], next))
	l.frames[0] = journal.Frame{First: mainstem.Position(next), Count: 1, Time: t.time, Clock: t.Now, Effects: t.pb.Repr()}
	_, err := l.journal.Append(l.frames[:])
	l.frames[0].Effects = nil
	if err != nil {
		return l.journalFailed(err)
	}
	l.frame = next
	return l.makeDurable(run, true)
}

// makeDurable makes everything written so far as durable as run asks for. Batches count even if
// run wrote nothing: the first commit of a duplicate may have asked for less. Jobs do not.
func (l *Log) makeDurable(run []*waiter, wrote bool) error {
	if l.journal == nil {
		return nil
	}
	sync := false
	for _, w := range run {
		if w.err != nil || w.batch == nil && !wrote {
			continue
		}
		d := l.durability(w)
		if period, ok := d.Period(); ok {
			l.journal.SyncWithin(period)
		}
		sync = sync || d == mainstem.Fsync
	}
	if !sync {
		return nil
	}
	return l.journalFailed(l.journal.Sync(l.journal.Written()))
}

// journalFailed returns err, an error of the journal or nil, as the error of a commit. If the
// journal takes no more frames after it, the log is read-only from now on.
func (l *Log) journalFailed(err error) error {
	if err == nil {
		return nil
	}
	var e *mainstem.Error
	if errors.As(err, &e) && e.Outcome == mainstem.NotWritten && l.journal.Err() == nil {
		return journalError("commit", err)
	}
	return l.stopWriting(err)
}

// stopWriting makes the log read-only after a failed write of the journal. The memtables are not
// flushed any more either, because they may hold frames that the journal lost.
func (l *Log) stopWriting(err error) error {
	l.fs.trip(err)
	return l.fail(err)
}

// noticeJournal makes the log read-only if the journal failed in the background.
func (l *Log) noticeJournal() {
	if l.journal == nil || l.failure.Load() != nil {
		return
	}
	if err := l.journal.Err(); err != nil {
		_ = l.stopWriting(err)
	}
}

// journalError returns an error of the journal as one of the operation op.
func journalError(op string, err error) error {
	var e *mainstem.Error
	if !errors.As(err, &e) {
		return mapError(op, err)
	}
	c := *e
	c.Op = op
	return &c
}

// show makes the tx readable. From then on readers may see it: they wait at the commit gate
// until finish has published the rest of its changes.
func (l *Log) show(t *tx) error {
	if !t.coldOnly() {
		return l.showHot(t)
	}
	if err := l.drainHot(); err != nil {
		return err
	}
	return l.showCold(t)
}

// showCold commits the tx to Pebble, which must have all groups before it.
func (l *Log) showCold(t *tx) (err error) {
	l.commitGate.start()
	l.edits.Add(1)
	defer l.edits.Add(1)
	defer func() {
		// Pebble reports a failed manifest by Logger.Fatalf, which panics with fatalError on
		// this goroutine, or by a panic of its own. Its commit pipeline cannot continue after
		// that. The log stays readable.
		if p := recover(); p != nil {
			l.broken.Store(true)
			err = l.fail(p)
		}
		if err != nil {
			l.commitGate.end()
		}
	}()
	if err := l.hot.Invalidate(t.pb.Repr()); err != nil {
		return l.fail(err)
	}
	if err := t.pb.Commit(pebble.NoSync); err != nil {
		return l.fail(err)
	}
	if f := l.failure.Load(); f != nil {
		return f
	}
	return nil
}

// trimQuietly is trimJournal for the background: it logs errors.
func (l *Log) trimQuietly() {
	if err := l.trimJournal(); err != nil && l.failure.Load() == nil {
		l.opts.Logger.Warn("segments of the journal that are not needed could not be freed; it will be tried again", "error", err)
	}
}

// trimJournal frees the segments that are not needed any more.
func (l *Log) trimJournal() error {
	if l.journal == nil || l.broken.Load() {
		return nil
	}
	n, err := l.storedFrame()
	if err != nil {
		return err
	}
	return l.journal.TruncateFront(mainstem.Position(n))
}

// shrinkJournal frees all of the journal that the next open does not need, provided that all
// frames are in sorted files. A failure only costs disk space.
func (l *Log) shrinkJournal() {
	if l.journal == nil {
		return
	}
	n, err := l.storedFrame()
	if err == nil {
		err = l.journal.Shrink(mainstem.Position(n))
	}
	if err != nil {
		l.opts.Logger.Info("the journal keeps more disk space than it needs", "error", err)
	}
}

// journalBytes returns the size of all files of the journal, in bytes.
func (l *Log) journalBytes() uint64 {
	if l.journal == nil {
		return 0
	}
	s := l.journal.Stats()
	return uint64(s.SegmentBytes + s.SpareBytes)
}
