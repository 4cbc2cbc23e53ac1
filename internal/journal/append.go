package journal

import (
	"fmt"
	"math"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// Commit appends frames, like [Journal.Append], and returns when they have durability d: for OS
// and for an interval when they are written, and with an interval they are synced within it;
// otherwise after a sync. It returns the last position of the last frame.
//
// The outcome of an error says whether the frames are certainly not written, or may be written.
// In the latter case the journal takes no more frames.
func (j *Journal) Commit(d mainstem.Durability, frames ...Frame) (mainstem.Position, error) {
	last, err := j.Append(frames)
	if err != nil || d == mainstem.OS {
		return last, err
	}
	if period, ok := d.Period(); ok {
		j.SyncWithin(period)
		return last, nil
	}
	return last, j.Sync(last)
}

// Append writes frames, in this order, with one write, and returns the last position of the last
// frame. After it has returned, they survive a killed process; for power cuts see [Journal.Sync].
// It sets First of frames that have none, and Place of all. It copies the Effects.
//
// Errors: Invalid for frames that are empty, too large or out of order; Unavailable, not written,
// if no segment can be made for them, after which a later call may succeed; Unavailable, outcome
// unknown, if the write fails; Unavailable, not written, after a failed write; Closed. It may
// wait for a new segment.
func (j *Journal) Append(frames []Frame) (mainstem.Position, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usableLocked(); err != nil {
		return 0, err
	}
	size, err := j.placeLocked(frames)
	if err != nil {
		return 0, err
	}
	seg := j.current.Load()
	if seg == nil || seg.full || seg.end.Load()+size > int64(seg.Size)-closingFrame {
		if seg, err = j.beginSegment(size); err != nil {
			return 0, err
		}
	}
	sum := j.encodeLocked(seg, frames)
	last := frames[len(frames)-1].Last()
	if f := j.writeLocked(seg, size); f != nil {
		return 0, f.unknown()
	}
	seg.sum = sum
	seg.end.Store(seg.end.Load() + size)
	seg.last.Store(uint64(last))
	j.written.Store(uint64(last))
	j.mu.appends++
	j.startWorkLocked(seg, size)
	return last, nil
}

// closingFrame is the space, in bytes, that every segment keeps free for the frame that Close
// writes.
const closingFrame = format.JournalFrame

// keptBuffer is the size, in bytes, up to which the buffer of frames is kept after a large group.
const keptBuffer = 1 << 20

func (j *Journal) usableLocked() error {
	switch {
	case j.mu.closed:
		return &mainstem.Error{Kind: mainstem.KindClosed, Op: "append to journal", Outcome: mainstem.NotWritten}
	case j.opts.ReadOnly:
		return &mainstem.Error{Kind: mainstem.KindUnsupported, Op: "append to journal", Outcome: mainstem.NotWritten, Hint: "the journal was opened to be read"}
	}
	return j.Err()
}

// placeLocked gives positions to frames and returns their size in bytes.
func (j *Journal) placeLocked(frames []Frame) (size int64, err error) {
	last := j.written.Load()
	for i := range frames {
		f := &frames[i]
		if f.First == 0 {
			f.First = mainstem.Position(last + 1)
		}
		if uint64(f.First) <= last || f.Count == 0 || uint64(f.First) > math.MaxUint64-uint64(f.Count) {
			return 0, mainstem.Refusef(mainstem.KindInvalid, "append to journal", "frame of %d positions from %d on, after position %d", f.Count, f.First, last).WithHint("frames need a position or more, above those before")
		}
		last = uint64(f.Last())
		size += format.FrameSize(int64(len(f.Effects)))
	}
	if most := int64(format.MaxJournalSegment - format.JournalHeader - closingFrame); size > most || size == 0 {
		return 0, mainstem.Refusef(mainstem.KindInvalid, "append to journal", "%d bytes", size).WithHint(fmt.Sprintf("append from one frame to %d bytes at a time", most))
	}
	return size, nil
}

// encodeLocked encodes frames for their place in seg into mu.buf, and returns the checksum of the
// last one.
func (j *Journal) encodeLocked(seg *segment, frames []Frame) uint32 {
	buf, sum, seed := j.mu.buf[:0], seg.sum, seg.Seed()
	for i := range frames {
		f := &frames[i]
		h := format.Frame{
			Previous: sum, Stable: uint32(seg.stable.Load()),
			Count: f.Count, First: uint64(f.First), Time: f.Time, Clock: f.Clock,
		}
		f.Place = Place{Segment: seg.Number, Offset: seg.end.Load() + int64(len(buf))}
		buf, sum = format.AppendFrame(buf, seed, &h, f.Effects)
	}
	j.mu.buf = buf
	return sum
}

// writeLocked writes the size bytes in mu.buf to the end of seg. If it is the first write to a
// page, it also writes the rest of the page, with zeros: otherwise the operating system would
// have to read the page of a recycled file first, unless it is cached.
func (j *Journal) writeLocked(seg *segment, size int64) *failedWrite {
	off := seg.end.Load()
	if end := off + size; end > seg.touched {
		seg.touched = roundUp(end, page)
		j.mu.buf = append(j.mu.buf, zeroPage[:seg.touched-end]...)
	}
	err := writeAt(seg.file, j.mu.buf, off)
	if cap(j.mu.buf) > keptBuffer {
		j.mu.buf = nil
	}
	if err != nil {
		return j.fail(&failedWrite{path: seg.path, off: off, err: err})
	}
	return nil
}

var zeroPage [page]byte
