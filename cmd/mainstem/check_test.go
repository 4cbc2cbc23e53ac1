package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

// TestDamagedNewLogIsReported flips a bit in the middle of the first segment of a
// new directory whose process was killed: every command that reads it says so, and none
// removes what is left.
func TestDamagedNewLogIsReported(t *testing.T) {
	data, killed := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "killed")
	log, err := pebblelog.Open(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for i := range 300 {
		b := mainstem.NewBatch()
		b.Ensure("s", mainstem.Policy{})
		b.Put("s", fmt.Appendf(nil, "key-%d", i), []byte("value"))
		if _, err := log.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	// What a killed process leaves is what the files hold now.
	if err := os.CopyFS(killed, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	name, content := newestSegment(t, killed)
	content[len(bytes.TrimRight(content, "\x00"))/2] ^= 1
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"stats", "check", "stats"} {
		r := run(t.Context(), nil, command, "--log", killed)
		if r.status == cli.ExitOK || !strings.Contains(r.errors, filepath.Base(name)) {
			t.Errorf("%s: %+v", command, r)
		}
		if after, err := os.ReadFile(name); err != nil || !bytes.Equal(after, content) {
			t.Errorf("%s changed %s: %v", command, name, err)
		}
	}
}

// newestSegment returns the newest segment of the journal, and its content.
func newestSegment(t *testing.T, dir string) (path string, content []byte) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "journal", "*.journal"))
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	path = paths[len(paths)-1]
	if content, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return path, content
}
