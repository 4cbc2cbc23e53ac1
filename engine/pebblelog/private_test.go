package pebblelog_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

// wantPrivate fails the test unless only the owner may use what is below root.
func wantPrivate(t *testing.T, root string) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != root {
			return nil // a log that is open removes files
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if n++; info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil || n < 5 {
		t.Errorf("%d files in %s, %v", n, root, err)
	}
}

// TestOnlyTheOwnerReads looks at the modes of everything that a log creates: while it is
// open, when segments were reused and files merged, and in its copies.
func TestOnlyTheOwnerReads(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "above", "data")
	l, err := pebblelog.Open(path, &pebblelog.Options{MemTableBytes: 256 << 10, Durability: mainstem.OS})
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		b := mainstem.NewBatch()
		b.Ensure("s", mainstem.Policy{})
		b.Put("s", []byte("key"), make([]byte, 64<<10))
		if _, err := l.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	wantPrivate(t, filepath.Join(root, "above"))
	if err := l.BackupTo(t.Context(), filepath.Join(root, "copy")); err != nil {
		t.Fatal(err)
	}
	wantPrivate(t, filepath.Join(root, "copy"))
	var stream bytes.Buffer
	if err := l.Backup(t.Context(), &stream); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := pebblelog.Restore(t.Context(), &stream, filepath.Join(root, "restored")); err != nil {
		t.Fatal(err)
	}
	wantPrivate(t, filepath.Join(root, "restored"))
	if l, err = pebblelog.Open(path, nil); err != nil {
		t.Fatal(err)
	}
	wantPrivate(t, path)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestExistingDirectoryKeepsItsMode opens a log where somebody has chosen who may look.
func TestExistingDirectoryKeepsItsMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(path, 0o750); err != nil {
		t.Fatal(err)
	}
	l := must(t)(pebblelog.Open(path, nil))
	defer l.Close()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("mode %v, %v", info.Mode().Perm(), err)
	}
	wantPrivate(t, filepath.Join(path, "db"))
}

// TestLockOfSomethingElse puts something else where the lock should be: it is not emptied.
func TestLockOfSomethingElse(t *testing.T) {
	for name, plant := range map[string]func(target, lock string) error{
		"symbolic link": os.Symlink,
		"hard link":     os.Link,
	} {
		for _, in := range []string{"LOCK", filepath.Join("db", "LOCK")} {
			t.Run(name+" "+in, func(t *testing.T) {
				dir := filled(t)
				target, lock := filepath.Join(t.TempDir(), "precious"), filepath.Join(dir, in)
				if err := errors.Join(os.WriteFile(target, []byte("text"), 0o600), os.Remove(lock), plant(target, lock)); err != nil {
					t.Fatal(err)
				}
				if _, err := pebblelog.Open(dir, nil); !errors.Is(err, mainstem.ErrInvalid) {
					t.Errorf("opened with %v, want Invalid", err)
				}
				if p, err := os.ReadFile(target); err != nil || string(p) != "text" {
					t.Errorf("the target holds %q, %v", p, err)
				}
				if err := os.Remove(lock); err != nil {
					t.Fatal(err)
				}
				if err := whole(dir); err != nil {
					t.Errorf("without it: %v", err)
				}
			})
		}
	}
}
