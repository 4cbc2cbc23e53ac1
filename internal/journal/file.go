package journal

import (
	"errors"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// writeCategory is the name of the journal in the statistics of a file system.
const writeCategory = vfs.DiskWriteCategory("mainstem-journal")

// writeAt writes all of p, or returns an error.
func writeAt(f vfs.File, p []byte, off int64) error {
	n, err := f.WriteAt(p, off)
	if err == nil && n < len(p) {
		return io.ErrShortWrite
	}
	return err
}

// syncDir makes the names in dir durable.
func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
