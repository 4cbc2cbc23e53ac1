package event

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// data returns the next part of f that is no hole, from at on; io.EOF if there is none.
func data(f *os.File, at int64) (from, to int64, err error) {
	if from, err = f.Seek(at, unix.SEEK_DATA); errors.Is(err, unix.ENXIO) {
		return 0, 0, io.EOF
	}
	if err != nil {
		return 0, 0, err
	}
	to, err = f.Seek(from, unix.SEEK_HOLE)
	return from, to, err
}
