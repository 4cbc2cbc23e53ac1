package journal

import (
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
)

// Frame is what one group of batches does: the unit that is there wholly or not at all
// after a crash.
type Frame struct {
	// First is the first position of the frame, above the last of the frame before.
	// Append takes 0 for the next one, and sets it. Count is how many positions it has,
	// at least one.
	First mainstem.Position
	Count uint32

	Time  int64 // of its records, unix ns; the journal does not interpret it
	Clock int64 // what the clock showed, unix ns; the same

	// Effects are opaque bytes. Append copies them. In a frame that was read they are
	// valid until the next one is.
	Effects []byte

	// Place is where the frame is, for [Journal.ReadAt]. Append sets it.
	Place Place
}

// Place is where a frame is in a journal, as long as it is not truncated.
type Place struct {
	Segment uint64 // its number
	Offset  int64  // bytes
}

// Last returns the last position of the frame.
func (f *Frame) Last() mainstem.Position { return f.First + mainstem.Position(f.Count) - 1 }

// Journal is an open journal. Its methods may be called from many goroutines, except
// that the order of frames is that of the calls of [Journal.Append].
//
// Locks, in this order: truncating, mu, syncs.mu and spares.mu.
type Journal struct {
	fs   vfs.FS
	dir  string
	opts Options

	// The newest segment that this process appends to, nil until the first Append. It
	// changes while mu is held and nobody syncs.
	current atomic.Pointer[segment]

	written atomic.Uint64 // the last position that is with the operating system
	durable atomic.Uint64 // the last position on stable storage; never above written
	failure atomic.Pointer[failedWrite]

	spares     spares
	syncs      syncs
	background background
	truncating sync.Mutex // one truncation at a time

	mu struct {
		sync.Mutex
		// All segments, oldest first. The last one is current, or if that is nil the
		// one that was recovered; nothing is appended to that.
		segments []*segment
		pins     map[*pin]struct{}
		buf      []byte // of the frames that are being written
		nextSize int64  // of the next segment
		fresh    bool   // the next segment must not hold old frames
		asked    bool   // for a spare, since the current segment began
		unsynced int64  // bytes since a sync was asked for in the background
		closed   bool

		appends, rotations int64
	}
}

// Written returns the last position that survives a killed process, 0 if there is none.
func (j *Journal) Written() mainstem.Position { return mainstem.Position(j.written.Load()) }

// Durable returns the last position that survives a power cut, 0 if there is none.
// Readers that must not see what a power cut may take back stop there.
func (j *Journal) Durable() mainstem.Position { return mainstem.Position(j.durable.Load()) }

// Err returns the failed write or sync after which the journal takes no more frames, of
// kind Unavailable, or nil.
func (j *Journal) Err() error {
	if f := j.failure.Load(); f != nil {
		return f.refused()
	}
	return nil
}

// fail stops the journal; the first failure counts.
func (j *Journal) fail(f *failedWrite) *failedWrite {
	if j.failure.CompareAndSwap(nil, f) {
		j.opts.Logger.Error("the journal takes no more frames", "error", f)
	}
	return j.failure.Load()
}

// Stats are numbers for metrics and for people.
type Stats struct {
	Segments      int   // files with frames
	SegmentBytes  int64 // of those files
	SpareBytes    int64 // of files that are ready for frames
	UnsyncedBytes int64 // written to the newest segment, not known to be on stable storage

	First   mainstem.Position // the journal has every frame that was written above it
	Written mainstem.Position
	Durable mainstem.Position

	Appends   int64 // since Open
	Syncs     int64 // of segments
	Rotations int64 // segments begun
	Zeroed    int64 // files written with zeros
}

// Stats returns the present numbers.
func (j *Journal) Stats() Stats {
	s := Stats{
		Durable: j.Durable(), Syncs: j.syncs.done.Load(),
		SpareBytes: j.spares.size.Load(), Zeroed: j.spares.zeroed.Load(),
	}
	s.Written = j.Written() // after Durable, which is never above it
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
