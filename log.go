package mainstem

import (
	"context"
	"io"
	"iter"
	"time"
)

// Log is one open store. Engines implement it; views are built on it. All
// methods may be called from many goroutines at once. The laws it obeys are in
// the package comment; package enginetest checks them.
type Log interface {
	Reader

	// Commit makes every write of b true, atomically, at one place in the order, and
	// returns when the durability asked for is reached. It fails with Conflict if a
	// condition does not hold, NotFound for a space that does not exist (see
	// [Batch.Ensure]), Invalid for what can never be committed. An error says by its
	// Outcome whether the batch is certainly not written. The views that wrote into b
	// explain a Conflict (see [Batch.Explained]): errors.As still finds the [*Error] in it.
	// Cancelling ctx takes the
	// batch back only while it has not been taken into the order.
	//
	// A batch without writes, whose conditions hold, succeeds with an empty receipt.
	Commit(ctx context.Context, b *Batch) (Receipt, error)

	SpaceManager

	// Close waits for running calls, stops followers with Closed and releases what the
	// log holds. What was acknowledged is durable afterwards, at whatever durability it
	// was committed. Closing twice is allowed.
	Close() error
}

// Reader is the reading half of a [Log], and all of a [Snapshot]. A reader never
// sees a batch in part, nor one that could still be lost at the durability it
// was committed with.
type Reader interface {
	// Get returns the newest record of key. A key that has no live value (never
	// written, deleted, expired, its newest record removed) is NotFound, and so is an
	// unknown space: an older value never comes back. The record's bytes belong to
	// the caller.
	Get(ctx context.Context, space string, key []byte) (Record, error)

	// GetMany yields one record for each of keys, in their order, all as they are at one
	// moment: what Get returns, or one with Version 0 that has nothing but Space and Key
	// where Get would say NotFound. A key may be there twice. Bytes are lent until the loop
	// body returns. No keys yield nothing; an unknown space is NotFound. More than
	// [MaxGetKeys] keys, or [MaxGetKeyBytes] bytes of keys, are Invalid.
	GetMany(ctx context.Context, space string, keys [][]byte) iter.Seq2[Record, error]

	// Scan yields the newest record of each key in r, in key order (bytewise), at one
	// moment. Bytes are lent until the loop body returns. An unknown space is NotFound.
	Scan(ctx context.Context, space string, r Range) iter.Seq2[Record, error]

	// Read yields the records of one key by version, tombstones included. Records that
	// were truncated, superseded or have expired are not there. Bytes are lent until
	// the loop body returns. An unknown space is NotFound; a key without records
	// yields nothing.
	Read(ctx context.Context, space string, key []byte, v Versions) iter.Seq2[Record, error]

	// Feed yields the records of the spaces of f that are still held, tombstones
	// included, in the order of the log, a batch never in part once the reader has
	// passed it. With Follow it then waits for more without polling. Bytes are lent
	// until the loop body returns.
	Feed(ctx context.Context, f Filter) iter.Seq2[Record, error]

	// Head returns the position of the newest record of the log, 0 if there was none.
	Head(ctx context.Context) (Position, error)
}

// SpaceManager creates, changes, drops and describes spaces.
type SpaceManager interface {
	// CreateSpace creates a space. It fails with Exists if there is one of that name.
	CreateSpace(ctx context.Context, name string, p Policy) error
	// AlterSpace gives a space a new policy; see [Policy.CanAlter]. A smaller History
	// holds for each key at the latest when it is next written.
	AlterSpace(ctx context.Context, name string, p Policy) error
	// DropSpace removes a space and all its records, exactly: no other space is
	// touched. Its name may be used anew and starts empty.
	DropSpace(ctx context.Context, name string) error
	// Space describes one space.
	Space(ctx context.Context, name string) (SpaceInfo, error)
	// Spaces yields the spaces whose names start with prefix, in the order of their names.
	Spaces(ctx context.Context, prefix string) iter.Seq2[SpaceInfo, error]
}

// Range selects keys for [Reader.Scan]. The zero Range is the whole space.
type Range struct {
	Prefix     []byte // only keys that start with it
	Start      []byte // only keys >= Start; nil means from the first
	End        []byte // only keys < End; nil means to the last, empty selects nothing
	Reverse    bool   // from the last key to the first
	Limit      int    // at most this many records; 0 means no limit
	KeysOnly   bool   // leave out values and headers
	Tombstones bool   // also keys whose newest record is a tombstone
}

// Versions selects records for [Reader.Read]. The zero Versions is all of them.
type Versions struct {
	From    Version // only records that end at From or later; 0 means from the first
	To      Version // only records that begin at To or before; 0 means to the last
	Reverse bool    // newest first
	Limit   int     // at most this many records; 0 means no limit
	Follow  bool    // then wait for new records, up to To if it is set; not with Reverse
}

// Filter selects records for [Reader.Feed]. The zero Filter is the whole log.
type Filter struct {
	Spaces    []string // only these spaces; nil means all, empty none. One that does not exist (yet) is allowed
	KeyPrefix []byte   // only keys that start with it
	After     Position // only records after this position; 0 means from the first
	Limit     int      // at most this many records; 0 means no limit
	Follow    bool     // then wait for new records
}

// ValidateKeys returns an Invalid error for keys that [Reader.GetMany] refuses.
func ValidateKeys(keys [][]byte) error {
	if len(keys) > MaxGetKeys {
		return Errorf(KindInvalid, "get many", "%d keys: the limit is %d", len(keys), MaxGetKeys).WithHint(getLess)
	}
	size := 0
	for i, key := range keys {
		if err := ValidateKey(key); err != nil {
			return Errorf(KindInvalid, "get many", "key %d: %w", i, err).WithHint(getLess)
		}
		size += len(key)
	}
	if size > MaxGetKeyBytes {
		return Errorf(KindInvalid, "get many", "the keys hold %d bytes: the limit is %d", size, MaxGetKeyBytes).WithHint(getLess)
	}
	return nil
}

// Validate returns an Invalid error for what cannot be scanned.
func (r Range) Validate() error {
	if r.Limit < 0 {
		return Errorf(KindInvalid, "scan", "Limit is %d: want 0 (none) or more", r.Limit)
	}
	return nil
}

// Validate returns an Invalid error for what cannot be read.
func (v Versions) Validate() error {
	switch {
	case v.Limit < 0:
		return Errorf(KindInvalid, "read", "Limit is %d: want 0 (none) or more", v.Limit)
	case v.Follow && v.Reverse:
		return Errorf(KindInvalid, "read", "Follow and Reverse exclude each other")
	}
	return nil
}

// Validate returns an Invalid error for what cannot be fed.
func (f Filter) Validate() error {
	if f.Limit < 0 {
		return Errorf(KindInvalid, "feed", "Limit is %d: want 0 (none) or more", f.Limit)
	}
	return nil
}

// getLess is the hint of a request for too many keys.
const getLess = "get them in several calls, each of its own moment, or all from one snapshot"

// Snapshotter is a [Log] that can be read at one moment while it goes on.
type Snapshotter interface {
	// Snapshot returns a view of the log as it is now. Close it: it holds disk space.
	Snapshot(ctx context.Context) (Snapshot, error)
}

// Snapshot is a [Reader] that does not change: nothing expires in it. Follow is
// Unsupported on it. It is Closed with its log at the latest.
type Snapshot interface {
	Reader
	Close() error
}

// Backuper is a [Log] that can copy itself while it serves.
type Backuper interface {
	// Backup writes a consistent copy of the log to w as a tar stream, which the
	// engine's own Restore reads. The copy holds every batch committed before the call.
	Backup(ctx context.Context, w io.Writer) error
}

// Checker is a [Log] that can verify everything it has stored.
type Checker interface {
	// Check walks the whole log and calls report for each inconsistency, naming where
	// it is. It returns how much was checked, and an error only if it could not go on.
	Check(ctx context.Context, report func(Problem)) (CheckStats, error)
}

// Problem is one inconsistency found by [Checker].
type Problem struct {
	Where string // space, key and version, or file
	What  string
}

// CheckStats counts what [Checker] walked.
type CheckStats struct {
	Spaces, Keys, Records, Bytes int64
}

// ClockKeeper is a [Log] that watches the clock by which records expire. A clock that
// jumps forward by more than a minute beyond what the monotonic clock of its process
// went, while the log is open, is not believed: nothing expires by the jump, for readers,
// conditions and sweeps, until AcceptClock or until the log is opened again. A clock that
// goes back is believed at once: what was written while it was ahead then expires as if
// it had been written when it went back. Times of records never decrease.
type ClockKeeper interface {
	// Clock describes the clock as it is now.
	Clock(ctx context.Context) (ClockState, error)
	// AcceptClock makes the log believe its clock as it is. It returns the state before.
	// Without a jump it does nothing.
	AcceptClock(ctx context.Context) (ClockState, error)
}

// ClockState describes the clock of a log; see [ClockKeeper].
type ClockState struct {
	Now        time.Time     // what it shows
	Held       time.Duration // by how much it jumped forward, which is not accepted; 0: it is believed
	TimesAhead time.Duration // how far the time of the newest record is ahead of it: it was ahead when that was written
	Jumps      uint64        // forward, noticed since the log was opened
	SetBacks   uint64        // found behind what was written, since the log was opened
}
