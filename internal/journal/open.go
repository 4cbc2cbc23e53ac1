package journal

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
)

// directoryMode is the mode of the directory: only the owner of the process may use it.
const directoryMode = 0o700

// Open opens the journal in dir, replays it (see [Options]), and makes everything that it has
// found durable. The caller must make sure that no other process has it open.
//
// Errors: Corrupt, with the file and the byte, for damage to bytes that are known to have been on
// stable storage, for missing segments, and for missing frames according to From; Unsupported for
// a later format; Invalid for options; otherwise errors of the file system. Nothing is changed
// before the journal was read to its end. Segments before a gap stay until [Journal.TruncateFront]
// is called with what the journal begins behind: only the caller knows that the gap is no loss.
func Open(fsys vfs.FS, dir string, o Options) (*Journal, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	j := &Journal{fs: fsys, dir: dir, opts: opts}
	j.mu.nextSize = opts.FirstSegment
	j.mu.pins = map[*pin]struct{}{}
	j.syncs.mu.ended.L = &j.syncs.mu
	j.spares.fs, j.spares.dir, j.spares.first, j.spares.recycle = fsys, dir, opts.FirstSegment, !opts.NoRecycle

	names, err := j.names()
	if err != nil {
		return nil, err
	}
	if err := j.recover(names); err != nil {
		return nil, err
	}
	if opts.ReadOnly {
		return j, nil
	}
	if err := j.takeOver(names); err != nil {
		return nil, err
	}
	j.startBackground()
	return j, nil
}

// names lists the directory, which it creates with Options.Create.
func (j *Journal) names() ([]string, error) {
	names, err := j.fs.List(j.dir)
	if errors.Is(err, fs.ErrNotExist) && j.opts.Create {
		if err := j.fs.MkdirAll(j.dir, directoryMode); err != nil {
			return nil, unreadable(j.dir, err)
		}
		if err := syncDir(j.fs, j.fs.PathDir(j.dir)); err != nil {
			return nil, unreadable(j.dir, err)
		}
		return nil, nil
	}
	if err != nil {
		return nil, unreadable(j.dir, err)
	}
	slices.Sort(names)
	return names, nil
}

// takeOver makes the recovered frames durable, and removes temporary files.
func (j *Journal) takeOver(names []string) error {
	if s := j.newestLocked(); s != nil {
		if err := writeAgain(j.fs, s.path, s.marked, s.end.Load()); err != nil {
			return unreadable(s.path, err)
		}
	}
	for _, name := range names {
		if !strings.HasSuffix(name, temporary) {
			continue
		}
		path := j.fs.PathJoin(j.dir, name)
		if err := removeIfThere(j.fs, path); err != nil {
			return unreadable(path, err)
		}
	}
	// Names that a crash left unsynced must be durable, or gone, before they are used.
	if err := syncDir(j.fs, j.dir); err != nil {
		return unreadable(j.dir, err)
	}
	if err := j.spares.adopt(names); err != nil {
		return err
	}
	if len(j.mu.segments) == 0 {
		_, err := j.beginSegment(0)
		return err
	}
	return nil
}

// writeAgain makes the bytes of the file at path durable that are between two offsets. A sync is not
// sufficient: after a sync that has failed, operating systems keep the bytes in their cache, but no
// longer as bytes that must be written. So it writes them again before.
func writeAgain(fsys vfs.FS, path string, from, to int64) (err error) {
	f, err := fsys.OpenReadWrite(path, writeCategory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	p := make([]byte, min(to-from, readAhead))
	for off := from; off < to; off += int64(len(p)) {
		p = p[:min(int64(len(p)), to-off)]
		if _, err := f.ReadAt(p, off); err != nil {
			return err
		}
		if err := writeAt(f, p, off); err != nil {
			return err
		}
	}
	return f.SyncData()
}

// Close syncs everything that was written and ends the journal. It writes a last frame, without
// positions, which says that all frames are on stable storage, so that damage to any of them is
// detected. Calls that wait for a sync return first. Close returns the failure that stopped the
// journal, if there was one. A second call does nothing.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.mu.closed {
		j.mu.Unlock()
		return nil
	}
	j.mu.closed = true
	j.mu.Unlock()
	if j.opts.ReadOnly {
		return nil
	}
	j.spares.ending.Store(true)
	j.background.stop()
	j.syncs.acquire()
	defer j.syncs.release()
	seg := j.current.Load()
	if seg == nil {
		return nil
	}
	err := j.Err()
	if err == nil && !seg.full {
		err = j.seal(seg)
	}
	if cerr := seg.file.Close(); err == nil && cerr != nil {
		err = unreadable(seg.path, cerr)
	}
	return err
}

// seal writes the last frame of seg, and syncs before and after. No other goroutine may write or
// sync any more.
func (j *Journal) seal(seg *segment) error {
	if f := j.syncCurrent(); f != nil {
		return f.unknown()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if seg.last.Load() == seg.Last {
		return nil // it has no frames
	}
	sum := j.encodeLocked(seg, []Frame{{First: mainstem.Position(seg.last.Load() + 1)}})
	f := j.writeLocked(seg, closingFrame)
	if f == nil {
		seg.sum = sum
		seg.end.Store(seg.end.Load() + closingFrame)
		f = j.syncCurrent()
	}
	if f != nil {
		return f.with(mainstem.NoOutcome) // every frame was on stable storage before
	}
	return nil
}
