package journal

import (
	"errors"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem/internal/format"
)

// beginSegment begins a segment with space for need bytes of frames. The caller holds mu.
// Recovery relies on the order of its steps:
//
//  1. Sync the segment before. From here on nothing is appended to it, whatever happens next.
//  2. Write the header to a spare, with the end of the segment before, and sync the spare.
//  3. Rename the spare, and sync the directory.
//
// So a file with the name of a segment has a complete header, and all segments before it are on
// stable storage up to the ends that the headers have. Only a failure of step 1 stops the
// journal. A spare that could not be prepared is removed and never used again.
func (j *Journal) beginSegment(need int64) (*segment, error) {
	j.syncs.acquire()
	defer j.syncs.release()
	if f := j.syncCurrent(); f != nil {
		return nil, f.refused()
	}
	previous := j.newestLocked()
	if previous != nil {
		previous.full = true
	}
	need = roundUp(need+format.JournalHeader+closingFrame, page)
	sp, err := j.spares.take(j.mu.nextSize, need, j.mu.fresh)
	if err != nil {
		return nil, noSegment(j.dir, max(need, j.mu.nextSize), err)
	}
	seg := newSegment(previous, sp.size, j.written.Load())
	seg.path = j.fs.PathJoin(j.dir, segmentName(seg.Number))
	if err := j.install(seg, j.fs.PathJoin(j.dir, sp.name)); err != nil {
		return nil, noSegment(j.dir, sp.size, err)
	}
	if old := j.current.Swap(seg); old != nil {
		if err := old.file.Close(); err != nil {
			j.opts.Logger.Warn("a full segment could not be closed", "file", old.path, "error", err)
		}
		old.file = nil
	}
	j.mu.segments = append(j.mu.segments, seg)
	j.mu.rotations++
	j.mu.asked, j.mu.fresh = false, false
	j.mu.nextSize = min(sp.size*segmentGrowth, j.opts.MaxSegment)
	return seg, nil
}

// newestLocked returns the newest segment, or nil if there is none.
func (j *Journal) newestLocked() *segment {
	if n := len(j.mu.segments); n > 0 {
		return j.mu.segments[n-1]
	}
	return nil
}

// install makes the file at path the segment seg and opens it. If it fails, it removes the file. The
// caller holds mu.
func (j *Journal) install(seg *segment, path string) (err error) {
	defer func() {
		if err != nil {
			rerr := removeIfThere(j.fs, path)
			if rerr != nil {
				j.mu.leftover = append(j.mu.leftover, path) // it may be a recycled file
			}
			err = errors.Join(err, rerr, removeIfThere(j.fs, seg.path)) // the next segment replaces seg.path
		}
	}()
	var header []byte
	header, seg.sum = format.AppendSegment(make([]byte, 0, page), &seg.Segment)
	if err := writeHeader(j.fs, path, header[:page]); err != nil {
		return err
	}
	if err := j.fs.Rename(path, seg.path); err != nil {
		return err
	}
	if err := syncDir(j.fs, j.dir); err != nil {
		return err
	}
	if seg.file, err = j.fs.OpenReadWrite(seg.path, writeCategory); err != nil {
		return err
	}
	seg.end.Store(format.JournalHeader)
	seg.stable.Store(format.JournalHeader)
	seg.touched = page
	return nil
}

// writeHeader writes the first page of a spare and closes the file, which some systems require
// before a rename.
func writeHeader(fs vfs.FS, path string, p []byte) (err error) {
	f, err := fs.OpenReadWrite(path, writeCategory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := writeAt(f, p, 0); err != nil {
		return err
	}
	return f.SyncData()
}
