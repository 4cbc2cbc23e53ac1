package journal

import (
	"fmt"
	"iter"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// pin keeps the frames with positions from on.
type pin struct{ from uint64 }

// Pin keeps TruncateFront from removing frames with positions of at least p, until release is
// called. release may be called more than once. A backup pins the journal while it copies it.
func (j *Journal) Pin(p mainstem.Position) (release func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.pinLocked(uint64(p))
}

func (j *Journal) pinLocked(from uint64) (release func()) {
	p := &pin{from: from}
	j.mu.pins[p] = struct{}{}
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.mu.pins, p)
	}
}

// part has the frames of a segment up to an offset.
type part struct {
	seg *segment
	end int64
}

// Read returns the frames whose last position is from or higher, in order, up to the last one
// written when the iteration begins. Those up to [Journal.Durable] are on stable storage. The
// Effects of a frame are valid until the next step of the iteration. Appends, syncs and
// truncations may run meanwhile; files are kept until the iteration ends. The journal must not be
// closed before.
//
// Errors: NotFound if frames from there on were truncated; Corrupt; Closed.
func (j *Journal) Read(from mainstem.Position) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		parts, release, err := j.partsFrom(uint64(max(from, 1)))
		if err != nil {
			yield(Frame{}, err)
			return
		}
		defer release()
		for _, p := range parts {
			if !j.readPart(p, uint64(from), yield) {
				return
			}
		}
	}
}

// partsFrom pins and returns the parts of the journal that have positions of at least from.
func (j *Journal) partsFrom(from uint64) (parts []part, release func(), err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.mu.closed {
		return nil, nil, &mainstem.Error{Kind: mainstem.KindClosed, Op: "read journal", Outcome: mainstem.NotWritten}
	}
	if len(j.mu.segments) > 0 && j.mu.segments[0].Last >= from {
		return nil, nil, mainstem.Errorf(mainstem.KindNotFound, "read journal", "position %d: the journal begins behind %d", from, j.mu.segments[0].Last).
			WithHint("read what was truncated from the store")
	}
	for _, seg := range j.mu.segments {
		if seg.last.Load() >= from {
			parts = append(parts, part{seg: seg, end: seg.end.Load()})
		}
	}
	return parts, j.pinLocked(from), nil
}

// readPart yields the frames of p, and reports whether the iteration continues.
func (j *Journal) readPart(p part, from uint64, yield func(Frame, error) bool) bool {
	fail := func(err error) bool { yield(Frame{}, err); return false }
	f, err := j.fs.Open(p.seg.path)
	if err != nil {
		return fail(unreadable(p.seg.path, err))
	}
	defer f.Close()
	_, headerSum, err := readHeader(f, p.seg.path, p.seg.Number)
	if err != nil {
		return fail(err)
	}
	s := p.seg.scan(f, headerSum, p.end)
	for s.at < p.end {
		h, effects, ok, err := s.next()
		if err != nil {
			return fail(unreadable(p.seg.path, err))
		}
		if !ok {
			return fail(corrupt(p.seg.path, s.at, fmt.Sprintf("there were frames up to byte %d", p.end)))
		}
		if h.Count > 0 && h.Last() >= from && !yield(frameOf(&h, effects, p.seg, s), nil) {
			return false
		}
	}
	return true
}

// frameOf returns the frame that s has read last, from seg.
func frameOf(h *format.Frame, effects []byte, seg *segment, s *scanner) Frame {
	return Frame{
		First: mainstem.Position(h.First), Count: h.Count, Time: h.Time, Clock: h.Clock, Effects: effects,
		Place: Place{Segment: seg.Number, Offset: s.at - h.Size()},
	}
}

// ReadAt reads one frame again. Its Effects belong to the caller. It opens the file, so it is
// meant for large frames that need not stay in memory.
//
// Errors: NotFound if the frame was truncated; Corrupt; Closed.
func (j *Journal) ReadAt(at Place) (Frame, error) {
	seg, release, err := j.segmentOf(at)
	if err != nil {
		return Frame{}, err
	}
	defer release()
	f, err := j.fs.Open(seg.path)
	if err != nil {
		return Frame{}, unreadable(seg.path, err)
	}
	defer f.Close()
	s := &scanner{f: f, limit: seg.end.Load(), seed: seg.Seed(), at: at.Offset, exact: true}
	if at.Offset < format.JournalHeader || at.Offset >= s.limit {
		return Frame{}, corrupt(seg.path, at.Offset, "no frame can be here")
	}
	h, effects, ok, err := s.next()
	if err != nil {
		return Frame{}, unreadable(seg.path, err)
	}
	if !ok {
		return Frame{}, corrupt(seg.path, at.Offset, "no frame is here")
	}
	return frameOf(&h, effects, seg, s), nil
}

// segmentOf pins and returns the segment of a place.
func (j *Journal) segmentOf(at Place) (*segment, func(), error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.mu.closed {
		return nil, nil, &mainstem.Error{Kind: mainstem.KindClosed, Op: "read journal", Outcome: mainstem.NotWritten}
	}
	for _, seg := range j.mu.segments {
		if seg.Number == at.Segment {
			return seg, j.pinLocked(seg.Last + 1), nil
		}
	}
	return nil, nil, mainstem.Errorf(mainstem.KindNotFound, "read journal", "segment %d was truncated", at.Segment).
		WithHint("read what was truncated from the store")
}
