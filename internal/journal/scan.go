package journal

import (
	"errors"
	"io"

	"github.com/mainstemdev/mainstem/internal/format"
)

// scanner reads the frames of one segment in order and verifies everything that it reads. It
// allocates no more memory than the segment has bytes left, and ends at the first bytes that do
// not continue the frame before.
type scanner struct {
	f     io.ReaderAt
	limit int64  // bytes of the file that may hold frames
	seed  uint32 // of the segment
	prev  uint32 // checksum of the frame before, or of the header
	last  uint64 // last position of the frame before
	at    int64  // offset of the next frame
	mark  int64  // highest mark of the frames before; 0: none
	exact bool   // a frame is known to be at at: it need not continue the one before, and no more than the frame is read

	buf   []byte // bytes of the file from start on
	start int64
}

// readAhead is the number of bytes of a segment that are read at once.
const readAhead = 256 << 10

// next returns the frame at s.at and its effects, which are valid until the next call, and moves
// behind it. If there is no frame, it returns false and does not move.
func (s *scanner) next() (f format.Frame, effects []byte, ok bool, err error) {
	p, err := s.window(s.at, format.JournalFrame)
	if err != nil {
		return f, nil, false, err
	}
	f, sum, err := format.DecodeFrame(p, s.seed, s.limit-s.at)
	if err != nil || !s.exact && (f.Previous != s.prev || f.First <= s.last) || int64(f.Stable) > s.at {
		return f, nil, false, nil
	}
	p, err = s.window(s.at, f.Size())
	if err != nil || int64(len(p)) < f.Size() || !f.CheckEffects(p[format.JournalFrame:f.Size()]) {
		return f, nil, false, err
	}
	s.at += f.Size()
	s.prev, s.last, s.mark = sum, f.Last(), max(s.mark, int64(f.Stable))
	return f, p[format.JournalFrame:][:f.Length:f.Length], true, nil
}

// proven looks behind the bytes at s.at, which are no frame, for a frame which says that they
// were on stable storage when it was written. It returns its offset. A valid header of a frame is
// sufficient.
func (s *scanner) proven() (off int64, found bool, err error) {
	at := s.at
	for off = at + 8; off+format.JournalFrame <= s.limit; {
		p, err := s.window(off, min(readAhead, s.limit-off))
		if err != nil {
			return 0, false, err
		}
		if len(p) < format.JournalFrame {
			return 0, false, nil // the file is shorter than its header says
		}
		for ; len(p) >= format.JournalFrame; p, off = p[8:], off+8 {
			// The mark alone excludes most offsets, and cheaply, which matters because all of
			// them are tried.
			if stable := int64(format.PeekStable(p)); stable <= at || stable > off {
				continue
			}
			if _, _, err := format.DecodeFrame(p, s.seed, s.limit-off); err == nil {
				return off, true, nil
			}
		}
	}
	return 0, false, nil
}

// window returns at least n bytes of the file from off on, unless the file or the limit ends
// before.
func (s *scanner) window(off, n int64) ([]byte, error) {
	n = max(min(n, s.limit-off), 0)
	if i := off - s.start; i >= 0 && i+n <= int64(len(s.buf)) {
		return s.buf[i:], nil
	}
	want := n
	if !s.exact {
		want = min(max(n, readAhead), s.limit-off)
	}
	if int64(cap(s.buf)) < want {
		s.buf = make([]byte, want)
	}
	got, err := s.f.ReadAt(s.buf[:want], off)
	s.buf, s.start = s.buf[:got], off
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return s.buf, nil
}
