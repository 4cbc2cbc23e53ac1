package journal

import (
	"fmt"

	"github.com/mainstemdev/mainstem/internal/format"
)

// Recovery relies on the following, besides the order of steps in beginSegment:
//
// The segments of a journal have numbers without gaps. Segments below a gap are left over from a
// truncation that a power cut has interrupted, unless a segment was lost. The caller knows whether
// the journal begins early enough: it says so with Options.From, or when it truncates.
//
// The header of each segment has the end of the segment before, and the checksum of its last
// frame. All of that segment was on stable storage before the header was written, so any
// difference is damage.
//
// The newest segment ends at the first bytes that do not continue it. If a frame behind these
// bytes says that they were on stable storage when it was written, they are damaged. Otherwise
// they may never have been on stable storage: after a power cut any combination of the unsynced
// pages may be there. So complete frames behind the end are ignored.

// recover reads the directory, whose names are given, and replays it. It changes nothing.
func (j *Journal) recover(names []string) error {
	numbers, leftover := j.run(names)
	j.mu.leftover = leftover
	if len(numbers) == 0 {
		if !j.opts.Create {
			return missing(j.dir, "no segment of the journal is left")
		}
		j.begin(max(uint64(j.opts.From), 1) - 1)
		return nil
	}
	for i, n := range numbers {
		seg, err := j.readHeaderOf(n)
		if err != nil {
			return err
		}
		if i > 0 {
			if err := follows(j.mu.segments[i-1], seg); err != nil {
				return err
			}
		}
		j.mu.segments = append(j.mu.segments, seg)
	}
	first := j.mu.segments[0]
	if from := uint64(j.opts.From); from > 0 && first.Last >= from {
		return missing(j.dir, fmt.Sprintf("the journal begins behind position %d, in %s; positions from %d on are missing", first.Last, first.path, from))
	}
	for i, seg := range j.mu.segments {
		var next *segment
		if i+1 < len(j.mu.segments) {
			next = j.mu.segments[i+1]
		}
		if err := j.replay(seg, next); err != nil {
			return err
		}
	}
	last := j.newestLocked().last.Load()
	if from := uint64(j.opts.From); from > last+1 {
		return missing(j.dir, fmt.Sprintf("the journal ends at position %d, but once had what is before %d", last, from))
	}
	j.begin(last)
	return nil
}

// begin sets all positions up to last as written and durable, here or in another journal.
func (j *Journal) begin(last uint64) {
	j.written.Store(last)
	j.durable.Store(last)
}

// run returns the numbers of the segments in names, which must be sorted, after the last gap, and
// the paths of those before the gap.
func (j *Journal) run(names []string) (numbers []uint64, leftover []string) {
	for _, name := range names {
		n, ok := segmentNumber(name)
		if !ok {
			continue
		}
		if len(numbers) > 0 && numbers[len(numbers)-1]+1 != n {
			for _, old := range numbers {
				leftover = append(leftover, j.fs.PathJoin(j.dir, segmentName(old)))
			}
			numbers = nil
		}
		numbers = append(numbers, n)
	}
	return numbers, leftover
}

func (j *Journal) readHeaderOf(n uint64) (*segment, error) {
	path := j.fs.PathJoin(j.dir, segmentName(n))
	f, err := j.fs.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer f.Close()
	seg, _, err := readHeader(f, path, n)
	return seg, err
}

// follows returns an error unless the header of next continues seg.
func follows(seg, next *segment) error {
	switch {
	case next.Journal != seg.Journal:
		return corrupt(next.path, 0, "the segment is of another journal than "+seg.path)
	case next.Last < seg.Last || next.PreviousEnd > seg.Size:
		return corrupt(next.path, 0, "the header does not agree with that of "+seg.path)
	}
	return nil
}

// replay reads seg, which next follows unless it is nil. Except in the newest segment, it skips
// frames that the caller has according to Options.From.
func (j *Journal) replay(seg, next *segment) error {
	if next != nil && next.Last < uint64(j.opts.From) {
		seg.finish(int64(next.PreviousEnd), next.PreviousSum, next.Last)
		return nil
	}
	f, err := j.fs.Open(seg.path)
	if err != nil {
		return unreadable(seg.path, err)
	}
	defer f.Close()
	limit := int64(seg.Size)
	if next != nil {
		limit = int64(next.PreviousEnd)
	}
	s := seg.scan(f, seg.sum, limit)
	for {
		h, effects, ok, err := s.next()
		if err != nil {
			return unreadable(seg.path, err)
		}
		if !ok {
			break
		}
		if j.opts.Replay == nil || h.Count == 0 || h.Last() < uint64(j.opts.From) {
			continue
		}
		if err := j.opts.Replay(frameOf(&h, effects, seg, s)); err != nil {
			return err
		}
	}
	if err := checkEnd(seg, next, s); err != nil {
		return err
	}
	seg.finish(s.at, s.prev, s.last)
	seg.marked = max(s.mark, format.JournalHeader)
	return nil
}

// checkEnd returns an error unless s, which found no further frame in seg, is at the end of seg.
func checkEnd(seg, next *segment, s *scanner) error {
	if next != nil {
		if s.at != int64(next.PreviousEnd) || s.prev != next.PreviousSum || s.last != next.Last {
			return corrupt(seg.path, s.at, fmt.Sprintf("the frames up to byte %d were on stable storage, says the header of %s", next.PreviousEnd, next.path))
		}
		return nil
	}
	off, found, err := s.proven()
	if err != nil {
		return unreadable(seg.path, err)
	}
	if found {
		return corrupt(seg.path, s.at, fmt.Sprintf("the frame here was on stable storage, says the one at byte %d", off))
	}
	return nil
}

// finish sets the end of the frames of a recovered segment.
func (s *segment) finish(end int64, sum uint32, last uint64) {
	s.sum = sum
	s.end.Store(end)
	s.stable.Store(end)
	s.last.Store(last)
}
