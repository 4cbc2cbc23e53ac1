package main

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/server"
)

// TestOldDirectory uses a directory that an older version has written and left open:
// commands that read work on it and change nothing, those that write refuse it, until a
// server has upgraded it.
func TestOldDirectory(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xzf", "../../engine/pebblelog/testdata/old/killed.tar.gz", "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	reads := func(want string) {
		t.Helper()
		if out := must(t, "check", "--log", dir, "--json"); !strings.Contains(out, want) || !strings.Contains(out, `"problems":0`) {
			t.Errorf("check says %q, want %s", out, want)
		}
	}
	put := []string{"kv", "put", "--log", dir, "app/users", "ada", "x"}
	reads(`"records":211`)
	r := run(t.Context(), nil, put...)
	if r.status == cli.ExitOK || !strings.Contains(r.errors, "mainstem serve") {
		t.Errorf("a write to the old directory: %+v", r)
	}
	reads(`"records":211`)

	var log testkit.Lines
	c := server.DefaultConfig()
	c.Log, c.Listen, c.Logger = dir, "127.0.0.1:0", log.Logger()
	n, err := server.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "the log was upgraded") {
		t.Errorf("the server logs %q", log.String())
	}
	must(t, put...)
	reads(`"records":212`)
}
