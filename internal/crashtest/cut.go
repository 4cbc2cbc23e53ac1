package crashtest

import (
	"io"
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// CutFS calls Before in front of every operation that changes the file system,
// one at a time: the moments between which the power can fail. Operations are
// numbered from 1.
type CutFS struct {
	vfs.FS
	// Before is called with the operation's number and description. Nil does nothing.
	Before func(n int, what string)

	mu sync.Mutex
	n  int
}

// Do calls f with the number of operations seen, while none is under way.
func (c *CutFS) Do(f func(ops int)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c.n)
}

func (c *CutFS) step(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	if c.Before != nil {
		c.Before(c.n, what)
	}
}

func (c *CutFS) wrap(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &cutFile{File: f, fs: c, name: name}, nil
}

// Create implements vfs.FS.
func (c *CutFS) Create(name string, k vfs.DiskWriteCategory) (vfs.File, error) {
	c.step("create " + name)
	f, err := c.FS.Create(name, k)
	return c.wrap(name, f, err)
}

// OpenReadWrite implements vfs.FS.
func (c *CutFS) OpenReadWrite(name string, k vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	c.step("open for writing " + name)
	f, err := c.FS.OpenReadWrite(name, k, o...)
	return c.wrap(name, f, err)
}

// OpenDir implements vfs.FS.
func (c *CutFS) OpenDir(name string) (vfs.File, error) {
	f, err := c.FS.OpenDir(name)
	return c.wrap(name+"/", f, err)
}

// ReuseForWrite implements vfs.FS.
func (c *CutFS) ReuseForWrite(from, to string, k vfs.DiskWriteCategory) (vfs.File, error) {
	c.step("reuse " + from + " as " + to)
	f, err := c.FS.ReuseForWrite(from, to, k)
	return c.wrap(to, f, err)
}

// Link implements vfs.FS.
func (c *CutFS) Link(from, to string) error {
	c.step("link " + from + " as " + to)
	return c.FS.Link(from, to)
}

// Remove implements vfs.FS.
func (c *CutFS) Remove(name string) error {
	c.step("remove " + name)
	return c.FS.Remove(name)
}

// RemoveAll implements vfs.FS.
func (c *CutFS) RemoveAll(name string) error {
	c.step("remove all of " + name)
	return c.FS.RemoveAll(name)
}

// Rename implements vfs.FS.
func (c *CutFS) Rename(from, to string) error {
	c.step("rename " + from + " to " + to)
	return c.FS.Rename(from, to)
}

// MkdirAll implements vfs.FS.
func (c *CutFS) MkdirAll(name string, perm os.FileMode) error {
	c.step("make directory " + name)
	return c.FS.MkdirAll(name, perm)
}

// Lock implements vfs.FS.
func (c *CutFS) Lock(name string) (io.Closer, error) {
	c.step("lock " + name)
	return c.FS.Lock(name)
}

// Unwrap implements vfs.FS.
func (c *CutFS) Unwrap() vfs.FS { return c.FS }

type cutFile struct {
	vfs.File
	fs   *CutFS
	name string
}

func (f *cutFile) Write(p []byte) (int, error) {
	f.fs.step("write " + f.name)
	return f.File.Write(p)
}

func (f *cutFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.step("write " + f.name)
	return f.File.WriteAt(p, off)
}

func (f *cutFile) Sync() error {
	f.fs.step("sync " + f.name)
	return f.File.Sync()
}

func (f *cutFile) SyncData() error {
	f.fs.step("sync data of " + f.name)
	return f.File.SyncData()
}

func (f *cutFile) SyncTo(n int64) (bool, error) {
	f.fs.step("begin sync of " + f.name)
	return f.File.SyncTo(n)
}
