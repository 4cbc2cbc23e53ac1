package pebblelog

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/store"
)

// compactPoll is the interval at which Compact checks what Pebble has done in the background.
const compactPoll = 10 * time.Millisecond

// Compact returns when no file of the log has any bytes of values and headers that were removed,
// overwritten or rewritten before the call: not the sorted files, not the journal, and not files
// kept for reuse. Keys may stay, in version markers and in Pebble's manifest. It compacts all sorted files, which takes time in proportion to the log, and as much
// free disk space as they have. Commits go on, except during one flush.
//
// It fails with Unavailable while a snapshot is open or a backup runs that may need such bytes,
// if a sorted file cannot be written, and if the disk has no room. Reads that began before the
// call delay it until they end. Copies of the directory and backups are not changed.
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
	work, end := l.interrupts.begin(ctx)
	defer end()
	if err := l.sound("compact"); err != nil {
		return err
	}
	if err := l.compactAll(work); err != nil {
		if ctx.Err() != nil {
			return mainstem.Ended(ctx, "compact", begun, "files that are merged")
		}
		if serr := l.sound("compact"); serr != nil {
			return serr
		}
		return mapError("compact", cmp.Or(context.Cause(work), err))
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
	if err := l.flushNow(ctx); err != nil {
		return err
	}
	if err := l.eraseJournal(ctx); err != nil {
		return err
	}
	if err := l.awaitMerges(ctx); err != nil {
		return err
	}
	if err := l.rewriteFiles(ctx); err != nil {
		return err
	}
	return l.awaitRemoval(ctx)
}

// rewriteFiles returns when Pebble has no sorted file any more that it had before. DB.Compact
// merges a file only with files of the level above that have keys between the first and the last
// of it, so it may leave files of the last level as they are. Such a file holds removed bytes if
// a snapshot needed them when the file was made. So each file that is left gets a change above
// it that changes nothing, and the next round merges it.
func (l *Log) rewriteFiles(ctx context.Context) error {
	old, newest, err := l.sortedFiles(math.MaxUint64)
	for err == nil && len(old) > 0 {
		if err := l.roomToMerge(sizeOf(old)); err != nil {
			return err
		}
		if err := l.db.Compact(ctx, []byte{0}, []byte{0xff}, false); err != nil {
			return err
		}
		if old, _, err = l.sortedFiles(newest); err != nil {
			return err
		}
		for i := range old {
			if err := l.repeat(ctx, old[i].Smallest.UserKey); err != nil {
				return err
			}
		}
	}
	return err
}

// sortedFiles returns the sorted files whose number is at most limit, and the highest of their
// numbers.
func (l *Log) sortedFiles(limit uint64) (files []pebble.SSTableInfo, newest uint64, err error) {
	levels, err := l.db.SSTables()
	for _, level := range levels {
		for i := range level {
			if n := uint64(level[i].BackingSSTNum); n <= limit {
				files = append(files, level[i])
				newest = max(newest, n)
			}
		}
	}
	return files, newest, err
}

// repeat writes to Pebble what it has under the key k, or a deletion if it has nothing there. It
// runs between two commits, so that it does not undo a later one.
func (l *Log) repeat(ctx context.Context, k []byte) error {
	var err error
	if cerr := l.between(ctx, "compact", func() {
		v, closer, gerr := l.db.Get(k)
		if gerr != nil && !errors.Is(gerr, pebble.ErrNotFound) {
			err = gerr
			return
		}
		err = l.writeCold([]store.Change{{Key: k, Value: v, Delete: gerr != nil}})
		if closer != nil {
			_ = closer.Close()
		}
	}); cerr != nil {
		return cerr
	}
	return err
}

// merges has the numbers of the compactions under way. A compaction keeps what the snapshots
// need that were open when it began, even if they are closed before its end.
type merges struct {
	mu struct {
		sync.Mutex
		running map[int]struct{}
	}
}

func (m *merges) began(i pebble.CompactionInfo) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.running == nil {
		m.mu.running = map[int]struct{}{}
	}
	m.mu.running[i.JobID] = struct{}{}
}

func (m *merges) ended(i pebble.CompactionInfo) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mu.running, i.JobID)
}

// keep deletes those numbers from jobs whose compactions have ended.
func (m *merges) keep(jobs map[int]struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(jobs, func(id int, _ struct{}) bool { _, ok := m.mu.running[id]; return !ok })
}

// awaitMerges returns when the compactions have ended that are under way.
func (l *Log) awaitMerges(ctx context.Context) error {
	l.merges.mu.Lock()
	jobs := maps.Clone(l.merges.mu.running)
	l.merges.mu.Unlock()
	return poll(ctx, func() bool {
		l.merges.keep(jobs)
		return len(jobs) == 0
	})
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
		if err = l.flush(ctx); err == nil {
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
	return poll(ctx, func() bool {
		m := l.db.Metrics()
		return m.Table.ZombieCount == 0 && m.Table.ObsoleteCount == 0
	})
}

// poll returns when done returns true.
func poll(ctx context.Context, done func() bool) error {
	timer := time.NewTicker(compactPoll)
	defer timer.Stop()
	for !done() {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
