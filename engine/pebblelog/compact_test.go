package pebblelog_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/crashtest"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// secret is what must not be found. It does not compress, so that files hold it as it is.
var secret = []byte("\x8f\x11\xa7\x03\xee\x52\xc4\x99\x1b\xd6\x70\x2d\xfa\x3e\x85\x61\x0c\xb8\x47\xe3")

// holding returns the files below /log that hold the secret.
func holding(t *testing.T, fs vfs.FS) (names []string) {
	t.Helper()
	im, err := crashtest.ReadImage(fs, "/log")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range im.Paths() {
		if bytes.Contains(im[name], secret) {
			names = append(names, name)
		}
	}
	return names
}

// TestCompactErases removes records in every way and looks for their bytes in all files.
func TestCompactErases(t *testing.T) {
	removals := map[string]func(l *pebblelog.Log, b *mainstem.Batch) error{
		"forget": func(_ *pebblelog.Log, b *mainstem.Batch) error {
			b.Add(mainstem.Write{Op: mainstem.OpForget, Space: "s", Key: []byte("k")})
			return nil
		},
		"truncate":   func(_ *pebblelog.Log, b *mainstem.Batch) error { b.Truncate("s", []byte("k"), 3); return nil },
		"rewrite":    func(_ *pebblelog.Log, b *mainstem.Batch) error { b.Rewrite("s", []byte("k"), 2, nil, nil); return nil },
		"drop space": func(l *pebblelog.Log, _ *mainstem.Batch) error { return l.DropSpace(t.Context(), "s") },
	}
	for name, remove := range removals {
		for _, flushed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, flushed %t", name, flushed), func(t *testing.T) {
				fs := vfs.NewMem()
				l := mustOpen(t, &pebblelog.Options{FS: fs})
				defer l.Close()
				commitOne(t, l, func(b *mainstem.Batch) {
					b.Ensure("s", mainstem.Policy{})
					b.Ensure("other", mainstem.Policy{History: 1})
					for _, value := range [][]byte{nil, secret, []byte("last")} {
						b.Put("s", []byte("k"), value)
					}
					b.Put("other", []byte("k"), secret)
				})
				if flushed {
					l.FlushRaw()
				}
				commitOne(t, l, func(b *mainstem.Batch) {
					if err := remove(l, b); err != nil {
						t.Fatal(err)
					}
					b.Put("other", []byte("k"), []byte("new"))
				})
				if len(holding(t, fs)) == 0 {
					t.Fatal("no file held the bytes before")
				}
				if err := l.Compact(t.Context()); err != nil {
					t.Fatal(err)
				}
				if names := holding(t, fs); len(names) > 0 {
					t.Errorf("the bytes are still in %v", names)
				}
				commitOne(t, l, func(b *mainstem.Batch) { b.Put("other", []byte("k"), []byte("newer")) })
				mustCheck(t, l)
			})
		}
	}
}

func commitOne(t *testing.T, l *pebblelog.Log, fill func(b *mainstem.Batch)) {
	t.Helper()
	b := mainstem.NewBatch()
	fill(b)
	if _, err := l.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// TestCompactWaitsForReads refuses while a snapshot is open, and waits for a scan.
func TestCompactWaitsForReads(t *testing.T) {
	fs := vfs.NewMem()
	l := mustOpen(t, &pebblelog.Options{FS: fs})
	defer l.Close()
	commitOne(t, l, func(b *mainstem.Batch) {
		b.Ensure("s", mainstem.Policy{History: 1})
		b.Put("s", []byte("a"), secret)
		b.Put("s", []byte("b"), nil)
	})
	l.FlushRaw()
	snap, err := l.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Compact(t.Context()); mainstem.KindOf(err) != mainstem.KindUnavailable {
		t.Errorf("with a snapshot: %v, want Unavailable", err)
	}
	if err := snap.Close(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	for _, err := range l.Scan(t.Context(), "s", mainstem.Range{Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		commitOne(t, l, func(b *mainstem.Batch) { b.Put("s", []byte("a"), nil) })
		go func() { done <- l.Compact(t.Context()) }()
		select {
		case err := <-done:
			t.Fatalf("it returned while a scan needs a file: %v", err)
		case <-time.After(50 * time.Millisecond): // long enough to notice, most of the time
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if names := holding(t, fs); len(names) > 0 {
		t.Errorf("the bytes are still in %v", names)
	}
}

// TestCompactErasesWhatASnapshotKept compacts files of the last level that hold removed bytes since
// a snapshot needed them when Pebble made the files.
func TestCompactErasesWhatASnapshotKept(t *testing.T) {
	fs := vfs.NewMem()
	l := mustOpen(t, &pebblelog.Options{FS: fs})
	defer l.Close()
	snap := overwriteBesideSnapshot(t, l)
	l.MergeRaw(t.Context())
	if err := snap.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing to remove
		if err := l.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		if names := holding(t, fs); len(names) > 0 {
			t.Errorf("the bytes are still in %v", names)
		}
	}
	if r, err := l.Get(t.Context(), "s", []byte("k")); err != nil || string(r.Value) != "new" {
		t.Errorf("read %q, %v", r.Value, err)
	}
	mustCheck(t, l)
}

// TestCompactErasesWhatAMergeKept compacts while Pebble merges files for a snapshot that was open
// when that began.
func TestCompactErasesWhatAMergeKept(t *testing.T) {
	fs := vfs.NewMem()
	g := &gatedFS{FS: fs, began: make(chan struct{}, 1), gate: make(chan struct{})}
	l := mustOpen(t, &pebblelog.Options{FS: g})
	defer l.Close()
	snap := overwriteBesideSnapshot(t, l)
	merged, compacted := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(merged)
		l.MergeRaw(context.Background())
	}()
	<-g.began
	if err := snap.Close(); err != nil {
		t.Fatal(err)
	}
	go func() { compacted <- l.Compact(context.Background()) }()
	testkit.Eventually(t, "the bytes are in no file of the journal any more", func() bool {
		return !slices.ContainsFunc(holding(t, fs), func(name string) bool { return strings.HasSuffix(name, ".journal") })
	})
	close(g.gate)
	<-merged
	if err := <-compacted; err != nil {
		t.Fatal(err)
	}
	if names := holding(t, fs); len(names) > 0 {
		t.Errorf("the bytes are still in %v", names)
	}
}

// overwriteBesideSnapshot overwrites the secret while the snapshot that it returns is open.
func overwriteBesideSnapshot(t *testing.T, l *pebblelog.Log) mainstem.Snapshot {
	t.Helper()
	commitOne(t, l, func(b *mainstem.Batch) {
		b.Ensure("s", mainstem.Policy{History: 1})
		for i := range 100 { // many keys without removals: Pebble does not rewrite the file by itself
			b.Put("s", fmt.Appendf(nil, "key-%d", i), nil)
		}
		b.Put("s", []byte("k"), secret)
	})
	l.FlushRaw()
	snap, err := l.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	commitOne(t, l, func(b *mainstem.Batch) { b.Put("s", []byte("k"), []byte("new")) })
	return snap
}

// TestCompactBesideCommits compacts while others commit.
func TestCompactBesideCommits(t *testing.T) {
	fs := vfs.NewMem()
	l := mustOpen(t, &pebblelog.Options{FS: fs, Durability: mainstem.OS})
	defer l.Close()
	commitOne(t, l, func(b *mainstem.Batch) {
		b.Ensure("s", mainstem.Policy{History: 1})
		b.Put("s", []byte("k"), secret)
	})
	commitOne(t, l, func(b *mainstem.Batch) { b.Delete("s", []byte("k")) })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			b := mainstem.NewBatch()
			b.Put("s", []byte("busy"), []byte("value"))
			if _, err := l.Commit(t.Context(), b); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	for range testkit.Rounds(5) {
		if err := l.Compact(t.Context()); err != nil {
			t.Error(err)
		}
		if names := holding(t, fs); len(names) > 0 {
			t.Errorf("the bytes are still in %v", names)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestCompactBesideBackup refuses while a backup is streamed: links in the directory keep the
// files that it copies.
func TestCompactBesideBackup(t *testing.T) {
	fs := vfs.NewMem()
	l := mustOpen(t, &pebblelog.Options{FS: fs})
	defer l.Close()
	backup, ended := slowBackup(t, l)
	if err := l.Compact(t.Context()); mainstem.KindOf(err) != mainstem.KindUnavailable || !strings.Contains(err.Error(), "1 backups") {
		t.Errorf("with a backup: %v, want Unavailable", err)
	}
	if _, err := io.Copy(io.Discard, backup); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := l.Compact(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCloseBesideBackup closes a log whose backup nobody reads any more.
func TestCloseBesideBackup(t *testing.T) {
	l := mustOpen(t, &pebblelog.Options{FS: vfs.NewMem()})
	backup, ended := slowBackup(t, l)
	closeLog(t, l)
	backup.Close()
	if err := <-ended; err == nil {
		t.Error("a backup that nobody read to its end is no error")
	}
}

// slowBackup begins a backup of which one byte was read. ended gets its error.
func slowBackup(t *testing.T, l *pebblelog.Log) (backup *io.PipeReader, ended <-chan error) {
	t.Helper()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := l.Backup(context.Background(), w)
		w.CloseWithError(err)
		done <- err
	}()
	if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return r, done
}

// TestJobsDoNotSync takes a snapshot where only commits that asked for no sync were made.
func TestJobsDoNotSync(t *testing.T) {
	l := mustOpen(t, &pebblelog.Options{FS: vfs.NewMem()})
	defer l.Close()
	commitOne(t, l, func(b *mainstem.Batch) { b.Ensure("s", mainstem.Policy{}) })
	before := l.Syncs()
	commitOne(t, l, func(b *mainstem.Batch) { b.Durability = mainstem.OS; b.Put("s", []byte("k"), nil) })
	snap, err := l.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	if got := l.Syncs(); got != before {
		t.Errorf("%d syncs for a snapshot", got-before)
	}
}
