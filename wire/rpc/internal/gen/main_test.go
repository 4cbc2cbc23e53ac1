package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The committed code is what the committed protocol files generate.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	root := filepath.Join("..", "..")
	files, err := generate(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(plugins)*len(sources) {
		t.Errorf("%d files generated, want one of each plugin for each source", len(files))
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Error(err)
			continue
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what its protocol file generates: run go generate ./wire/rpc", name)
		}
	}
}
