package journal

import (
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
)

// Frame has the effects of one group of batches. After a crash a frame is there completely or not
// at all.
type Frame struct {
	// First is the first position of the frame, above the last position of the frame before. If
	// it is 0, Append sets it to the next position. Count is the number of positions, at least
	// one.
	First mainstem.Position
	Count uint32

	Time  int64 // of its records, unix ns; not interpreted
	Clock int64 // reading of the clock, unix ns; not interpreted

	// Effects are opaque bytes. Append copies them. In a frame that was read they are valid until
	// the next frame is read.
	Effects []byte

	// Place is the place of the frame, for [Journal.ReadAt]. Append sets it.
	Place Place
}

// Place is the place of a frame in a journal. It is valid until the frame is truncated.
type Place struct {
	Segment uint64 // number of the segment
	Offset  int64  // in the segment, in bytes
}

// Last returns the last position of the frame.
func (f *Frame) Last() mainstem.Position { return f.First + mainstem.Position(f.Count) - 1 }

// Journal is an open journal. Its methods may be called from many goroutines. Frames are in the
// order of the calls of [Journal.Append].
//
// Lock order: truncating, mu, syncs.mu and spares.mu.
type Journal struct {
	fs   vfs.FS
	dir  string
	opts Options

	// The newest segment, to which this process appends; nil until the first Append. It changes
	// while mu is held and no sync is running.
	current atomic.Pointer[segment]

	written atomic.Uint64 // last position that was written to the operating system
	durable atomic.Uint64 // last position on stable storage; ≤ written
	failure atomic.Pointer[failedWrite]

	spares     spares
	syncs      syncs
	background background
	truncating sync.Mutex // one truncation at a time

	mu struct {
		sync.Mutex
		// All segments, oldest first. The last one is current or, if current is nil, the newest
		// recovered segment, to which nothing is appended.
		segments []*segment
		leftover []string // files of frames before the first segment, which the next truncation removes
		pins     map[*pin]struct{}
		buf      []byte // encoded frames of the present Append
		nextSize int64  // of the next segment
		fresh    bool   // the next segment must not be a recycled file
		asked    bool   // a spare was requested since the current segment began
		unsynced int64  // bytes written since a sync in the background was requested
		closed   bool

		appends, rotations int64
	}
}

// Written returns the last position that survives a killed process, or 0 if there is none.
func (j *Journal) Written() mainstem.Position { return mainstem.Position(j.written.Load()) }

// Durable returns the last position that survives a power cut, or 0 if there is none. It is the
// limit for readers that must not see records which a power cut may remove.
func (j *Journal) Durable() mainstem.Position { return mainstem.Position(j.durable.Load()) }

// Err returns the error of the failed write or sync after which the journal takes no more frames,
// of kind Unavailable, or nil.
func (j *Journal) Err() error {
	if f := j.failure.Load(); f != nil {
		return f.refused()
	}
	return nil
}

// fail stops the journal and returns the first failure.
func (j *Journal) fail(f *failedWrite) *failedWrite {
	if j.failure.CompareAndSwap(nil, f) {
		j.opts.Logger.Error("the journal takes no more frames", "error", f)
	}
	return j.failure.Load()
}

// Stats has statistics for metrics and for operators.
type Stats struct {
	Segments      int   // files with frames
	SegmentBytes  int64 // of those files
	SpareBytes    int64 // of files that are ready for frames
	UnsyncedBytes int64 // written to the newest segment and not known to be on stable storage

	First   mainstem.Position // the journal has every frame above it that was written
	Written mainstem.Position
	Durable mainstem.Position

	Appends   int64 // since Open
	Syncs     int64 // of segments
	Rotations int64 // segments begun
	Zeroed    int64 // files written with zeros
}

// Stats returns the present statistics.
func (j *Journal) Stats() Stats {
	s := Stats{
		Durable: j.Durable(), Syncs: j.syncs.done.Load(),
		SpareBytes: j.spares.size.Load(), Zeroed: j.spares.zeroed.Load(),
	}
	s.Written = j.Written() // read after Durable, which is never above it
	j.mu.Lock()
	defer j.mu.Unlock()
	s.Segments, s.Appends, s.Rotations = len(j.mu.segments), j.mu.appends, j.mu.rotations
	for i, seg := range j.mu.segments {
		if i == 0 {
			s.First = mainstem.Position(seg.Last)
		}
		s.SegmentBytes += int64(seg.Size)
	}
	if c := j.current.Load(); c != nil {
		s.UnsyncedBytes = c.end.Load() - c.stable.Load()
	}
	return s
}
