package journal

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem/internal/format"
)

// segment is a file of the journal with frames in it.
type segment struct {
	format.Segment
	path string
	sum  uint32 // checksum of the last frame, or of the header; Journal.mu

	// The file is open for writing while this is the newest segment and was made by this process.
	// All frames before end were written to it; those before stable are on stable storage. last
	// is the last position in it, or before it if it has none. When they grow, they are set in
	// the order stable, end, last, under Journal.mu; a sync sets stable.
	file   vfs.File
	end    atomic.Int64
	last   atomic.Uint64
	stable atomic.Int64

	marked  int64 // of a recovered segment: all frames before it say that they were on stable storage
	touched int64 // this process has written all pages before it completely; Journal.mu
	full    bool  // nothing more is appended; Journal.mu
}

// Names of the files of a journal.
const (
	segmentSuffix  = ".journal"
	spareSuffix    = ".spare"
	temporary      = ".tmp" // of files that mean nothing after a crash
	zeroingName    = "zeroing" + temporary
	recycledPrefix = "recycled-"
	zeroedPrefix   = "zeroed-"
)

func segmentName(n uint64) string { return fmt.Sprintf("%016d%s", n, segmentSuffix) }

// segmentNumber is the inverse of segmentName.
func segmentNumber(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, ok && err == nil && n > 0 && segmentName(n) == name
}

// newSegment describes the segment after previous, which may be nil, and after last, the last
// position.
func newSegment(previous *segment, size int64, last uint64) *segment {
	s := &segment{}
	s.Size, s.Last = uint32(size), last
	s.last.Store(last)
	if previous == nil {
		s.Number = 1
		rand.Read(s.Journal[:])
		return s
	}
	s.Number, s.Journal = previous.Number+1, previous.Journal
	s.PreviousEnd, s.PreviousSum = uint32(previous.end.Load()), previous.sum
	return s
}

// scan returns a scanner of the frames of the segment in f, up to the offset limit.
func (s *segment) scan(f vfs.File, headerSum uint32, limit int64) *scanner {
	return &scanner{f: f, limit: limit, seed: s.Seed(), prev: headerSum, last: s.Last, at: format.JournalHeader}
}

// readHeader reads and verifies the header of the segment in f, whose name has the number n.
func readHeader(f vfs.File, path string, n uint64) (*segment, uint32, error) {
	p, err := (&scanner{f: f, limit: format.JournalHeader}).window(0, format.JournalHeader)
	if err != nil {
		return nil, 0, unreadable(path, err)
	}
	h, sum, err := format.DecodeSegment(p)
	if err == format.ErrNewSegment {
		return nil, 0, tooNew(path)
	}
	if err != nil || h.Number != n {
		return nil, 0, corrupt(path, 0, "not the header of this segment")
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, unreadable(path, err)
	}
	if info.Size() < int64(h.Size) {
		return nil, 0, corrupt(path, info.Size(), fmt.Sprintf("the file ends before its %d bytes", h.Size))
	}
	s := &segment{Segment: h, path: path, sum: sum, full: true}
	s.last.Store(h.Last)
	s.end.Store(format.JournalHeader)
	return s, sum, nil
}
