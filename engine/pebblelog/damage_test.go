package pebblelog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
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
