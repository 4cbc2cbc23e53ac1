//go:build unix

package event

import (
	"io/fs"
	"syscall"
)

// allocated returns the bytes of a file that hold data: neither its holes nor what a
// store has reserved beyond its end.
func allocated(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return min(int64(s.Blocks)*512, info.Size())
	}
	return info.Size()
}
