package journal

import (
	"fmt"
	"log/slog"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// Options of [Open]. The zero value opens a journal that exists and replays nothing.
type Options struct {
	// Create makes a journal if the directory holds none. Without it, a directory
	// without segments is Corrupt: they were there.
	Create bool
	// ReadOnly changes nothing in the directory and starts no goroutine; the journal
	// takes no frames.
	ReadOnly bool

	// From is the first position that the caller does not have, 0 if it has none. What is
	// before From was once on stable storage in this journal, so a journal that ends before
	// it is Corrupt, and so is one that begins behind it. A journal that is created begins
	// there. 0 also means that no segment is skipped without being read.
	From mainstem.Position
	// Replay is called with each frame whose last position is From or higher, in order,
	// before Open returns. The frame's Effects are valid until it returns. Its error ends
	// Open and is returned as it is.
	Replay func(Frame) error

	// FirstSegment and MaxSegment bound the bytes of a segment: the first of a process
	// has FirstSegment, each that follows a full one four times as much as that, up to
	// MaxSegment. A segment is larger only if one Append needs it. 0 means 1 MiB and
	// 64 MiB. They are rounded up to pages of 4 KiB.
	FirstSegment int64
	MaxSegment   int64

	// NoRecycle removes segments instead of using their files again. On file systems
	// that copy on write, recycling does not pay; see [MeasureSyncs].
	NoRecycle bool

	// SyncEvery is how many bytes are written before they are brought to stable storage
	// in the background although nobody asked: it bounds the wait when a segment is full.
	// 0 means 8 MiB; negative never.
	SyncEvery int64

	// Logger is told about failures in the background. Nil means none.
	Logger *slog.Logger
}

const (
	page             = 4 << 10 // bytes that the operating system caches as one
	firstSegment     = 1 << 20
	maxSegment       = 64 << 20
	segmentGrowth    = 4
	syncEvery        = 8 << 20
	smallestSegment  = 4 * page // also what a journal that is closed keeps
	recycledSegments = 2        // files that are kept to be used again
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
