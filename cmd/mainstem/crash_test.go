package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/server"
)

// TestKilledImport kills importing processes at random moments. After each, the
// log is whole and holds a prefix of the lines in whole batches; importing again
// with IDs leaves every event once, in the order of the lines.
func TestKilledImport(t *testing.T) {
	const lines, streams, kills = 4000, 13, 4
	dir := t.TempDir()
	file, data := filepath.Join(dir, "lines.jsonl"), filepath.Join(dir, "log")
	var input bytes.Buffer
	for i := range lines {
		fmt.Fprintf(&input, "{\"n\":%d,\"s\":%d}\n", i, i%streams)
	}
	if err := os.WriteFile(file, input.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	line := []string{"event", "import", file, "--stream", "s-{{.s}}", "--type", "t", "--id", "{{.n}}", "--batch", "7", "--log", data}
	for range kills {
		killAtRandom(t, line)
		if isThere(filepath.Join(data, "MAINSTEM")) { // else it was killed before there was a log
			t.Logf("killed with %d lines committed", checkImported(t, data, streams))
		}
	}
	if r := run(t.Context(), nil, line...); r.status != cli.ExitOK {
		t.Fatalf("%+v", r)
	}
	if n := checkImported(t, data, streams); n != lines {
		t.Errorf("%d events, want %d", n, lines)
	}
}

// killAtRandom starts a process and kills it within its first moments.
func killAtRandom(t *testing.T, line []string) {
	t.Helper()
	path, err := exec.LookPath("mainstem")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, line...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(time.Duration(10+rand.IntN(150))*time.Millisecond, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Wait(); err != nil && errs.Len() > 0 {
		t.Fatalf("it ended by itself: %v: %s", err, errs.String())
	}
}

// checkImported checks the log and that its events are a prefix of the lines; it
// returns how many there are.
func checkImported(t *testing.T, data string, streams int) int {
	t.Helper()
	if r := run(t.Context(), nil, "check", "--log", data); r.status != cli.ExitOK {
		t.Fatalf("%+v", r)
	}
	log, err := server.OpenLog(t.Context(), data, &server.LogOptions{MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	store, err := event.Open(log, "events", nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for e, err := range store.Feed(context.Background(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		var line struct{ N, S int }
		if err := json.Unmarshal(e.Data, &line); err != nil {
			t.Fatal(err)
		}
		if line.N != n || e.Stream != fmt.Sprintf("s-%d", n%streams) {
			t.Fatalf("event %d of the log is line %d in stream %s", n, line.N, e.Stream)
		}
		n++
	}
	return n
}
