package journal

import (
	"errors"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// SyncTimes are durations of the sync of one page on a file system.
type SyncTimes struct {
	Overwriting time.Duration // of a file that was written before, like a recycled one
	Growing     time.Duration // of a file that the page makes longer
}

// RecyclingPays reports whether recycling files is worth while. If overwriting is not clearly
// faster than growing, the file system probably copies on write, and recycled files only take
// space.
func (s SyncTimes) RecyclingPays() bool { return s.Overwriting < s.Growing-s.Growing/10 }

// measuredSyncs is the number of syncs of each kind that are measured; the result is the median.
const measuredSyncs = 15

// MeasureSyncs measures both kinds in dir, alternately, and removes its files. It makes about 30
// syncs. On a busy disk the result is rough.
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
