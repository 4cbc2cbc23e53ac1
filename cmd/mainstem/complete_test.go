package main

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

// TestCompletionIsBounded: of many keys a shell gets some, all of which begin with what was typed.
func TestCompletionIsBounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	var lines strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&lines, "{\"id\":\"user-%03d\"}\n{\"id\":\"other-%03d\"}\n", i, i)
	}
	in := func(m *cli.Main) { m.Stdin = strings.NewReader(lines.String()) }
	if r := run(t.Context(), in, "kv", "import", "b", "-", "--key", "{{.id}}", "--log", dir); r.status != cli.ExitOK {
		t.Fatalf("%+v", r)
	}
	patient := func(m *cli.Main) { m.Env = append(m.Env, cli.CompletionTime+"=2m") }
	r := run(t.Context(), patient, "__complete", "kv", "get", "--log", dir, "b", "user-")
	if n := strings.Count(r.out, "user-"); r.status != cli.ExitOK || n != 200 || strings.Contains(r.out, "other-") {
		t.Errorf("%d names, want 200: %+v", n, r)
	}
}

// TestCompletionDoesNotWait for a server that accepts connections and never answers.
func TestCompletionDoesNotWait(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	r := run(t.Context(), nil, "__complete", "kv", "get", "--log", "http://"+silent.Addr().String(), "b")
	if r.status != cli.ExitOK || r.out != ":4\n" || strings.Contains(r.errors, "mainstem:") {
		t.Errorf("%+v", r)
	}
}
