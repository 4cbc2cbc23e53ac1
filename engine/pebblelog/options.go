package pebblelog

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
)

// Options configures a log. A nil Options and zero fields mean the defaults. Open copies them.
type Options struct {
	// Durability is the durability of batches that do not ask for one. Default [mainstem.Fsync].
	Durability mainstem.Durability
	// Limits bounds the size of a value and of a batch. Either has at most 256 MiB. Defaults: see
	// [mainstem.Limits].
	Limits mainstem.Limits
	// BatchIDAge is how long batch IDs are remembered (law 6). Default 24h.
	BatchIDAge time.Duration
	// CacheBytes is the memory, in bytes, that is reserved for uncompressed blocks of sorted
	// files. Blocks also use memory of the memtables while these do not. Malloc has them, and
	// holds far more than that in a program that does not import package onearena. Default 64 MiB.
	CacheBytes int64
	// MemTableBytes is the size, in bytes, at which a memtable is flushed to a sorted file.
	// Memtables take up to twice as much, and so does the journal on disk. The hot tier, which
	// serves reads of the newest records, takes as much again. Default 32 MiB.
	MemTableBytes int
	// KeyStateCache is the number of keys for which the committer caches the newest version.
	// Default 65,536.
	KeyStateCache int
	// MinFree is the free disk space, in bytes, below which commits fail with Unavailable, so that
	// the disk does not fill up in the middle of a commit. Operations that only remove go on down
	// to a sixteenth of it: deletes without headers, forget, truncate, dropping and altering
	// spaces, and the enforcement of ages, sizes and times to live. Default 64 MiB; a negative
	// value turns the check off.
	MinFree int64
	// SweepEvery is the interval at which age and size limits of spaces are enforced on disk, and
	// at which the clock is checked for having been set back, which commits notice at once.
	// Default 10s. Times to live are enforced when they end, independent of it.
	SweepEvery time.Duration
	// Now returns the time. Default [time.Now].
	Now func() time.Time
	// Monotonic returns the time since some fixed moment, by a clock that is never set; jumps of
	// Now are found by comparing the two. Default: the monotonic readings in the times of Now; if
	// they have none, jumps are not found.
	Monotonic func() time.Duration
	// Logger receives messages for operators. Default: discards them.
	Logger *slog.Logger
	// FS is the file system. Default: that of the operating system, with new files readable by the
	// owner of the process only. Tests inject faults here.
	FS vfs.FS
	// Upgrade lets Open raise the format of a log that an older version has written; the older
	// version cannot read it afterwards: see docs/format.md. Without Upgrade, Open fails with
	// Invalid for such a log. With ReadOnly nothing is changed, so Upgrade is not needed.
	Upgrade bool
	// MustExist makes Open fail with NotFound instead of creating a log.
	MustExist bool
	// ReadOnly opens an existing log without writing anything, for directories that cannot be
	// written. Commits, sweeps and backups fail with Denied. The lock of the directory is taken if
	// possible; otherwise another process that writes to the directory is not detected.
	ReadOnly bool

	inMemory bool // no journal: nothing outlives the process
	hotBytes int  // size of the hot tier; 0: MemTableBytes. Tests make it small
}

// Defaults of Options.
const (
	DefaultBatchIDAge    = 24 * time.Hour
	DefaultCacheBytes    = 64 << 20
	DefaultMemTableBytes = 32 << 20
	DefaultKeyStateCache = 1 << 16
	DefaultMinFree       = 64 << 20
	DefaultSweepEvery    = 10 * time.Second
)

func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	c.Durability = cmp.Or(c.Durability, mainstem.Fsync)
	c.Limits = c.Limits.WithDefaults()
	c.BatchIDAge = cmp.Or(c.BatchIDAge, DefaultBatchIDAge)
	c.CacheBytes = cmp.Or(c.CacheBytes, DefaultCacheBytes)
	c.MemTableBytes = cmp.Or(c.MemTableBytes, DefaultMemTableBytes)
	c.hotBytes = cmp.Or(c.hotBytes, c.MemTableBytes)
	c.KeyStateCache = cmp.Or(c.KeyStateCache, DefaultKeyStateCache)
	c.MinFree = cmp.Or(c.MinFree, DefaultMinFree)
	c.SweepEvery = cmp.Or(c.SweepEvery, DefaultSweepEvery)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.FS == nil {
		c.FS = systemFS
	}
	return c
}

// maxBatchBytes bounds Limits.MaxBatchBytes. A run is one frame, of at most 1 GiB. It holds a batch
// of the largest size and up to groupBytes of others, and a frame has small values twice: with
// their records and in the feed.
const maxBatchBytes = 256 << 20

// Validate returns an error of kind Invalid that names every field out of range.
func (o *Options) Validate() error {
	if o == nil {
		return nil
	}
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(o.Durability >= mainstem.OS, "Durability %d is not one that this version knows", int64(o.Durability))
	check(o.Limits.MaxValue >= 0 && o.Limits.MaxBatchBytes >= 0 && o.Limits.MaxBatchWrites >= 0, "Limits %+v: want 0 (default) or more", o.Limits)
	check(o.Limits.MaxBatchBytes <= maxBatchBytes, "Limits.MaxBatchBytes is %d: the most is %d", o.Limits.MaxBatchBytes, maxBatchBytes)
	check(o.Limits.MaxValue <= maxBatchBytes, "Limits.MaxValue is %d: the most is %d", o.Limits.MaxValue, maxBatchBytes)
	check(o.BatchIDAge >= 0, "BatchIDAge is %v: want 0 (default) or more", o.BatchIDAge)
	check(o.CacheBytes >= 0, "CacheBytes is %d: want 0 (default) or more", o.CacheBytes)
	check(o.MemTableBytes >= 0 && o.MemTableBytes <= 1<<30, "MemTableBytes is %d: want 0 (default) to %d", o.MemTableBytes, 1<<30)
	check(o.KeyStateCache >= 0, "KeyStateCache is %d: want 0 (default) or more", o.KeyStateCache)
	check(o.SweepEvery >= 0, "SweepEvery is %v: want 0 (default) or more", o.SweepEvery)
	if len(errs) == 0 {
		return nil
	}
	return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "open options", Err: errors.Join(errs...)}
}
