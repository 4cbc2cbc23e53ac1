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

// Options tune a log. Nil and zero fields mean the defaults. Open copies them.
type Options struct {
	// Durability of batches that do not ask for one. Default [mainstem.Fsync].
	Durability mainstem.Durability
	// Limits of one value and one batch. Defaults: see [mainstem.Limits].
	Limits mainstem.Limits
	// BatchIDAge is how long the IDs of batches are remembered (law 6). Default 24h.
	BatchIDAge time.Duration
	// CacheBytes is the room for uncompressed blocks that the tables in memory never
	// take; what they leave of theirs holds blocks too. Default 64 MiB.
	CacheBytes int64
	// MemTableBytes is how much is collected in memory before it is written out as a
	// sorted file; up to twice as much is held, and kept in the journal. As much again
	// keeps what was written lately ready for readers. Default 32 MiB.
	MemTableBytes int
	// KeyStateCache is how many keys' newest versions the committer remembers. Default 65,536.
	KeyStateCache int
	// MinFree is the free disk space, in bytes, below which commits fail with
	// Unavailable, so that the disk never fills in the middle of one. What only removes
	// goes on down to a sixteenth of it: deletes without headers, forget, truncate,
	// dropping and altering spaces, and the enforcement of ages, sizes and times to live.
	// Default 64 MiB; negative turns the check off.
	MinFree int64
	// SweepEvery is how often age and size limits of spaces are enforced on disk, and how
	// often it is looked whether the clock was set back, which commits notice at once.
	// Default 10s. Times to live are enforced when they end, whatever this is.
	SweepEvery time.Duration
	// Now is the clock. Default [time.Now].
	Now func() time.Time
	// Monotonic is the time since some fixed moment by a clock that nobody sets; jumps of
	// Now are noticed by it. Default: the monotonic readings of Now's times; if they have
	// none, Now is always believed.
	Monotonic func() time.Duration
	// Logger receives what an operator should know. Default: discards.
	Logger *slog.Logger
	// FS is the file system. Default: the operating system's, where only the owner of
	// the process may read what the log creates. Tests inject faults here.
	FS vfs.FS
	// Upgrade raises the format of a log that an older version has written, which only reads
	// its own: see docs/format.md. Without it Open fails with Invalid for such a log. What is
	// opened with ReadOnly is not changed, and needs no Upgrade.
	Upgrade bool
	// MustExist makes Open fail with NotFound instead of creating a new log.
	MustExist bool
	// ReadOnly opens a log that exists without writing anything, for a directory that cannot
	// be written. Commits, sweeps and backups fail with Denied. The lock of the directory is
	// taken if it can be; where it cannot, nothing notices a process that writes to it.
	ReadOnly bool

	inMemory bool // there is no journal: nothing outlives the process
	hotBytes int  // of the hot tier; 0: MemTableBytes. Tests make it small
}

// The defaults.
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

// maxBatchBytes bounds Limits.MaxBatchBytes: Pebble cannot hold more than 4 GiB in one batch.
const maxBatchBytes = 1 << 30

// Validate reports every field out of range.
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
