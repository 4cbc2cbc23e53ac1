package journal

import (
	"math"

	"github.com/mainstemdev/mainstem"
)

// TruncateFront removes the frames up to position p, whose effects must be durable elsewhere.
// Segments without later frames become spares or are removed; the newest segment stays, and so do
// pinned ones. When it returns, the segments are gone even after a power cut. Frames that are not
// on stable storage are never removed. It is slow: call it in the background.
//
// After an error, files may be left that the next call removes. The journal is not stopped.
func (j *Journal) TruncateFront(p mainstem.Position) error { return j.truncate(p, false) }

func (j *Journal) truncate(p mainstem.Position, erase bool) error {
	j.truncating.Lock()
	defer j.truncating.Unlock()
	old, leftover, size, err := j.cutLocked(uint64(p))
	if err != nil || len(old)+len(leftover) == 0 {
		return err
	}
	left, err := j.spares.give(old, leftover, size, erase)
	if err == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.leftover = append(j.mu.leftover, left...)
	return mainstem.Errorf(mainstem.KindUnavailable, "truncate journal", "%s: %w", j.dir, err).
		WithHint("the files are removed by the next attempt, or when the log is opened again")
}

// cutLocked removes the segments without positions above p from the list and returns them, and
// the leftover files if these have none either. size is that of the next segment.
func (j *Journal) cutLocked(p uint64) (old []*segment, leftover []string, size int64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.mu.closed {
		return nil, nil, 0, &mainstem.Error{Kind: mainstem.KindClosed, Op: "truncate journal", Outcome: mainstem.NotWritten}
	}
	if err := j.Err(); err != nil || j.opts.ReadOnly {
		return nil, nil, 0, err
	}
	p = min(p, j.durable.Load(), j.pinnedLocked()-1)
	if p >= j.mu.segments[0].Last {
		leftover, j.mu.leftover = j.mu.leftover, nil
	}
	n := 0
	for n < len(j.mu.segments)-1 && j.mu.segments[n].last.Load() <= p {
		n++
	}
	old = append(old, j.mu.segments[:n]...)
	j.mu.segments = append(j.mu.segments[:0], j.mu.segments[n:]...)
	return old, leftover, j.mu.nextSize, nil
}

// pinnedLocked returns the lowest pinned position.
func (j *Journal) pinnedLocked() uint64 {
	lowest := uint64(math.MaxUint64)
	for p := range j.mu.pins {
		lowest = min(lowest, max(p.from, 1))
	}
	return lowest
}

// Shrink is [Journal.TruncateFront] for a journal that is about to be closed, or will not be
// written to for a long time: it also removes spares. If all frames are up to position p, it
// begins a segment of the smallest size, so that their segments can be removed. The next process
// begins a new segment anyway.
func (j *Journal) Shrink(p mainstem.Position) error {
	if err := j.spares.removeAll(); err != nil {
		return err
	}
	if err := j.beginSmallest(uint64(p)); err != nil {
		return err
	}
	return j.truncate(p, true)
}

// beginSmallest begins a segment of the smallest size, unless the newest one has this size, or
// has frames above p. The size of the next segment is the first size again.
func (j *Journal) beginSmallest(p uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usableLocked(); err != nil {
		return err
	}
	newest := j.newestLocked()
	if newest == nil || newest.Size <= smallestSegment || newest.last.Load() > p {
		return nil
	}
	j.mu.nextSize = smallestSegment
	_, err := j.beginSegment(0)
	j.mu.nextSize = j.opts.FirstSegment
	return err
}

// Erase returns when no file of the journal has bytes of the frames up to position p: not in
// segments, not in spares, and not behind the frames of the newest segment. It begins a segment
// in a file that had no frames. It fails with Unavailable if a pin keeps such bytes, or if they
// share a segment with a frame above p.
func (j *Journal) Erase(p mainstem.Position) error {
	if err := j.beginFresh(); err != nil {
		return err
	}
	if err := j.truncate(p, true); err != nil {
		return err
	}
	if err := j.spares.eraseRecycled(); err != nil {
		return mainstem.Errorf(mainstem.KindUnavailable, "erase from journal", "%s: %w", j.dir, err).WithHint("try again")
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.mu.leftover) > 0 {
		return mainstem.Errorf(mainstem.KindUnavailable, "erase from journal", "%s is still there", j.mu.leftover[0]).WithHint("try again")
	}
	if oldest := j.mu.segments[0]; oldest != j.current.Load() {
		return mainstem.Errorf(mainstem.KindUnavailable, "erase from journal", "%s is still needed: it holds positions up to %d", oldest.path, oldest.last.Load()).
			WithHint("end the backups and reads of the journal, write what it holds to the store, and try again")
	}
	return nil
}

// beginFresh begins a segment in a file that had no frames.
func (j *Journal) beginFresh() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usableLocked(); err != nil {
		return err
	}
	j.mu.fresh = true
	_, err := j.beginSegment(0)
	return err
}

// Rotate begins a new segment, so that everything written before is on stable storage, in files
// that are not written to any more.
func (j *Journal) Rotate() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usableLocked(); err != nil {
		return err
	}
	_, err := j.beginSegment(0)
	return err
}
