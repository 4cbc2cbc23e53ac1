package pebblelog

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Pebble keeps up to three write-ahead logs that it needs no more, each as large as a
// table in memory, and writes over them when it begins a new log. That is faster than a
// new file, but on a log that shrinks they are most of what is left. The reclaimer removes
// them; Pebble gets new files instead when it asks for them.

// walNumber returns the number in the name of a write-ahead log.
func walNumber(base string) (num uint64, ok bool) {
	digits, ok := strings.CutSuffix(base, ".log")
	if !ok {
		return 0, false
	}
	num, err := strconv.ParseUint(digits, 10, 64)
	return num, err == nil
}

// newestWAL returns the number of the write-ahead log that is written to, 0 if none is.
func (g *guardFS) newestWAL() (newest uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for f := range g.mu.open {
		newest = max(newest, f.number)
	}
	return newest
}

// removeWALs removes the write-ahead logs up to the number last. The caller knows that all
// they held is in sorted files, durably.
func (g *guardFS) removeWALs(last uint64) error {
	g.recycling.Lock()
	defer g.recycling.Unlock()
	names, err := g.FS.List(g.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		num, ok := walNumber(name)
		if !ok || num > last || g.tripped.Load() {
			continue
		}
		path := g.PathJoin(g.dir, name)
		info, err := g.FS.Stat(path)
		if err == nil {
			err = g.FS.Remove(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // Pebble was faster
		}
		if err != nil {
			return err
		}
		g.gone[name] = info.Size()
	}
	return nil
}

// reuse is ReuseForWrite of a file that may have been removed.
func (g *guardFS) reuse(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	g.recycling.Lock()
	defer g.recycling.Unlock()
	base := g.PathBase(from)
	if _, gone := g.gone[base]; gone {
		f, err := g.FS.Create(to, c)
		if err == nil {
			delete(g.gone, base)
		}
		return f, err
	}
	return g.FS.ReuseForWrite(from, to, c)
}

// goneBytes is the size of the removed files that Pebble believes to be there.
func (g *guardFS) goneBytes() (n uint64) {
	g.recycling.Lock()
	defer g.recycling.Unlock()
	for _, size := range g.gone {
		n += uint64(size)
	}
	return n
}
