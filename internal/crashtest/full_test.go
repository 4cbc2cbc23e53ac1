package crashtest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/crashtest"
)

// nearlyFull is a log on a disk whose free space a test chooses.
type nearlyFull struct {
	t  *testing.T
	fs *vfs.MemFS
	c  *crashtest.Clock
	l  *pebblelog.Log
}

const leastFree = 1 << 20

func (n *nearlyFull) free(bytes uint64) {
	n.fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: bytes, TotalBytes: 1 << 30})
}

func (n *nearlyFull) open() {
	n.t.Helper()
	o := options(n.fs, n.c, mainstem.Fsync)
	o.MinFree, o.MemTableBytes = leastFree, 1<<20
	var err error
	if n.l, err = pebblelog.Open(dir, o); err != nil {
		n.t.Fatal(err)
	}
}

func (n *nearlyFull) commit(fill func(b *mainstem.Batch)) error {
	b := mainstem.NewBatch()
	fill(b)
	_, err := n.l.Commit(context.Background(), b)
	return err
}

// records returns how many records a space holds, expired ones not swept yet included.
func (n *nearlyFull) records(space string) int64 {
	n.t.Helper()
	info, err := n.l.Space(context.Background(), space)
	if err != nil {
		n.t.Fatal(err)
	}
	return info.Records
}

// newNearlyFull fills a log and then its disk, down to half of what commits want.
func newNearlyFull(t *testing.T) *nearlyFull {
	t.Helper()
	n := &nearlyFull{t: t, fs: vfs.NewMem(), c: new(crashtest.Clock)}
	n.open()
	err := n.commit(func(b *mainstem.Batch) {
		for _, s := range []string{"kept", "dropped"} {
			b.Ensure(s, mainstem.Policy{})
		}
		b.Ensure("aged", mainstem.Policy{History: 1, MaxAge: time.Hour})
		for i := range 20 {
			key := fmt.Appendf(nil, "key-%d", i)
			for _, s := range []string{"kept", "dropped", "aged"} {
				b.Put(s, key, []byte("value"))
			}
			b.Add(mainstem.Write{Space: "kept", Key: fmt.Appendf(nil, "brief-%d", i), Value: []byte("value"), TTL: time.Minute})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	n.free(leastFree / 2)
	wantKind(t, n.put(), mainstem.KindUnavailable, "free", fmt.Sprint(leastFree))
	return n
}

// put commits so much that the disk is looked at.
func (n *nearlyFull) put() error {
	return n.commit(func(b *mainstem.Batch) { b.Put("kept", []byte("new"), make([]byte, leastFree/4)) })
}

// TestNearlyFullDiskTakesRemovals makes room on a disk that has too little for commits.
func TestNearlyFullDiskTakesRemovals(t *testing.T) {
	n := newNearlyFull(t)
	defer func() { _ = n.l.Close() }()
	for what, err := range map[string]error{
		"delete": n.commit(func(b *mainstem.Batch) { b.Delete("kept", []byte("key-1")) }),
		"purge": n.commit(func(b *mainstem.Batch) {
			b.Add(mainstem.Write{Op: mainstem.OpPurge, Space: "kept", Key: []byte("key-2")})
		}),
		"forget": n.commit(func(b *mainstem.Batch) {
			b.Add(mainstem.Write{Op: mainstem.OpForget, Space: "kept", Key: []byte("key-3")})
		}),
		"truncate": n.commit(func(b *mainstem.Batch) { b.Truncate("kept", []byte("key-4"), 2) }),
		"alter":    n.l.AlterSpace(t.Context(), "aged", mainstem.Policy{History: 1, MaxAge: time.Minute}),
		"drop":     n.l.DropSpace(t.Context(), "dropped"),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, fill := range map[string]func(b *mainstem.Batch){
		"a delete with a put":     func(b *mainstem.Batch) { b.Delete("kept", []byte("key-5")); b.Put("kept", []byte("x"), nil) },
		"a delete with an ensure": func(b *mainstem.Batch) { b.Delete("kept", []byte("key-5")); b.Ensure("more", mainstem.Policy{}) },
		"a rewrite":               func(b *mainstem.Batch) { b.Rewrite("kept", []byte("key-5"), 1, []byte("longer"), nil) },
	} {
		if err := n.commit(fill); mainstem.KindOf(err) != mainstem.KindUnavailable {
			t.Errorf("%s: %v, want Unavailable", what, err)
		}
	}
	n.free(leastFree/16 - 1)
	err := n.commit(func(b *mainstem.Batch) {
		b.Add(mainstem.Write{Op: mainstem.OpForget, Space: "kept", Key: []byte("key-6")})
	})
	wantKind(t, err, mainstem.KindUnavailable, "free", fmt.Sprint(leastFree/16))
	n.free(leastFree * 100)
	if err := n.put(); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// TestNearlyFullDiskSweeps lets time pass on such a disk, and opens the log there anew:
// what has expired goes.
func TestNearlyFullDiskSweeps(t *testing.T) {
	for _, restart := range []bool{false, true} {
		n := newNearlyFull(t)
		n.c.Set(2 * time.Hour)
		if restart {
			if err := n.l.Close(); err != nil {
				t.Fatal(err)
			}
			n.open()
		}
		if err := n.l.Sweep(t.Context()); err != nil {
			t.Errorf("restarted %t: %v", restart, err)
		}
		if got := n.records("aged"); got != 0 {
			t.Errorf("restarted %t: %d records above their age are held", restart, got)
		}
		if got := n.records("kept"); got != 40 { // the tombstones that tell followers
			t.Errorf("restarted %t: %d records are held, want 40", restart, got)
		}
		wantKind(t, n.put(), mainstem.KindUnavailable, "free")
		if err := n.l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
