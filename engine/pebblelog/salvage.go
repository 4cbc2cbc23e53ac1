package pebblelog

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// salvage cuts the damaged tail off the newest write-ahead log in dir, for logs of formats 1 and
// 2.
//
// Pebble distinguishes a torn tail from damage by its own record of what was synced. With lazy
// groups that record is too high: after a power cut, pages that were never synced may be missing
// in the middle, which Pebble reports as damage. The RELAXED marker shows that the log has lazy
// groups. The log is cut at its first unreadable record; everything that was synced is before
// it. All earlier logs were closed with a sync, so damage there is reported as an error, and
// nothing is cut.
func salvage(fs vfs.FS, dir string) (cut bool, err error) {
	logs, err := walFiles(fs, dir)
	if err != nil {
		return false, err
	}
	for i, name := range logs {
		path := fs.PathJoin(dir, name)
		num, _ := strconv.ParseUint(strings.TrimSuffix(name, ".log"), 10, 64)
		good, whole, err := readableLength(fs, path, num)
		if err != nil {
			return false, err
		}
		if whole {
			continue
		}
		for _, later := range logs[i+1:] {
			if info, err := fs.Stat(fs.PathJoin(dir, later)); err != nil || info.Size() > 0 {
				return false, fmt.Errorf("write-ahead log %s is damaged and %s follows it: %w", name, later, err)
			}
		}
		return true, truncateFile(fs, path, good)
	}
	return false, nil
}

// walFiles returns the names of the write-ahead logs in dir, oldest first.
func walFiles(fs vfs.FS, dir string) ([]string, error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	var logs []string
	for _, name := range names {
		if _, _, ok := wal.ParseLogFilename(name); ok {
			logs = append(logs, name)
		}
	}
	slices.Sort(logs) // numbers are zero-padded
	return logs, nil
}

// readableLength returns the length of the readable part of a log, and whether that is all of
// it.
func readableLength(fs vfs.FS, path string, num uint64) (good int64, whole bool, err error) {
	f, err := fs.Open(path)
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	r := newRecordReader(record.NewReader, f, num)
	for {
		good = r.Offset()
		rec, err := r.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, rec)
		}
		switch {
		case errors.Is(err, io.EOF):
			return good, true, nil
		case err != nil:
			return good, false, nil
		}
	}
}

// newRecordReader calls record.NewReader. It is generic because its second parameter has a type
// that only Pebble can name.
func newRecordReader[N ~uint64](open func(io.Reader, N) *record.Reader, r io.Reader, num uint64) *record.Reader {
	return open(r, N(num))
}

// truncateFile keeps the first n bytes of a file. The change is atomic.
func truncateFile(fs vfs.FS, path string, n int64) error {
	src, err := fs.Open(path)
	if err != nil {
		return err
	}
	defer src.Close()
	tmp := path + ".salvage"
	dst, err := fs.Create(tmp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.CopyN(dst, src, n)
	if err == nil {
		err = dst.Sync()
	}
	if cerr := dst.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err := fs.Rename(tmp, path); err != nil {
		return err
	}
	dir, err := fs.OpenDir(fs.PathDir(path))
	if err != nil {
		return err
	}
	err = dir.Sync()
	if cerr := dir.Close(); err == nil {
		err = cerr
	}
	return err
}
