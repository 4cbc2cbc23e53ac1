package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

// TestDamagedNewLogIsReported flips a bit in the middle of the write-ahead log of a
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
	name, content := largestLog(t, killed)
	content[len(bytes.TrimRight(content, "\x00"))/2] ^= 1
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"stats", "check", "stats"} {
		r := run(t.Context(), nil, command, "--log", killed)
		if r.status == exitOK || !strings.Contains(r.errors, filepath.Base(name)) {
			t.Errorf("%s: %+v", command, r)
		}
		if after, err := os.ReadFile(name); err != nil || !bytes.Equal(after, content) {
			t.Errorf("%s changed %s: %v", command, name, err)
		}
	}
}

// largestLog returns the write-ahead log that holds most, and its content.
func largestLog(t *testing.T, dir string) (path string, content []byte) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "db", "*.log"))
	for _, p := range paths {
		c, rerr := os.ReadFile(p)
		if err = errors.Join(err, rerr); len(c) > len(content) {
			path, content = p, c
		}
	}
	if err != nil || len(content) < 1000 {
		t.Fatal(paths, err)
	}
	return path, content
}
