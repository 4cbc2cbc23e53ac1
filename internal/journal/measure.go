package journal

import (
	"errors"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// SyncTimes says what a sync of a page takes on a file system.
type SyncTimes struct {
	Overwriting time.Duration // of a file that was written before, as recycled ones were
	Growing     time.Duration // of a file that the page makes longer
}

// RecyclingPays reports whether it is worth while to keep files and to use them again.
// Where overwriting is not clearly faster, the file system may as well copy on write,
// and what is kept to be overwritten only takes space.
func (s SyncTimes) RecyclingPays() bool { return s.Overwriting < s.Growing-s.Growing/10 }

// measuredSyncs is how many syncs of each kind are timed; the median counts.
const measuredSyncs = 15

// MeasureSyncs times both kinds in dir, in turns, and leaves nothing behind. It takes
// some 30 syncs, and what it says of a busy disk is rough.
func MeasureSyncs(fs vfs.FS, dir string) (t SyncTimes, err error) {
	written, grows := fs.PathJoin(dir, "measure-overwriting"+temporary), fs.PathJoin(dir, "measure-growing"+temporary)
	defer func() { err = errors.Join(err, removeIfThere(fs, written), removeIfThere(fs, grows)) }()
	old, err := fs.OpenReadWrite(written, writeCategory)
	if err != nil {
		return t, unreadable(written, err)
	}
	defer func() { err = errors.Join(err, old.Close()) }()
	grown, err := fs.OpenReadWrite(grows, writeCategory)
	if err != nil {
		return t, unreadable(grows, err)
	}
	defer func() { err = errors.Join(err, grown.Close()) }()
	for i := range int64(measuredSyncs) {
		if err := writeAt(old, zeroPage[:], i*page); err != nil {
			return t, unreadable(written, err)
		}
	}
	if err := old.Sync(); err != nil {
		return t, unreadable(written, err)
	}
	var overwriting, growing []time.Duration
	for i := range int64(measuredSyncs) {
		a, err := timeSync(old, i*page)
		if err != nil {
			return t, unreadable(written, err)
		}
		b, err := timeSync(grown, i*page)
		if err != nil {
			return t, unreadable(grows, err)
		}
		overwriting, growing = append(overwriting, a), append(growing, b)
	}
	slices.Sort(overwriting)
	slices.Sort(growing)
	return SyncTimes{Overwriting: overwriting[measuredSyncs/2], Growing: growing[measuredSyncs/2]}, nil
}

func timeSync(f vfs.File, off int64) (time.Duration, error) {
	began := time.Now()
	if err := writeAt(f, zeroPage[:], off); err != nil {
		return 0, err
	}
	err := f.SyncData()
	return time.Since(began), err
}
