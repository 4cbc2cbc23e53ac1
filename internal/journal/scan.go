package journal

import (
	"errors"
	"io"

	"github.com/mainstemdev/mainstem/internal/format"
)

// scanner reads the frames of one segment in order. It checks everything that it reads:
// it takes no more memory than the bytes that the segment has left, and ends at the
// first bytes that do not continue the frame before.
type scanner struct {
	f     io.ReaderAt
	limit int64  // bytes of the file that may hold frames
	seed  uint32 // of the segment
	prev  uint32 // checksum of the frame before, or of the header
	last  uint64 // the last position before
	at    int64  // where the next frame begins
	exact bool   // at is known to be a frame: what is before it does not count, and no more is read

	buf   []byte // the bytes of the file from start on
	start int64
}

// readAhead is how many bytes of a segment are read at once.
const readAhead = 256 << 10

// next returns the frame at s.at and its effects, which are valid until the next call,
// and steps behind it. It returns false, and does not move, if there is none.
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
	s.prev, s.last = sum, f.Last()
	return f, p[format.JournalFrame:][:f.Length:f.Length], true, nil
}

// proven reports whether a frame behind the bytes at s.at, which are none, says that
// they were on stable storage when it was written, and where that frame is. The header
// of a frame is proof enough.
func (s *scanner) proven() (off int64, found bool, err error) {
	at := s.at
	for off = at + 8; off+format.JournalFrame <= s.limit; {
		p, err := s.window(off, min(readAhead, s.limit-off))
		if err != nil {
			return 0, false, err
		}
		if len(p) < format.JournalFrame {
			return 0, false, nil // the file is shorter than it says
		}
		for ; len(p) >= format.JournalFrame; p, off = p[8:], off+8 {
			// The mark alone rules most places out, and that is what the search takes time for.
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

// window returns the bytes of the file from off on: n of them, unless the file or the
// limit ends before. It returns more if it has them.
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
