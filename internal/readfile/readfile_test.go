package readfile_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/internal/readfile"
)

func TestAll(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := readfile.All(name, 10); err != nil || !bytes.Equal(text, []byte("0123456789")) {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := readfile.All(name, 9); err == nil || !strings.Contains(err.Error(), name+" has more than 9 bytes") {
		t.Error(err)
	}
	if _, err := readfile.All(name+"x", 9); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestEndlessFile(t *testing.T) {
	if _, err := readfile.All("/dev/zero", readfile.Text); err == nil || !strings.Contains(err.Error(), "/dev/zero has more than") {
		t.Error(err)
	}
}
