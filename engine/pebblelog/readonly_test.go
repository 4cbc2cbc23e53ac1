package pebblelog_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

// medium is a file system that cannot be written. What is tried fails the test, locks aside.
type medium struct {
	vfs.FS
	t *testing.T
}

func (m medium) written(name string) error {
	m.t.Errorf("%s was to be written", name)
	return syscall.EROFS
}

func (m medium) Lock(string) (io.Closer, error) { return nil, syscall.EROFS }

func (m medium) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, m.written(name)
}

func (m medium) OpenReadWrite(name string, _ vfs.DiskWriteCategory, _ ...vfs.OpenOption) (vfs.File, error) {
	return nil, m.written(name)
}

func (m medium) ReuseForWrite(_, name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, m.written(name)
}

func (m medium) Link(_, name string) error                 { return m.written(name) }
func (m medium) Remove(name string) error                  { return m.written(name) }
func (m medium) RemoveAll(name string) error               { return m.written(name) }
func (m medium) Rename(_, name string) error               { return m.written(name) }
func (m medium) MkdirAll(name string, _ os.FileMode) error { return m.written(name) }

// TestReadOnly reads and checks a log on a medium that cannot be written: one that was
// closed, and one whose process was killed, so that records are in its journal only.
func TestReadOnly(t *testing.T) {
	for _, durability := range []mainstem.Durability{mainstem.Fsync, mainstem.OS} {
		fs := vfs.NewCrashableMem()
		l, err := pebblelog.Open("/log", &pebblelog.Options{FS: fs, Durability: durability})
		if err != nil {
			t.Fatal(err)
		}
		grow(t, l, "s", 1<<20, 0)
		head, err := l.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		killed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		for _, fs := range []vfs.FS{fs, killed} {
			readOnly(t, medium{fs, t}, head)
		}
	}
}

func readOnly(t *testing.T, fs vfs.FS, head mainstem.Position) {
	t.Helper()
	if _, err := pebblelog.Open("/none", &pebblelog.Options{FS: fs, ReadOnly: true}); mainstem.KindOf(err) != mainstem.KindNotFound {
		t.Errorf("a directory that is not there: %v", err)
	}
	l, err := pebblelog.Open("/log", &pebblelog.Options{FS: fs, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := l.Head(t.Context()); err != nil || got != head {
		t.Errorf("the head is %d, %v, want %d", got, err, head)
	}
	mustCheck(t, l)
	if _, err := l.Clock(t.Context()); err != nil {
		t.Error(err)
	}
	b := mainstem.NewBatch()
	b.Put("s", []byte("key"), []byte("value"))
	_, err = l.Commit(t.Context(), b)
	if mainstem.KindOf(err) != mainstem.KindDenied || !strings.Contains(err.Error(), "for reading only") {
		t.Errorf("a commit: %v", err)
	}
	if err := errors.Join(l.Sweep(t.Context()), l.DropSpace(t.Context(), "s")); mainstem.KindOf(err) != mainstem.KindDenied {
		t.Errorf("a removal: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestReadOnlyInUse opens for reading what is open already, where locks can be taken.
func TestReadOnlyInUse(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	_, err := pebblelog.Open(dir, &pebblelog.Options{ReadOnly: true})
	if mainstem.KindOf(err) != mainstem.KindUnavailable || !strings.Contains(err.Error(), "in use by process") {
		t.Errorf("%v, want Unavailable, in use", err)
	}
}
