//go:build !linux

package event

import (
	"io"
	"os"
)

// data returns what is left of f from at on; io.EOF if there is nothing.
func data(f *os.File, at int64) (from, to int64, err error) {
	info, err := f.Stat()
	if err == nil && at >= info.Size() {
		err = io.EOF
	}
	if err != nil {
		return 0, 0, err
	}
	return at, info.Size(), nil
}
