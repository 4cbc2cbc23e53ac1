package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem/internal/format"
)

// spares are files that are ready to become segments: every byte of them was written and synced
// once, and so were their names. Space that is only reserved (fallocate) is not sufficient: at
// the first write to such a block the file system updates metadata, which makes the next
// fdatasync as slow as that of a growing file.
//
// There are two kinds of spares. A zeroed one was made in the background, when the newest segment
// was a quarter full. A recycled one was a segment whose frames are not needed any more. It still
// has these frames, but none of them passes the checksum under the next number of the file.
type spares struct {
	fs      vfs.FS
	dir     string
	first   int64 // the smallest size
	recycle bool

	// mu is held while a file is zeroed. A caller that needs a segment then waits for that file,
	// which is faster than making another.
	mu struct {
		sync.Mutex
		list   []spare // oldest first
		serial uint64  // of the newest zeroed one
		tight  bool    // the last attempt failed: only small spares are made
	}

	size   atomic.Int64 // bytes of the files in list
	zeroed atomic.Int64 // files that were zeroed
	ending atomic.Bool  // the journal is being closed: no more files are zeroed
	wanted atomic.Bool  // a spare was requested after the last removeAll; without it prepare makes none
}

var errEnding = errors.New("the journal is being closed")

type spare struct {
	name string
	size int64
}

func (s *spare) zeroed() bool { return strings.HasPrefix(s.name, zeroedPrefix) }

// adopt takes over the spares that an earlier process has left. names are all names in the
// directory.
func (s *spares) adopt(names []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.countLocked()
	for _, name := range names {
		if !strings.HasSuffix(name, spareSuffix) {
			continue
		}
		info, err := s.fs.Stat(s.fs.PathJoin(s.dir, name))
		if err != nil {
			return unreadable(s.fs.PathJoin(s.dir, name), err)
		}
		var serial uint64
		if _, err := fmt.Sscanf(name, zeroedPrefix+"%d"+spareSuffix, &serial); err == nil {
			s.mu.serial = max(s.mu.serial, serial)
		}
		if err := s.keepLocked(spare{name: name, size: info.Size() &^ (page - 1)}); err != nil {
			return err
		}
	}
	return nil
}

// keepLocked adds a spare, or removes its file if there are enough.
func (s *spares) keepLocked(sp spare) error {
	if len(s.mu.list) >= recycledSegments || sp.size < smallestSegment || sp.size > format.MaxJournalSegment {
		return s.fs.Remove(s.fs.PathJoin(s.dir, sp.name))
	}
	s.mu.list = append(s.mu.list, sp)
	return nil
}

// prepare makes sure that there is a spare of size bytes, or of fewer if the disk is nearly full,
// unless all spares were removed since it was requested.
func (s *spares) prepare(size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.wanted.Load() {
		return nil
	}
	defer s.countLocked()
	size = s.fittingLocked(size)
	for _, sp := range s.mu.list {
		if sp.size >= size {
			return nil
		}
	}
	return s.zeroLocked(size)
}

// take removes a spare from the list and returns it: one of size bytes or else any of at least
// need bytes. If there is none, it makes one. With fresh it returns only a zeroed one. The caller
// must remove the file if it does not use it.
func (s *spares) take(size, need int64, fresh bool) (spare, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.countLocked()
	size = max(s.fittingLocked(size), need)
	if sp, ok := s.popLocked(size, need, fresh); ok {
		return sp, nil
	}
	err := s.zeroLocked(size)
	if small := max(s.first, need); err != nil && small < size {
		size, err = small, s.zeroLocked(small)
	}
	if err != nil {
		return spare{}, err
	}
	sp, _ := s.popLocked(size, size, true)
	return sp, nil
}

func (s *spares) popLocked(size, need int64, fresh bool) (spare, bool) {
	best := -1
	for i, sp := range s.mu.list {
		if sp.size < need || fresh && !sp.zeroed() {
			continue
		}
		if best < 0 || sp.size == size && s.mu.list[best].size != size {
			best = i
		}
	}
	if best < 0 {
		return spare{}, false
	}
	sp := s.mu.list[best]
	s.mu.list = append(s.mu.list[:best], s.mu.list[best+1:]...)
	return sp, true
}

// fittingLocked returns size, or less if little disk space is free: a segment takes at most an
// eighth of it.
func (s *spares) fittingLocked(size int64) int64 {
	if s.mu.tight {
		return min(size, s.first)
	}
	usage, err := s.fs.GetDiskUsage(s.dir)
	if err != nil {
		return size // some file systems do not report it
	}
	for size/segmentGrowth >= s.first && uint64(size) > usage.AvailBytes/8 {
		size = roundUp(size/segmentGrowth, page)
	}
	return size
}

// zeroPiece is the number of bytes that are zeroed between two syncs, so that concurrent commits
// need not wait for all of them.
const zeroPiece = 4 << 20

// zeroWrite is the number of bytes that are zeroed with one write. Linux caches the bytes of one
// write as one folio, and a later write to a part of a large folio takes longer: an append of 200
// bytes took 0.69 µs in files zeroed by 256 KiB, 0.50 µs by 16 KiB (BenchmarkAppend).
const zeroWrite = 16 << 10

// zeroLocked makes a spare of size bytes.
func (s *spares) zeroLocked(size int64) (err error) {
	defer func() { s.mu.tight = err != nil }()
	temp := s.fs.PathJoin(s.dir, zeroingName)
	if err := s.zeroFile(temp, size); err != nil {
		return errors.Join(err, removeIfThere(s.fs, temp))
	}
	s.mu.serial++
	sp := spare{name: fmt.Sprintf("%s%d%s", zeroedPrefix, s.mu.serial, spareSuffix), size: size}
	if err := s.fs.Rename(temp, s.fs.PathJoin(s.dir, sp.name)); err != nil {
		return errors.Join(err, removeIfThere(s.fs, temp))
	}
	if err := syncDir(s.fs, s.dir); err != nil {
		return errors.Join(err, removeIfThere(s.fs, s.fs.PathJoin(s.dir, sp.name)))
	}
	s.mu.list = append(s.mu.list, sp)
	s.zeroed.Add(1)
	return nil
}

func (s *spares) zeroFile(path string, size int64) (err error) {
	if err := removeIfThere(s.fs, path); err != nil {
		return err
	}
	f, err := s.fs.OpenReadWrite(path, writeCategory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	zeros := make([]byte, min(size, zeroWrite))
	synced := int64(0)
	for off := int64(0); off < size; {
		if s.ending.Load() {
			return errEnding
		}
		n := min(int64(len(zeros)), size-off)
		if err := writeAt(f, zeros[:n], off); err != nil {
			return err
		}
		if off += n; off-synced >= zeroPiece {
			if err := f.SyncData(); err != nil {
				return err
			}
			synced = off
		}
	}
	return f.Sync()
}

// give makes spares of segments whose frames are not needed any more, or removes their files. It
// removes the leftover files. When it returns without an error, none of them is a segment any
// more, even after a power cut. Otherwise left has the files that may still be there.
func (s *spares) give(old []*segment, leftover []string, size int64, erase bool) (left []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.countLocked()
	var again []spare
	var errs []error
	for _, seg := range old {
		if !s.recycle || erase || int64(seg.Size) < size || len(s.mu.list)+len(again) >= recycledSegments {
			leftover = append(leftover, seg.path)
			continue
		}
		sp := spare{name: fmt.Sprintf("%s%d%s", recycledPrefix, seg.Number, spareSuffix), size: int64(seg.Size)}
		if err := s.fs.Rename(seg.path, s.fs.PathJoin(s.dir, sp.name)); err != nil {
			errs, left = append(errs, err), append(left, seg.path)
			continue
		}
		again = append(again, sp)
	}
	for _, path := range leftover {
		if err := removeIfThere(s.fs, path); err != nil {
			errs, left = append(errs, err), append(left, path)
		}
	}
	if err := syncDir(s.fs, s.dir); err != nil {
		// A power cut may restore the old names, so the renamed files are not used, and all are
		// removed again.
		for _, seg := range old {
			left = append(left, seg.path)
		}
		for _, sp := range again {
			left = append(left, s.fs.PathJoin(s.dir, sp.name))
		}
		return append(left, leftover...), errors.Join(append(errs, err)...)
	}
	s.mu.list = append(s.mu.list, again...)
	return left, errors.Join(errs...)
}

// eraseRecycled removes the files with old frames.
func (s *spares) eraseRecycled() error {
	return s.remove(func(sp spare) bool { return !sp.zeroed() })
}

// removeAll removes all files of the list. A request for a spare from before it is not served
// after it.
func (s *spares) removeAll() error {
	s.wanted.Store(false)
	return s.remove(func(spare) bool { return true })
}

// remove removes the files for which gone returns true. A file that could not be removed stays a
// spare.
func (s *spares) remove(gone func(spare) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.countLocked()
	keep := s.mu.list[:0]
	var errs []error
	for _, sp := range s.mu.list {
		var err error
		if gone(sp) {
			if err = removeIfThere(s.fs, s.fs.PathJoin(s.dir, sp.name)); err == nil {
				continue
			}
		}
		keep, errs = append(keep, sp), append(errs, err)
	}
	s.mu.list = keep
	return errors.Join(append(errs, syncDir(s.fs, s.dir))...)
}

// countLocked updates size. The caller holds mu.
func (s *spares) countLocked() {
	n := int64(0)
	for _, sp := range s.mu.list {
		n += sp.size
	}
	s.size.Store(n)
}

// removeIfThere removes a file. It is no error if the file does not exist.
func removeIfThere(fsys vfs.FS, path string) error {
	if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
