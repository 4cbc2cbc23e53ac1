package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

// filesWith returns the files below dir that hold p.
func filesWith(t *testing.T, dir string, p []byte) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, p) {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestCompactErases deletes a value and looks for it in the files before and after.
func TestCompactErases(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	const value = "x7Qp-2kfZ-9wLm-4hRt-8vYc" // too short and mixed to be compressed
	must(t, "kv", "put", "--log", dir, "app/users", "ada", value)
	must(t, "kv", "put", "--log", dir, "app/users", "bob", "stays")
	must(t, "kv", "delete", "--log", dir, "app/users", "ada")
	if len(filesWith(t, dir, []byte(value))) == 0 {
		t.Fatal("no file held the value before")
	}
	if out := must(t, "compact", "--log", dir); !strings.HasPrefix(out, "compacted in ") {
		t.Errorf("compact says %q", out)
	}
	if names := filesWith(t, dir, []byte(value)); len(names) > 0 {
		t.Errorf("the value is still in %v", names)
	}
	if out := must(t, "kv", "get", "--log", dir, "app/users", "bob"); !strings.Contains(out, "stays") {
		t.Errorf("what was not deleted is %q", out)
	}
	if out := must(t, "compact", "--log", dir, "--json"); !strings.Contains(out, `"compacted":true`) {
		t.Errorf("compact --json says %q", out)
	}
	if r := run(t.Context(), nil, "compact", "--log", filepath.Join(dir, "none")); r.status == cli.ExitOK {
		t.Errorf("a log that is not there: %+v", r)
	}
}
