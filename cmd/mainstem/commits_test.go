package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

// TestRealCommits imports the real input of the commits example with the command
// of the README, and compares with an independent count of the file.
func TestRealCommits(t *testing.T) {
	file := filepath.Join("..", "..", "examples", "commits", "testdata", "commits.jsonl")
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	commits, authors := 0, map[string]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); commits++ {
		var c struct{ Author string }
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		authors[c.Author]++
	}
	if commits < 1000 || len(authors) < 100 {
		t.Fatalf("%d commits by %d authors: that is not the file", commits, len(authors))
	}

	dir := filepath.Join(t.TempDir(), "log")
	r := run(t.Context(), nil, "event", "import", "--store", "commits", "--stream", "author-{{.author}}", "--type", "commit", "--log", dir, file)
	if want := fmt.Sprintf(": %d written\n", commits); r.status != cli.ExitOK || !strings.HasSuffix(r.out, want) {
		t.Fatalf("%+v, want %q", r, want)
	}
	r = run(t.Context(), nil, "event", "streams", "--store", "commits", "--log", dir)
	var want strings.Builder
	for _, author := range cli.SortedNames(authors) {
		fmt.Fprintf(&want, "author-%s\t%d\n", author, authors[author])
	}
	if r.status != cli.ExitOK || r.out != want.String() {
		t.Errorf("the streams are\n%s\nwant\n%s%s", r.out, want.String(), r.errors)
	}
}
