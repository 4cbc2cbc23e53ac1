package journal_test

import (
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/journal"
)

// cachedFS is a file system with the cache of an operating system: a sync writes the pages that
// were changed since the last one, also if that has failed. Names are durable at once.
type cachedFS struct {
	vfs.FS        // with the cache
	disk   vfs.FS // what a power cut leaves

	mu      sync.Mutex
	changed map[string]map[int64]bool // numbers of pages, by path
	failing bool                      // syncs fail
}

func newCachedFS() *cachedFS {
	return &cachedFS{FS: vfs.NewMem(), disk: vfs.NewMem(), changed: map[string]map[int64]bool{}}
}

// fail makes syncs fail, or succeed again.
func (c *cachedFS) fail(failing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failing = failing
}

func (c *cachedFS) MkdirAll(name string, perm os.FileMode) error {
	if err := c.disk.MkdirAll(name, perm); err != nil {
		return err
	}
	return c.FS.MkdirAll(name, perm)
}

func (c *cachedFS) Remove(name string) error {
	if err := c.FS.Remove(name); err != nil {
		return err
	}
	return c.disk.Remove(name)
}

func (c *cachedFS) Rename(from, to string) error {
	c.mu.Lock()
	c.changed[to] = c.changed[from]
	delete(c.changed, from)
	c.mu.Unlock()
	if err := c.FS.Rename(from, to); err != nil {
		return err
	}
	return c.disk.Rename(from, to)
}

func (c *cachedFS) OpenReadWrite(name string, k vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	disk, err := c.disk.OpenReadWrite(name, k, o...)
	if err != nil {
		return nil, err
	}
	f, err := c.FS.OpenReadWrite(name, k, o...)
	return &cachedFile{File: f, fs: c, name: name, disk: disk}, err
}

type cachedFile struct {
	vfs.File
	fs   *cachedFS
	name string
	disk vfs.File
}

const cachedPage = 4096

func (f *cachedFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.changed[f.name] == nil {
		f.fs.changed[f.name] = map[int64]bool{}
	}
	for n := off / cachedPage; n*cachedPage < off+int64(len(p)); n++ {
		f.fs.changed[f.name][n] = true
	}
	return f.File.WriteAt(p, off)
}

func (f *cachedFile) Sync() error { return f.SyncData() }

func (f *cachedFile) SyncData() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	pages := f.fs.changed[f.name]
	delete(f.fs.changed, f.name)
	if f.fs.failing {
		return syscall.EIO
	}
	for n := range pages {
		p := make([]byte, cachedPage)
		got, _ := f.ReadAt(p, n*cachedPage)
		if _, err := f.disk.WriteAt(p[:got], n*cachedPage); err != nil {
			return err
		}
	}
	return nil
}

func (f *cachedFile) Close() error {
	_ = f.disk.Close()
	return f.File.Close()
}

// TestOpenAfterAFailedSync opens a journal whose last sync has failed. Frames that it shows as
// durable survive a power cut.
func TestOpenAfterAFailedSync(t *testing.T) {
	fs := newCachedFS()
	j, err := journal.Open(fs, dir, small())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"synced", string(make([]byte, 3*cachedPage)), "not synced"}
	commit(t, j, mainstem.Fsync, want[0])
	for _, effects := range want[1:] {
		commit(t, j, mainstem.OS, effects)
	}
	fs.fail(true)
	if err := j.Sync(j.Written()); err == nil {
		t.Fatal("the sync succeeded")
	}
	if err := j.Close(); err == nil {
		t.Error("Close returned nothing about the failed sync")
	}
	fs.fail(false)
	j = open(t, fs, small())
	if got := read(t, j, 1); !slices.Equal(got, want) || j.Durable() != 3 {
		t.Fatalf("%d frames, durable up to %d; want 3", len(got), j.Durable())
	}
	if got := read(t, open(t, fs.disk, small()), 1); !slices.Equal(got, want) {
		t.Errorf("after a power cut there are %d frames, want 3", len(got))
	}
}
