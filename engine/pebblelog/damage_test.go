package pebblelog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/crashtest"
)

const damageRecords = 200

// filled returns a directory with a log that was closed.
func filled(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	l := must(t)(pebblelog.Open(dir, nil))
	for i := range damageRecords {
		b := mainstem.NewBatch()
		b.Ensure("s", mainstem.Policy{})
		b.Put("s", fmt.Appendf(nil, "key-%d", i%7), fmt.Appendf(nil, "value %d", i))
		if _, err := l.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// whole opens the log and returns nil if everything is there, else the error met.
func whole(dir string) error {
	l, err := pebblelog.Open(dir, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	n := 0
	for r, err := range l.Feed(context.Background(), mainstem.Filter{}) {
		if err != nil {
			return err
		}
		if want := fmt.Sprintf("value %d", n); string(r.Value) != want {
			return fmt.Errorf("got %q, want %q, and no error", r.Value, want)
		}
		n++
	}
	if n != damageRecords {
		return fmt.Errorf("got %d records of %d, and no error", n, damageRecords)
	}
	return nil
}

// TestDamage changes every file of a closed log: a flipped bit, cut in half, gone.
// Nothing is lost, or the error says Corrupt.
func TestDamage(t *testing.T) {
	damages := map[string]func(path string, p []byte) error{
		"flipped": func(path string, p []byte) error {
			p[len(p)/3] ^= 0x10
			return os.WriteFile(path, p, 0o600)
		},
		"halved": func(path string, p []byte) error { return os.WriteFile(path, p[:len(p)/2], 0o600) },
		"gone":   func(path string, _ []byte) error { return os.Remove(path) },
	}
	for _, pattern := range []string{"MAINSTEM", "db/*.sst", "db/MANIFEST-*", "db/OPTIONS-*", "journal/*.journal"} {
		for name, damage := range damages {
			t.Run(name+" "+filepath.Base(pattern), func(t *testing.T) {
				dir := filled(t)
				paths, err := filepath.Glob(filepath.Join(dir, pattern))
				if err != nil || len(paths) == 0 {
					t.Fatal(paths, err)
				}
				p, err := os.ReadFile(paths[0])
				if err != nil {
					t.Fatal(err)
				}
				if len(p) == 0 {
					return // an empty file carries nothing
				}
				if err := damage(paths[0], p); err != nil {
					t.Fatal(err)
				}
				if err := whole(dir); err != nil && !errors.Is(err, mainstem.ErrCorrupt) {
					t.Errorf("want everything or a Corrupt error, got %v", err)
				}
			})
		}
	}
}

// TestLostSegment opens a log whose process was killed without a segment from the middle of its
// journal. It is Corrupt, and whole again when the file is put back.
func TestLostSegment(t *testing.T) {
	fs := vfs.NewMem()
	l := mustOpen(t, &pebblelog.Options{FS: fs})
	for i := range 7 { // the segments have 1, 4 and 16 MiB
		commitOne(t, l, func(b *mainstem.Batch) {
			b.Ensure("s", mainstem.Policy{})
			b.Put("s", []byte("k"), bytes.Repeat([]byte{byte(i)}, 1<<20-1<<10))
		})
	}
	im, err := crashtest.ReadImage(fs, "/log")
	if err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	killed, err := im.FS()
	if err != nil {
		t.Fatal(err)
	}
	const lost = "/log/journal/0000000000000002.journal"
	p := im[lost]
	if err := killed.Remove(lost); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := pebblelog.Open("/log", &pebblelog.Options{FS: killed}); !errors.Is(err, mainstem.ErrCorrupt) {
			t.Fatalf("without %s: %v, want Corrupt", lost, err)
		}
	}
	f, err := killed.Create(lost, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(p); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, &pebblelog.Options{FS: killed})
	defer l.Close()
	if info, err := l.Space(t.Context(), "s"); err != nil || info.Records != 7 {
		t.Errorf("%d records, want 7, %v", info.Records, err)
	}
}
