package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

// TestBackupIsPrivate looks at who may read a copy of everything.
func TestBackupIsPrivate(t *testing.T) {
	dir := t.TempDir()
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, "copy.tar")
	if r := run(t.Context(), nil, "kv", "put", "key", "value", "--log", data); r.status != cli.ExitOK {
		t.Fatalf("%+v", r)
	}
	for _, line := range [][]string{{"backup", "--log", data, "--to", file}, {"backup", "--log", data, "--to", file, "--force"}} {
		if r := run(t.Context(), nil, line...); r.status != cli.ExitOK {
			t.Fatalf("%+v", r)
		}
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode().Perm(), err)
		}
	}
	info, err := os.Stat(data)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the log's directory has mode %v, %v", info.Mode().Perm(), err)
	}
}
