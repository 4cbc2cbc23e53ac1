package pebblelog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/crashtest"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// Sizes of what the tests of reclaiming write.
const (
	reclaimTables = 1 << 20 // MemTableBytes
	reclaimWrites = 16 << 20
	reclaimRest   = 5 << 20 // at most what is left: journal, manifest, kept records
	reclaimWorth  = 8 << 20 // less than this may wait for more
)

// random is for bytes that cannot be compressed. No two tests use it at a time.
var random = rand.NewChaCha8([32]byte{1})

// grow writes values that cannot be compressed to keys of space, n bytes of them. They
// expire after ttl, if it is not 0.
func grow(t *testing.T, l *pebblelog.Log, space string, n int, ttl time.Duration) {
	t.Helper()
	for written := 0; written < n; {
		b := mainstem.NewBatch()
		b.Ensure(space, mainstem.Policy{History: 1})
		for range 16 {
			value := make([]byte, 8<<10)
			_, _ = random.Read(value)
			key := fmt.Appendf(nil, "%016x", random.Uint64())
			b.Add(mainstem.Write{Space: space, Key: key, Value: value, TTL: ttl})
			written += len(value)
		}
		if _, err := l.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
}

// open opens a log with small tables in memory, and closes it after the test.
func open(t *testing.T, dir string) *pebblelog.Log {
	t.Helper()
	l, err := pebblelog.Open(dir, &pebblelog.Options{Durability: mainstem.OS, MemTableBytes: reclaimTables})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// onDisk returns the size of all files below dir.
func onDisk(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // a file that has just gone
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}

// shrinks waits until the files below dir have at most n bytes.
func shrinks(t *testing.T, dir string, n int64) {
	t.Helper()
	testkit.Succeeds(t, "the directory shrinks", func() error {
		if got := onDisk(dir); got > n {
			return fmt.Errorf("its files have %d bytes, want at most %d", got, n)
		}
		return nil
	})
}

// TestDropFreesDisk drops one space of two, and sees the files go while the log is open.
func TestDropFreesDisk(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	grow(t, l, "kept", 1<<20, 0)
	grow(t, l, "dropped", reclaimWrites, 0)
	if n := onDisk(dir); n < reclaimWrites {
		t.Fatalf("%d bytes were written, the files have %d", reclaimWrites, n)
	}
	if err := l.DropSpace(t.Context(), "dropped"); err != nil {
		t.Fatal(err)
	}
	shrinks(t, dir, reclaimRest)
	testkit.Succeeds(t, "Stats shows it", func() error {
		if n := l.Stats().DiskBytes; n > reclaimRest {
			return fmt.Errorf("it says that the files have %d bytes", n)
		}
		return nil
	})
	mustCheck(t, l)
	grow(t, l, "more", 4<<20, 0) // takes new segments of the journal where old ones are gone
	mustCheck(t, l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, dir)
	mustCheck(t, l)
	if info, err := l.Space(t.Context(), "kept"); err != nil || info.Keys != 128 {
		t.Errorf("the other space holds %d keys, %v", info.Keys, err)
	}
}

func mustCheck(t *testing.T, l *pebblelog.Log) {
	t.Helper()
	_, err := l.Check(t.Context(), func(p mainstem.Problem) { t.Errorf("%s: %s", p.Where, p.What) })
	if err != nil {
		t.Fatal(err)
	}
}

// TestRemovalFreesDisk removes all records of a space by each of the ways there are.
func TestRemovalFreesDisk(t *testing.T) {
	each := func(t *testing.T, l *pebblelog.Log, op mainstem.Op) {
		b := mainstem.NewBatch()
		for r, err := range l.Scan(t.Context(), "s", mainstem.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			b.Add(mainstem.Write{Op: op, Space: "s", Key: bytes.Clone(r.Key)})
		}
		if _, err := l.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	for name, remove := range map[string]func(t *testing.T, l *pebblelog.Log, c *crashtest.Clock){
		"expire": func(t *testing.T, l *pebblelog.Log, c *crashtest.Clock) {
			c.Set(2 * time.Hour)
			if err := l.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"delete": func(t *testing.T, l *pebblelog.Log, _ *crashtest.Clock) { each(t, l, mainstem.OpDelete) },
		"forget": func(t *testing.T, l *pebblelog.Log, _ *crashtest.Clock) { each(t, l, mainstem.OpForget) },
		"limit": func(t *testing.T, l *pebblelog.Log, _ *crashtest.Clock) {
			if err := l.AlterSpace(t.Context(), "s", mainstem.Policy{History: 1, MaxBytes: 1}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		if testing.Short() && name != "expire" {
			continue // the same goroutines run
		}
		t.Run(name, func(t *testing.T) {
			dir, c := t.TempDir(), new(crashtest.Clock)
			l, err := pebblelog.Open(dir, &pebblelog.Options{
				Durability: mainstem.OS, MemTableBytes: reclaimTables, Now: c.Now, SweepEvery: 10 * time.Millisecond,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			grow(t, l, "s", reclaimWrites, time.Hour)
			remove(t, l, c)
			shrinks(t, dir, reclaimRest+reclaimWorth) // it goes in many commits: the last ones may not be worth a round
			mustCheck(t, l)
		})
	}
}

// TestFewRemovalsRewriteNothing removes a quarter of a space: that is not worth it to write
// the rest anew.
func TestFewRemovalsRewriteNothing(t *testing.T) {
	l := open(t, t.TempDir())
	grow(t, l, "s", reclaimWrites, 0)
	b := mainstem.NewBatch()
	n := 0
	for r, err := range l.Scan(t.Context(), "s", mainstem.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n%4 == 0 {
			b.Add(mainstem.Write{Op: mainstem.OpForget, Space: "s", Key: bytes.Clone(r.Key)})
		}
	}
	if _, err := l.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if n := l.Reclaimable(); n != 0 {
		t.Errorf("%d spaces are looked through", n)
	}
}

// TestSnapshotOutlivesDrop reads what was dropped from a snapshot after a round. Its disk
// space is free when the snapshot is closed.
func TestSnapshotOutlivesDrop(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	grow(t, l, "s", reclaimWrites, 0)
	snap, err := l.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.DropSpace(t.Context(), "s"), l.Sweep(t.Context())); err != nil {
		t.Fatal(err)
	}
	n := 0
	for r, err := range snap.Scan(t.Context(), "s", mainstem.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		n += len(r.Value)
	}
	if n != reclaimWrites {
		t.Errorf("the snapshot holds %d bytes, want %d", n, reclaimWrites)
	}
	if err := snap.Close(); err != nil {
		t.Fatal(err)
	}
	shrinks(t, dir, reclaimRest)
}

// smallDisk is a file system in memory that says how full it is.
type smallDisk struct {
	vfs.FS
	size atomic.Int64
}

func (d *smallDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	used, size := d.used(), d.size.Load()
	return vfs.DiskUsage{AvailBytes: uint64(max(size-used, 0)), TotalBytes: uint64(size), UsedBytes: uint64(used)}, nil
}

func (d *smallDisk) used() (n int64) {
	for _, dir := range []string{"/log", "/log/db"} {
		names, _ := d.List(dir)
		for _, name := range names {
			if info, err := d.Stat(d.PathJoin(dir, name)); err == nil && !info.IsDir() {
				n += info.Size()
			}
		}
	}
	return n
}

// TestRemovalOnFullDisk has the disk be so full that commits are refused, though nothing is
// written any more. Removing what fills it makes them go on, without a restart.
func TestRemovalOnFullDisk(t *testing.T) {
	const minFree = 16 << 20
	for name, remove := range map[string]func(t *testing.T, l *pebblelog.Log) error{
		"drop": func(t *testing.T, l *pebblelog.Log) error { return l.DropSpace(t.Context(), "full") },
		"forget": func(t *testing.T, l *pebblelog.Log) error {
			b := mainstem.NewBatch()
			for r, err := range l.Scan(t.Context(), "full", mainstem.Range{}) {
				if err != nil {
					return err
				}
				b.Add(mainstem.Write{Op: mainstem.OpForget, Space: "full", Key: bytes.Clone(r.Key)})
			}
			_, err := l.Commit(t.Context(), b)
			return err
		},
	} {
		if testing.Short() && name != "drop" {
			continue // the same goroutines run
		}
		t.Run(name, func(t *testing.T) {
			disk := &smallDisk{FS: vfs.NewMem()}
			disk.size.Store(1 << 40)
			var out testkit.Lines
			defer func() {
				if t.Failed() {
					t.Log(out.String())
				}
			}()
			l, err := pebblelog.Open("/log", &pebblelog.Options{
				FS: disk, Durability: mainstem.OS, MemTableBytes: reclaimTables, MinFree: minFree, Logger: out.Logger(),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			put := func() error {
				b := mainstem.NewBatch()
				b.Ensure("more", mainstem.Policy{History: 1})
				b.Put("more", []byte("key"), make([]byte, minFree/8)) // so much that free space is looked at
				_, err := l.Commit(t.Context(), b)
				return err
			}
			grow(t, l, "full", reclaimWrites, 0)
			l.FlushRaw()
			testkit.Succeeds(t, "the disk is full when all files are merged", func() error {
				if l.Merging() {
					return errors.New("they are not")
				}
				disk.size.Store(disk.used() + minFree/2)
				err := put()
				if err == nil {
					return errors.New("a commit was taken: files that were merged have just gone")
				}
				if mainstem.KindOf(err) != mainstem.KindUnavailable || !strings.Contains(err.Error(), "free") {
					t.Fatal(err)
				}
				return nil
			})
			if err := remove(t, l); err != nil {
				t.Fatal(err)
			}
			testkit.Succeeds(t, "commits go on", put)
			mustCheck(t, l)
		})
	}
}

// backupFS calls a hook before a segment of the journal is opened, which a backup does to
// copy its frames.
type backupFS struct {
	vfs.FS
	hook atomic.Pointer[func()]
}

func (f *backupFS) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	if strings.HasSuffix(name, ".journal") {
		if hook := f.hook.Swap(nil); hook != nil {
			(*hook)()
		}
	}
	return f.FS.Open(name, o...)
}

// TestBackupKeepsSegments has the reclaimer write out what is in memory while a backup
// copies the frames of the journal that hold it.
func TestBackupKeepsSegments(t *testing.T) {
	f := &backupFS{FS: vfs.NewMem()}
	l, err := pebblelog.Open("/log", &pebblelog.Options{FS: f})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	grow(t, l, "s", 5<<20, 0)
	head, err := l.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	flushed := errors.New("the hook was not called")
	hook := func() { flushed = l.FlushNow(t.Context()) }
	f.hook.Store(&hook)
	var backup bytes.Buffer
	if err := errors.Join(l.Backup(t.Context(), &backup), flushed); err != nil {
		t.Fatal(err)
	}
	copied := restore(nil)(t, &backup)
	defer copied.Close()
	if got, err := copied.Head(t.Context()); err != nil || got != head {
		t.Errorf("the copy ends at position %d, %v, want %d", got, err, head)
	}
	mustCheck(t, copied.(*pebblelog.Log))
	if err := l.FlushNow(t.Context()); err != nil {
		t.Error(err)
	}
	mustCheck(t, l)
}

// gatedFS is a file system in memory on which merging files waits for a gate.
type gatedFS struct {
	vfs.FS
	began chan struct{} // capacity 1
	gate  chan struct{}
	after atomic.Int64 // bytes merged behind the gate
}

func (g *gatedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := g.FS.Create(name, c)
	if err == nil && c == "pebble-compaction" {
		f = &gatedFile{f, g}
	}
	return f, err
}

type gatedFile struct {
	vfs.File
	g *gatedFS
}

func (f *gatedFile) Write(p []byte) (int, error) {
	select {
	case f.g.began <- struct{}{}:
	default:
	}
	<-f.g.gate
	f.g.after.Add(int64(len(p)))
	return f.File.Write(p)
}

// TestCloseEndsRound closes a log that merges files: it does not wait for the end of that.
func TestCloseEndsRound(t *testing.T) {
	g := &gatedFS{FS: vfs.NewMem(), began: make(chan struct{}, 1), gate: make(chan struct{})}
	l, err := pebblelog.Open("/log", &pebblelog.Options{FS: g, Durability: mainstem.OS})
	if err != nil {
		t.Fatal(err)
	}
	grow(t, l, "s", reclaimWrites, 0)
	grow(t, l, "dropped", reclaimWrites, 0)
	b := mainstem.NewBatch()
	for r, err := range l.Scan(t.Context(), "s", mainstem.Range{Limit: 1000}) {
		if err != nil {
			t.Fatal(err)
		}
		b.Delete("s", bytes.Clone(r.Key))
	}
	if _, err := l.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	swept := make(chan error, 1)
	go func() { swept <- l.Sweep(context.Background()) }()
	select {
	case <-g.began:
	case err := <-swept:
		t.Fatalf("nothing is merged, %v", errors.Join(err, l.Close()))
	}
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	testkit.Succeeds(t, "Close waits for Pebble only", func() error {
		if !l.Ending() {
			return errors.New("it does not")
		}
		return nil
	})
	close(g.gate)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err := <-swept; err != nil && mainstem.KindOf(err) != mainstem.KindClosed {
		t.Error(err)
	}
	if n := g.after.Load(); n > 4<<20 {
		t.Errorf("%d bytes were merged after Close had begun", n)
	}
}
