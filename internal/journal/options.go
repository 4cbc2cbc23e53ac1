package journal

import (
	"fmt"
	"log/slog"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// Options configures [Open]. The zero value opens an existing journal and replays nothing.
type Options struct {
	// Create creates a journal if the directory has none. Without it, a directory without
	// segments is Corrupt.
	Create bool
	// ReadOnly changes nothing in the directory and starts no goroutine. The journal takes no
	// frames.
	ReadOnly bool

	// From is the first position that the caller does not have, or 0 if it has none. Everything
	// before From was once on stable storage in this journal, so a journal that ends before From,
	// or begins behind it, is Corrupt. A new journal begins at From. With 0 all segments are
	// read.
	From mainstem.Position
	// Replay is called with each frame whose last position is From or higher, in order, before
	// Open returns. The Effects of the frame are valid until Replay returns. Open ends at an
	// error of Replay, and returns it unchanged.
	Replay func(Frame) error

	// FirstSegment and MaxSegment are sizes in bytes. The first segment of a process has
	// FirstSegment bytes; each further one has four times as many as the one before, up to
	// MaxSegment. A segment is larger only if one Append needs it. 0 means 1 MiB and 64 MiB. Both
	// are rounded up to pages of 4 KiB.
	FirstSegment int64
	MaxSegment   int64

	// NoRecycle removes segments instead of recycling their files. On file systems that copy on
	// write, recycling does not pay; see [MeasureSyncs].
	NoRecycle bool

	// SyncEvery is the number of bytes after which the journal is synced in the background, even
	// if no caller asks for it. That bounds the wait when a segment is full. 0 means 8 MiB, a
	// negative value never.
	SyncEvery int64

	// Logger receives failures in the background. Nil means none.
	Logger *slog.Logger
}

const (
	page             = 4 << 10 // size of a page of the cache of the operating system, in bytes
	firstSegment     = 1 << 20
	maxSegment       = 64 << 20
	segmentGrowth    = 4
	syncEvery        = 8 << 20
	smallestSegment  = 4 * page // also the size that a closed journal keeps
	recycledSegments = 2        // number of recycled files that are kept
)

func (o *Options) withDefaults() (Options, error) {
	c := *o
	if c.FirstSegment == 0 {
		c.FirstSegment = firstSegment
	}
	if c.MaxSegment == 0 {
		c.MaxSegment = max(maxSegment, c.FirstSegment)
	}
	if c.SyncEvery == 0 {
		c.SyncEvery = syncEvery
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.FirstSegment, c.MaxSegment = roundUp(c.FirstSegment, page), roundUp(c.MaxSegment, page)
	if c.FirstSegment < smallestSegment || c.MaxSegment < c.FirstSegment || c.MaxSegment > format.MaxJournalSegment {
		return c, mainstem.Errorf(mainstem.KindInvalid, "open journal", "segments of %d to %d bytes", o.FirstSegment, o.MaxSegment).
			WithHint(fmt.Sprintf("choose sizes from %d to %d, the first not above the other", smallestSegment, format.MaxJournalSegment))
	}
	return c, nil
}

// roundUp returns the lowest multiple of unit, a power of two, that is at least n.
func roundUp(n, unit int64) int64 { return (n + unit - 1) &^ (unit - 1) }
