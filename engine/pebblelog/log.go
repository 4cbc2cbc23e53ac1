package pebblelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/journal"
	"github.com/mainstemdev/mainstem/internal/store"
	"github.com/mainstemdev/mainstem/internal/wake"
	"github.com/mainstemdev/mainstem/internal/wallclock"
)

// Log is a log in a directory, or in memory. It implements [mainstem.Log], [mainstem.Snapshotter],
// [mainstem.Backuper] and [mainstem.Checker]. Its methods may be called from many goroutines at
// once.
type Log struct {
	opts Options
	dir  *directory
	fs   *guardFS
	db   *pebble.DB

	journal *journal.Journal // nil: the log is in memory

	committer committer
	// Only the leader of the committer uses these fields, except where a field says otherwise.
	// Open uses them before the first leader, and close after the last one.
	tx        tx
	frame     uint64           // number of the newest frame of the journal; frames have no gaps
	frames    [1]journal.Frame // scratch
	keyStates *keyStateCache
	// written has the keys of the spaces that were created since the log was opened. A key is
	// added before its first record is readable. The leader adds keys; readers test them at the
	// same time.
	written  *store.Filter
	absent   absences // keys that reads did not find: readers add them, the leader tests them
	receipts receipts
	group    []*waiter // waiters of the present leader; scratch
	disk     diskCheck

	clock    *wallclock.Clock
	marks    atomic.Pointer[[]wallclock.Mark]
	latest   atomic.Int64 // latest reading of the clock, unix ns, that a record may have; see clock.go
	newest   atomic.Int64 // time of the newest record, unix ns
	setBacks atomic.Uint64
	unmoved  atomic.Bool // copy of moving.pending for all goroutines
	moving   moving      // of the leader only

	// What readers see. The leader changes it in this order: hot tier or Pebble, spaces, position.
	// The gate is closed from before the first change until after the last.
	spaces     atomic.Pointer[registry]
	position   atomic.Uint64 // of the newest record that is durable and published; never decreases
	commitGate commitGate
	hot        *store.Hot
	edits      atomic.Uint64 // odd while a group is shown that bypasses the hot tier; see hot.go

	betweenTiers func() // nil except in tests: called between the two tiers of a read

	followers  wake.Set[string, chan<- struct{}] // by space; after a signal the follower reads again
	done       chan struct{}                     // closed when Close ends all followers
	sweeper    *sweeper
	sweeping   chan struct{} // capacity 1: holds an element during a sweep
	reclaimer  *reclaimer
	merges     merges
	interrupts interrupts
	backups    atomic.Int32 // backups under way: their hard links keep files that the log has dropped
	trimmer    *worker      // frees segments of the journal after a flush of a memtable
	drainer    *worker      // hands groups to Pebble when enough of them are pending
	metrics    metrics
	hasIDs     atomic.Bool // there may be batch IDs that expire

	// The two states of failure. Both last until the log is opened again. In both, reads continue
	// as far as possible. broken is set just before failure.
	broken  atomic.Bool                    // Pebble has panicked: it must not be written to or closed any more
	failure atomic.Pointer[mainstem.Error] // why commits are refused; set once
	closing struct {                       // of Close; err is set before done is closed

		sync.Mutex
		begun bool
		done  chan struct{}
		err   error
	}
	readers   readers
	snapshots snapshots
}

// Open opens the log in the directory path. It creates a log if the directory is empty or does not
// exist, unless [Options.MustExist] or [Options.ReadOnly] is set. It fails with Unavailable if
// another process has the log open (the error names that process), with Invalid if the directory
// belongs to another program or has a newer format, and with Corrupt if files are damaged.
func Open(path string, o *Options) (*Log, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if path == "" {
		return nil, mainstem.Errorf(mainstem.KindInvalid, "open", "the path of the directory is empty")
	}
	opts := o.withDefaults()
	if o == nil || o.FS == nil {
		if abs, err := filepath.Abs(path); err == nil {
			path = abs // locks within a process are by name
		}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
	}
	return open(path, opts)
}

// OpenMemory opens a new log in memory: the same engine on Pebble's in-memory file system. Close
// discards it.
func OpenMemory(o *Options) (*Log, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	opts := o.withDefaults()
	opts.FS, opts.inMemory = vfs.NewMem(), true
	return open("/log", opts)
}

func open(path string, opts Options) (_ *Log, err error) {
	if opts.ReadOnly {
		opts.FS, opts.MustExist = newOverlayFS(opts.FS), true
	}
	d, fresh, err := openDirectory(opts.FS, path, opts.MustExist, opts.ReadOnly)
	if err != nil {
		return nil, err
	}
	l := newLog(d, opts)
	if err := l.load(fresh); err != nil {
		l.release()
		return nil, err
	}
	go l.trimmer.run()
	go l.drainer.run()
	if opts.ReadOnly {
		l.sweeper = &sweeper{l: l, wake: make(chan struct{}, 1)} // it does not run
		return l, nil
	}
	l.reclaimer.start()
	startSweeper(l)
	return l, nil
}

// newLog returns a log that has opened no files yet.
func newLog(d *directory, opts Options) *Log {
	l := &Log{opts: opts, dir: d, keyStates: newKeyStateCache(opts.KeyStateCache), done: make(chan struct{}), sweeping: make(chan struct{}, 1)}
	l.closing.done = make(chan struct{})
	l.readers.last = make(chan struct{}, 1)
	l.snapshots.open = map[*Snapshot]struct{}{}
	l.tx.l = l
	l.reclaimer = newReclaimer(l)
	l.absent.size = min(max(opts.KeyStateCache, minAbsences), maxAbsences)
	l.hot, l.written = store.NewHot(opts.hotBytes), store.NewFilter(writtenBytes)
	l.receipts.bytes = receiptBytes
	l.trimmer, l.drainer = newWorker(l.trimQuietly), newWorker(l.drainQuietly)
	l.clock = wallclock.New(wallclock.Options{Now: opts.Now, Monotonic: opts.Monotonic, Logger: opts.Logger, Changed: l.clockChanged})
	l.fs = newGuardFS(opts.FS, d.join(dbDir), func(err error) { _ = l.fail(err) })
	l.fs.stalled = l.interrupts.all
	return l
}

// load opens the files of the directory and makes their contents readable. After an error the
// caller calls release.
func (l *Log) load(fresh bool) error {
	l.fs.hurry.Add(1)
	defer l.fs.hurry.Add(-1)
	old := !fresh && l.dir.old()
	if old {
		if err := l.mayUpgrade(); err != nil {
			return err
		}
	} else if !fresh {
		if err := l.openJournal(); err != nil {
			return err
		}
	}
	op := "open " + l.dir.path
	var err error
	if l.db, err = l.openPebble(fresh); err != nil {
		if serr := l.sound(op); serr != nil {
			return serr // errors of Pebble after the first one are consequences of it
		}
		return mapError(op, err)
	}
	if err := l.sound(op); err != nil {
		return err
	}
	l.removeScratch()
	switch {
	case fresh:
		err = l.establish()
	case old:
		err = l.upgrade()
	default:
		err = l.replay()
	}
	if err == nil {
		err = l.loadSpaces()
	}
	if err == nil {
		err = l.beginReceipts()
	}
	return mapError(op, err)
}

// establish creates a log in a fresh directory.
func (l *Log) establish() error {
	if !l.opts.inMemory {
		if err := l.createJournal(); err != nil {
			return err
		}
	}
	return l.dir.establish(l.opts.Now())
}

// release closes everything that a failed open has opened.
func (l *Log) release() {
	l.fs.close()
	if l.db != nil && !l.broken.Load() {
		_ = l.db.Close()
	}
	if l.journal != nil {
		_ = l.journal.Close()
	}
	_ = l.dir.close()
}

// openPebble opens Pebble. It returns panics about damaged files as errors.
func (l *Log) openPebble(fresh bool) (db *pebble.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			db, err = nil, fmt.Errorf("%w: %v", pebble.ErrCorruption, p)
		}
	}()
	if !fresh && l.dir.old() {
		db, err = l.openOldPebble()
	} else {
		db, err = pebble.Open(l.dir.join(dbDir), l.pebbleOptions(fresh))
	}
	if !fresh && damaged(err) {
		err = fmt.Errorf("%w: %w", format.ErrCorrupt, err)
	}
	return db, err
}

// damageTexts are parts of the texts of Pebble's errors about damaged files (a truncated file, an
// unreadable OPTIONS file) that Pebble does not mark as corruption.
var damageTexts = []string{"object size mismatch", "from options", "key=value", "unknown option", "unknown section", "strconv."}

// damaged reports whether err, returned by opening an existing log, means that files are missing
// or damaged, although Pebble does not mark it as corruption.
func damaged(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, pebble.ErrDBDoesNotExist) || errors.Is(err, pebble.ErrDBNotPristine) || errors.Is(err, fs.ErrNotExist) {
		return true
	}
	return slices.ContainsFunc(damageTexts, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// memTables is the usual number of memtables: one is written to while the one before is flushed.
const memTables = 2

func (l *Log) pebbleOptions(fresh bool) *pebble.Options {
	o := &pebble.Options{
		FS:                          l.fs,
		Comparer:                    comparer,
		FormatMajorVersion:          pebble.FormatNewest,
		CacheSize:                   l.opts.CacheBytes + memTables*int64(l.opts.MemTableBytes), // Pebble takes its memtables out of the cache
		MemTableSize:                uint64(l.opts.MemTableBytes),
		Logger:                      logger{l},
		ErrorIfNotExists:            !fresh,
		DisableWAL:                  true,
		MaxOpenFiles:                1 << 12,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       24,
		DisableConsistencyCheck:     false,
		DisableAutomaticCompactions: l.opts.ReadOnly,
	}
	o.EventListener = &pebble.EventListener{
		BackgroundError: func(err error) {
			if errors.Is(err, errEnding) {
				return
			}
			l.interrupts.all(err)
			l.opts.Logger.Error("writing sorted files failed; it will be tried again", "error", err)
		},
		// The default of Pebble ends the process.
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			l.opts.Logger.Error("stored bytes are damaged", "file", info.Path, "error", info.Details)
		},
		FlushEnd: func(info pebble.FlushInfo) {
			if info.Err == nil {
				l.fs.flushSucceeded()
				l.trimmer.poke()
			}
		},
		CompactionBegin: l.merges.began,
		CompactionEnd:   l.merges.ended,
		WriteStallBegin: func(pebble.WriteStallBeginInfo) { l.fs.hurry.Add(1) },
		WriteStallEnd:   func() { l.fs.hurry.Add(-1) },
	}
	// By default Pebble stores all versions of a key except the newest apart from their keys, in the
	// same file and in files of their own. Reads of all versions would look into both.
	o.Experimental.SpanPolicyFunc = func([]byte) (pebble.SpanPolicy, []byte, error) {
		return pebble.SpanPolicy{
			DisableValueSeparationBySuffix: true,
			ValueStoragePolicy:             pebble.ValueStorageLowReadLatency,
		}, nil, nil
	}
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionFastest })
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].BlockSize, o.Levels[i].IndexBlockSize = blockSize, indexBlockSize
	}
	return o
}

// The sizes, in bytes, of blocks of sorted files before compression. A stream of a hundred small
// events is in two or three blocks. An index of one block, as files of a few MB have, is in memory
// after the first look into the file; a larger one has an index of its own, and a look reads two.
const (
	blockSize      = 8 << 10
	indexBlockSize = 32 << 10
)

// Path returns the directory of the log.
func (l *Log) Path() string { return l.dir.path }

// ID returns the identity that the log was given when it was created.
func (l *Log) ID() string { return l.dir.id.ID }

// Head implements [mainstem.Reader].
func (l *Log) Head(context.Context) (mainstem.Position, error) {
	if err := l.usable("head"); err != nil {
		return 0, err
	}
	return mainstem.Position(l.position.Load()), nil
}

// usable returns an error of kind Closed once Close has begun.
func (l *Log) usable(op string) error {
	if l.readers.closed.Load() {
		return &mainstem.Error{Kind: mainstem.KindClosed, Op: op}
	}
	return nil
}

// Close implements [mainstem.Log].
func (l *Log) Close() error {
	l.closing.Lock()
	begun := l.closing.begun
	l.closing.begun = true
	l.closing.Unlock()
	if begun {
		<-l.closing.done
		return l.closing.err
	}
	l.closing.err = l.close()
	close(l.closing.done)
	return l.closing.err
}

// close stops the log, the layers above first. Each step relies on those before it:
//
//  1. The sweeper and the reclaimer end: they would commit, or wait for Pebble.
//  2. The committer refuses new work and finishes the queue: from now on no frame is written.
//  3. Followers are woken and end; snapshots are closed; reads under way end. After that only
//     the two workers use Pebble or the hot tier.
//  4. The drainer ends, the pauses of the file system end, the trimmer ends.
//  5. What is in memory is written to sorted files, and the files are closed.
//  6. The lock of the directory is released last, so another process finds complete files.
func (l *Log) close() error {
	if !l.opts.ReadOnly {
		l.sweeper.stop()
		l.reclaimer.stop()
	}
	l.committer.close()
	close(l.done)
	l.snapshots.closeAll()
	l.readers.close()
	l.drainer.stop()
	l.fs.close()
	l.trimmer.stop()
	err := l.closeFiles()
	if cerr := l.dir.close(); err == nil {
		err = cerr
	}
	return mapError("close "+l.dir.path, err)
}

// closeFiles flushes everything in memory to sorted files, so that the next open has nothing to
// replay, and closes these files and the journal.
func (l *Log) closeFiles() error {
	var err error
	if l.failure.Load() == nil && !l.opts.ReadOnly {
		if err = l.drainHot(); err == nil {
			err = l.db.Flush()
		}
		if err == nil {
			l.shrinkJournal()
		}
	}
	l.fs.ending.Store(true)
	if !l.broken.Load() { // after a panic of Pebble its goroutines may block without end
		if cerr := l.db.Close(); err == nil {
			err = cerr
		}
	}
	if l.journal != nil {
		if cerr := l.journal.Close(); err == nil {
			err = cerr
		}
	}
	if err == nil {
		err = l.sound("close " + l.dir.path)
	}
	return err
}

// close refuses new work and waits for work under way. Without a leader there is none: see the
// invariants in commit.go.
func (c *committer) close() {
	c.mu.Lock()
	c.mu.closed = true
	if !c.mu.leading {
		c.mu.Unlock()
		return
	}
	idle := make(chan struct{})
	c.mu.idle = idle
	c.mu.Unlock()
	<-idle
}

// readers counts the reads under way, so that Close can wait for them. A RWMutex would not do,
// because reads nest: a loop over Scan may call Get.
//
// begin first counts and then reads closed; close first sets closed and then reads the count. So
// if a read and a Close run at the same time, at least one of them sees the other: the read
// returns Closed, or Close waits for it.
type readers struct {
	closed atomic.Bool
	n      atomic.Int64
	last   chan struct{} // capacity 1: n fell to zero after closed was set
}

// begin is called before a read touches Pebble, and end after it. ok is false once the log is
// closed.
func (r *readers) begin() (ok bool) {
	r.n.Add(1)
	if r.closed.Load() {
		r.end()
		return false
	}
	return true
}

func (r *readers) end() {
	if r.n.Add(-1) == 0 && r.closed.Load() {
		wake.Signal(r.last)
	}
}

func (r *readers) close() {
	r.closed.Store(true)
	for r.n.Load() != 0 {
		<-r.last
	}
}
