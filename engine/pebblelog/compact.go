package pebblelog

import (
	"context"
	"time"

	"github.com/mainstemdev/mainstem"
)

// compactPoll is the interval at which Compact checks whether Pebble has removed obsolete files.
const compactPoll = 10 * time.Millisecond

// Compact returns when no file of the log has any bytes of what was removed, overwritten or
// rewritten before the call: not the sorted files, not the journal, and not files kept for
// reuse. It compacts all sorted files, which takes time in proportion to the log, and as much
// free disk space as they have. Commits go on, except during one flush.
//
// It fails with Unavailable while a snapshot is open or a backup runs that may need such bytes,
// and if the disk has no room. Reads that began before the call delay it until they end. Copies
// of the directory and backups are not changed.
func (l *Log) Compact(ctx context.Context) error {
	if err := l.writable("compact"); err != nil {
		return withoutOutcome(err)
	}
	if err := l.mindClock(ctx); err != nil {
		return err
	}
	if err := l.sweep(ctx); err != nil {
		return err
	}
	if !l.readers.begin() {
		return &mainstem.Error{Kind: mainstem.KindClosed, Op: "compact"}
	}
	defer l.readers.end()
	if err := l.copied(l.snapshots.count()); err != nil {
		return err
	}
	begun := time.Now()
	if err := l.compactAll(ctx); err != nil {
		if ctx.Err() != nil {
			return mainstem.Ended(ctx, "compact", begun, "files that are merged")
		}
		return mapError("compact", err)
	}
	if err := l.copied(0); err != nil {
		return err // a backup may have begun meanwhile
	}
	return l.sound("compact")
}

// copied returns an error if a backup, or one of the given number of snapshots, may need removed
// bytes.
func (l *Log) copied(snapshots int) error {
	backups := l.backups.Load()
	if snapshots == 0 && backups == 0 {
		return nil
	}
	return mainstem.Errorf(mainstem.KindUnavailable, "compact", "%d snapshots are open, and %d backups under way, that may need what was removed since they began", snapshots, backups).
		WithHint("close them, or wait for their end, and try again")
}

func (l *Log) compactAll(ctx context.Context) error {
	var size uint64
	for _, level := range l.db.Metrics().Levels {
		size += uint64(max(level.TablesSize, 0))
	}
	if err := l.roomToMerge(size); err != nil {
		return err
	}
	if err := l.flushNow(ctx); err != nil {
		return err
	}
	if err := l.eraseJournal(ctx); err != nil {
		return err
	}
	if err := l.db.Compact(ctx, []byte{0}, []byte{0xff}, false); err != nil {
		return err
	}
	return l.awaitRemoval(ctx)
}

// eraseJournal removes all frames from the journal, and all files that had any. It runs between
// two commits, where it flushes what was committed since the flush before, which is little.
func (l *Log) eraseJournal(ctx context.Context) error {
	if l.journal == nil {
		return nil
	}
	var err error
	if cerr := l.between(ctx, "compact", func() {
		var n uint64
		l.hot.Reset()
		if err = l.db.Flush(); err == nil {
			n, err = l.storedFrame()
		}
		if err == nil {
			err = journalError("compact", l.journal.Erase(mainstem.Position(n)))
		}
	}); cerr != nil {
		return cerr
	}
	return err
}

// awaitRemoval returns when Pebble has removed its obsolete files.
func (l *Log) awaitRemoval(ctx context.Context) error {
	timer := time.NewTicker(compactPoll)
	defer timer.Stop()
	for {
		m := l.db.Metrics()
		if m.Table.ZombieCount == 0 && m.Table.ObsoleteCount == 0 {
			return nil
		}
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
