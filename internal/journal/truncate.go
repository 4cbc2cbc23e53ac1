package journal

import (
	"math"

	"github.com/mainstemdev/mainstem"
)

// TruncateFront says that the frames up to position p are no longer needed: whatever
// they did is durable elsewhere. Segments without later frames become spares or are
// removed; the newest one stays, and so does what is pinned. When it returns, the
// segments are gone even after a power cut. Frames that are not on stable storage are
// never removed. It is slow; call it in the background.
//
// An error leaves files that the next Open removes, and does not stop the journal.
func (j *Journal) TruncateFront(p mainstem.Position) error { return j.truncate(p, false) }

func (j *Journal) truncate(p mainstem.Position, erase bool) error {
	j.truncating.Lock()
	defer j.truncating.Unlock()
	old, size, err := j.cutLocked(uint64(p))
	if err != nil || len(old) == 0 {
		return err
	}
	if err := j.spares.give(old, size, erase); err != nil {
		return mainstem.Errorf(mainstem.KindUnavailable, "truncate journal", "%s: %w", j.dir, err).
			WithHint("the files are removed when the log is opened again")
	}
	return nil
}

// cutLocked takes the segments without positions above p out of the list. size is that
// of the next segment.
func (j *Journal) cutLocked(p uint64) (old []*segment, size int64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.mu.closed {
		return nil, 0, &mainstem.Error{Kind: mainstem.KindClosed, Op: "truncate journal", Outcome: mainstem.NotWritten}
	}
	if err := j.Err(); err != nil || j.opts.ReadOnly {
		return nil, 0, err
	}
	p = min(p, j.durable.Load(), j.pinnedLocked()-1)
	n := 0
	for n < len(j.mu.segments)-1 && j.mu.segments[n].last.Load() <= p {
		n++
	}
	old = append(old, j.mu.segments[:n]...)
	j.mu.segments = append(j.mu.segments[:0], j.mu.segments[n:]...)
	return old, j.mu.nextSize, nil
}

// pinnedLocked returns the lowest position that is pinned.
func (j *Journal) pinnedLocked() uint64 {
	lowest := uint64(math.MaxUint64)
	for p := range j.mu.pins {
		lowest = min(lowest, max(p.from, 1))
	}
	return lowest
}

// Shrink is [Journal.TruncateFront] for a journal that is about to be closed, or not
// written to for long: it also removes the files that were kept for speed. If all frames are
// up to position p, a segment without room for more takes the place of theirs: the next
// process begins a new one anyway.
func (j *Journal) Shrink(p mainstem.Position) error {
	if err := j.spares.removeAll(); err != nil {
		return err
	}
	if err := j.beginSmallest(uint64(p)); err != nil {
		return err
	}
	return j.truncate(p, true)
}

// beginSmallest begins a segment of the smallest size, unless the newest one has it, or
// has frames above p. The one after it has the size of the first again.
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

// Erase returns when the bytes of the frames up to position p are in no file of the
// journal: neither in segments, nor in those that were kept to be used again, nor behind
// the frames of the newest one. It begins a segment whose file held nothing before. It is
// Unavailable if a pin, or a frame above p beside those below, keeps bytes there.
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
	if oldest := j.mu.segments[0]; oldest != j.current.Load() {
		return mainstem.Errorf(mainstem.KindUnavailable, "erase from journal", "%s is still needed: it holds positions up to %d", oldest.path, oldest.last.Load()).
			WithHint("end the backups and reads of the journal, write what it holds to the store, and try again")
	}
	return nil
}

// beginFresh begins a segment in a file that held no frames.
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

// Rotate begins a new segment, so that everything that was written is in files that
// nobody writes to any more, and on stable storage.
func (j *Journal) Rotate() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usableLocked(); err != nil {
		return err
	}
	_, err := j.beginSegment(0)
	return err
}
