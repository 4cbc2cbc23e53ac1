package logcopy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Options tune a copy. Nil and zero fields mean the defaults.
type Options struct {
	// Prefix copies only the spaces whose names start with it. It is part of what a
	// target remembers: a copy is gone on with under the same prefix only.
	Prefix string
	// BatchBytes and BatchWrites bound one batch. Defaults [DefaultBatchBytes] and
	// [DefaultBatchWrites]. A batch that the target finds too large is split.
	BatchBytes, BatchWrites int
	// QuietBytes bounds the records of spaces without feed that are held in memory
	// at once, to be put in order. Default [DefaultQuietBytes].
	QuietBytes int
	// SyncEvery is how often what was copied is brought to stable storage while the copy
	// runs. Default [DefaultSyncEvery].
	SyncEvery time.Duration
	// Keys returns keys of a space whose versions must go on even if they hold no
	// record any more. nil means none.
	Keys func(ctx context.Context, from mainstem.Reader, space mainstem.SpaceInfo) ([][]byte, error)
	// OnProgress is called, by the goroutine of Run, several times a second. nil means never.
	OnProgress func(Progress)
	// Now is the clock. Default [time.Now].
	Now func() time.Time
}

// The defaults and limits.
const (
	DefaultBatchBytes  = 4 << 20
	DefaultBatchWrites = 1000
	DefaultQuietBytes  = 64 << 20
	DefaultSyncEvery   = 5 * time.Second
	// MaxDifferences is how many differences a report names; the others it counts.
	MaxDifferences = 100
)

func (o *Options) withDefaults() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.BatchBytes < 0 || c.BatchWrites < 0 || c.QuietBytes < 0 || c.SyncEvery < 0 {
		return c, mainstem.Errorf(mainstem.KindInvalid, "copy options", "BatchBytes %d, BatchWrites %d, QuietBytes %d, SyncEvery %v: want 0 (default) or more", c.BatchBytes, c.BatchWrites, c.QuietBytes, c.SyncEvery)
	}
	c.BatchBytes = cmp.Or(c.BatchBytes, DefaultBatchBytes)
	c.BatchWrites = cmp.Or(c.BatchWrites, DefaultBatchWrites)
	c.QuietBytes = cmp.Or(c.QuietBytes, DefaultQuietBytes)
	c.SyncEvery = cmp.Or(c.SyncEvery, DefaultSyncEvery)
	if c.OnProgress == nil {
		c.OnProgress = func(Progress) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}

// Phase is what a run is doing.
type Phase uint8

// The phases.
const (
	Copying Phase = iota
	Comparing
)

// Progress says how far a run has come.
type Progress struct {
	Phase   Phase
	Records int64   // done in this phase
	Bytes   int64   // of keys, values and headers, done in this phase
	Share   float64 // of this phase that is done, 0 to 1
}

// Report says what a run did and found.
type Report struct {
	// Resumed is true if the target held a part of the copy before.
	Resumed bool
	// Position is the position of the source up to which the target has everything.
	Position mainstem.Position
	// Head is the newest position of the source when the run ended: if it is above
	// Position, the source has moved on and another run brings the target up to date.
	Head mainstem.Position

	// What this run copied.
	Spaces, Records, Bytes int64
	// Late counts records that expired, or were about to, while the copy ran; those
	// still live stand at the end of the target, with a later time.
	Late int64
	// Later counts records that have a later time than at the source, because records
	// expired in the target while it was written.
	Later int64
	// Repaired counts changes made to what an earlier run had copied, Dropped spaces
	// that the source no longer has.
	Repaired, Dropped int64

	// Verified is what was compared.
	Verified struct{ Spaces, Keys, Records, Bytes int64 }
	// ExpiryTombstones counts tombstones of expired records: in the target they are
	// those of deletes, or stand where its own engine wrote them.
	ExpiryTombstones int64
	// Moving counts keys left out of the comparison because the source has written
	// them since.
	Moving int64
	// Hidden counts keys of spaces without feed that no list shows.
	Hidden int64
	// Differences names what differs in the end, up to [MaxDifferences]; Different
	// counts all.
	Differences []Difference
	Different   int64
}

// Difference is one thing that is not the same on both sides.
type Difference struct {
	Space   string
	Key     []byte           // nil: the space itself
	Version mainstem.Version // 0: the key itself
	What    string           // what the source has and what the target has
}

// String returns the difference on one line.
func (d Difference) String() string {
	s := "space " + d.Space
	if d.Key != nil {
		s += fmt.Sprintf(", key %.64q", d.Key)
	}
	if d.Version != 0 {
		s += fmt.Sprintf(", version %d", d.Version)
	}
	return s + ": " + d.What
}

// Err returns a Corrupt error if the two sides differ.
func (r *Report) Err() error {
	if r.Different == 0 {
		return nil
	}
	return mainstem.Errorf(mainstem.KindCorrupt, "copy", "%d differences between source and target, the first: %s", r.Different, r.Differences[0]).
		WithHint("copy into a new, empty target")
}

var errSpoiled = errors.New("the target cannot become like the source")

// spoiled is the error for a target that can no longer become right.
func spoiled(space string, key []byte, format string, args ...any) error {
	return &mainstem.Error{
		Kind: mainstem.KindCorrupt, Op: "copy", Space: space, Key: append([]byte(nil), key...),
		Err:  fmt.Errorf("%w: %w", errSpoiled, fmt.Errorf(format, args...)),
		Hint: "copy into a new, empty target",
	}
}
