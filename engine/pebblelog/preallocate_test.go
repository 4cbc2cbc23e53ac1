package pebblelog_test

import (
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

// measuredFS is a file system that says how much is free, and counts what files ask to
// be given in advance.
type measuredFS struct {
	vfs.FS
	free  uint64
	asked *atomic.Int64
}

func (m measuredFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: m.free, TotalBytes: 1 << 40}, nil
}

func (m measuredFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := m.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	return measuredFile{f, m.asked}, nil
}

type measuredFile struct {
	vfs.File
	asked *atomic.Int64
}

func (m measuredFile) Preallocate(offset, length int64) error {
	m.asked.Add(length)
	return m.File.Preallocate(offset, length)
}

// TestNoPreallocationOnFullDisk commits where there is room for what is written, but not
// for a whole write-ahead log in advance.
func TestNoPreallocationOnFullDisk(t *testing.T) {
	for free, want := range map[uint64]bool{1 << 40: true, pebblelog.DefaultMinFree + 1<<20: false} {
		m := measuredFS{vfs.Default, free, new(atomic.Int64)}
		l, err := pebblelog.Open(t.TempDir(), &pebblelog.Options{FS: m})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // Pebble asks with the second write to a file
			b := mainstem.NewBatch()
			b.Ensure("s", mainstem.Policy{})
			b.Put("s", []byte("key"), []byte("value"))
			if _, err := l.Commit(t.Context(), b); err != nil {
				t.Error(err)
			}
		}
		if got := m.asked.Load(); got > 0 != want {
			t.Errorf("with %d bytes free %d are preallocated", free, got)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
