package mainstem

import (
	"context"
	"io"
	"iter"
	"time"
)

// Log is an open log. Engines implement it; views are built on it. All methods may be called from
// many goroutines at once. The package comment states its laws; package enginetest checks them.
type Log interface {
	Reader

	// Commit applies every write of b atomically, at one place in the order, and returns when b has
	// the durability asked for. It fails with Conflict if a condition does not hold, NotFound for a
	// space that does not exist (see [Batch.Ensure]), and Invalid for a batch that can never be
	// committed. The Outcome of an error says whether the batch is certainly not written. The views
	// that wrote into b explain a Conflict (see [Batch.Explained]); errors.As still finds the
	// [*Error] in it. Cancelling ctx withdraws the batch only until the engine has given it a place
	// in the order.
	//
	// A batch without writes whose conditions hold succeeds with an empty receipt.
	Commit(ctx context.Context, b *Batch) (Receipt, error)

	SpaceManager

	// Close waits for running calls, ends followers with Closed and releases the resources of the
	// log. Afterwards every acknowledged batch is on stable storage, whatever its durability was.
	// Closing twice is allowed.
	Close() error
}

// Reader is the read half of a [Log], and all of a [Snapshot]. A reader never sees part of a batch,
// nor a batch that could still be lost at the durability that its commit asked for.
type Reader interface {
	// Get returns the newest record of key. It fails with NotFound for an unknown space and for a
	// key without a live value: one that was never written, was deleted, has expired, or whose
	// newest record was removed. An older value is never returned in its place. The record's bytes
	// belong to the caller.
	Get(ctx context.Context, space string, key []byte) (Record, error)

	// GetMany yields one record for each of keys, in the order of keys, all as of one moment: the
	// record that Get would return or, where Get would return NotFound, one with Version 0 and only
	// Space and Key set. A key may occur twice. Bytes are lent until the loop body returns. Without
	// keys it yields nothing. An unknown space is NotFound; more than [MaxGetKeys] keys, or
	// [MaxGetKeyBytes] bytes of keys, are Invalid.
	GetMany(ctx context.Context, space string, keys [][]byte) iter.Seq2[Record, error]

	// Scan yields the newest record of each key in r, in key order (bytewise), at one
	// moment. Bytes are lent until the loop body returns. An unknown space is NotFound.
	Scan(ctx context.Context, space string, r Range) iter.Seq2[Record, error]

	// Read yields the records of one key in the order of their versions, tombstones included,
	// without those that were truncated or superseded or have expired. Bytes are lent until the
	// loop body returns. An unknown space is NotFound; a key without records yields nothing.
	Read(ctx context.Context, space string, key []byte, v Versions) iter.Seq2[Record, error]

	// Feed yields the records of the spaces of f that are still stored, tombstones included, in the
	// order of the log. Once the reader has passed a batch, it has seen the whole batch. With
	// Follow it then waits for new records without polling. Bytes are lent until the loop body
	// returns.
	Feed(ctx context.Context, f Filter) iter.Seq2[Record, error]

	// Head returns the position of the newest record ever written to the log, or 0 if there was
	// none.
	Head(ctx context.Context) (Position, error)
}

// SpaceManager creates, changes, drops and describes spaces.
type SpaceManager interface {
	// CreateSpace creates a space. It fails with Exists if there is one of that name.
	CreateSpace(ctx context.Context, name string, p Policy) error
	// AlterSpace gives a space a new policy; see [Policy.CanAlter]. A smaller History takes effect
	// for each key no later than its next write.
	AlterSpace(ctx context.Context, name string, p Policy) error
	// DropSpace removes a space and all its records. No other space is touched. A space created
	// again under the name is empty.
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
	Spaces    []string // only these spaces; nil means all, empty means none. A space need not exist yet
	KeyPrefix []byte   // only keys that start with it
	After     Position // only records after this position; 0 means from the first
	Limit     int      // at most this many records; 0 means no limit
	Follow    bool     // then wait for new records
}

// ValidateKeys returns an Invalid error if [Reader.GetMany] would refuse keys.
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

// Validate returns an Invalid error if a field is out of range.
func (r Range) Validate() error {
	if r.Limit < 0 {
		return Errorf(KindInvalid, "scan", "Limit is %d: want 0 (none) or more", r.Limit)
	}
	return nil
}

// Validate returns an Invalid error if the fields are out of range or exclude each other.
func (v Versions) Validate() error {
	switch {
	case v.Limit < 0:
		return Errorf(KindInvalid, "read", "Limit is %d: want 0 (none) or more", v.Limit)
	case v.Follow && v.Reverse:
		return Errorf(KindInvalid, "read", "Follow and Reverse exclude each other")
	}
	return nil
}

// Validate returns an Invalid error if a field is out of range.
func (f Filter) Validate() error {
	if f.Limit < 0 {
		return Errorf(KindInvalid, "feed", "Limit is %d: want 0 (none) or more", f.Limit)
	}
	return nil
}

// getLess is the hint in errors for requests with too many keys.
const getLess = "get them in several calls, each of its own moment, or all from one snapshot"

// Snapshotter is a [Log] that can be read as of one moment while writes continue.
type Snapshotter interface {
	// Snapshot returns a view of the log as it is now. Close it: an open snapshot keeps removed
	// records on disk.
	Snapshot(ctx context.Context) (Snapshot, error)
}

// Snapshot is a [Reader] of a log that does not change: nothing expires in it. Follow is
// Unsupported. Closing the log closes its snapshots.
type Snapshot interface {
	Reader
	Close() error
}

// Backuper is a [Log] that can be backed up while it serves.
type Backuper interface {
	// Backup writes a consistent copy of the log to w as a tar stream, which the
	// engine's own Restore reads. The copy holds every batch committed before the call.
	Backup(ctx context.Context, w io.Writer) error
}

// Checker is a [Log] that can verify all stored data.
type Checker interface {
	// Check walks the whole log and calls report for each inconsistency, with its place. It returns
	// how much was checked, and an error only if it could not continue.
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

// ClockKeeper is a [Log] that watches the clock by which records expire.
//
// If that clock jumps forward, while the log is open, by more than a minute beyond the monotonic
// clock of the process, the jump is not accepted: nothing expires because of it, for readers,
// conditions and sweeps, until AcceptClock is called or the log is opened again. A clock that goes
// back is accepted at once: records written while it was ahead then expire as if they had been
// written when it went back. Times of records never decrease.
type ClockKeeper interface {
	// Clock describes the clock as it is now.
	Clock(ctx context.Context) (ClockState, error)
	// AcceptClock accepts the clock as it is now and returns the state before. Without a jump it
	// does nothing.
	AcceptClock(ctx context.Context) (ClockState, error)
}

// FailStopper is a [Log] that may take no commits after one whose outcome it does not know, until
// it is opened again. To commit the same batch again then does not tell its outcome. So a batch
// that no other process will commit again needs no ID.
type FailStopper interface {
	// FailStop reports whether the log takes no commits after one of unknown outcome. The answer
	// is always the same.
	FailStop() bool
}

// ClockState describes the clock of a log; see [ClockKeeper].
type ClockState struct {
	Now        time.Time     // what the clock shows
	Held       time.Duration // by how much the clock jumped forward without being accepted; 0: it is accepted
	TimesAhead time.Duration // how far the time of the newest record is ahead of the clock, which was ahead when the record was written
	Jumps      uint64        // jumps forward that were noticed since the log was opened
	SetBacks   uint64        // how often the clock was found behind the times of records since the log was opened
}
