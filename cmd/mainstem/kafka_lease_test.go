package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/mainstemdev/mainstem/internal/testnats"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

// TestServersOfOneLog: of the processes that serve a log, one serves Kafka. A second one
// refuses and names the first, follows one that was killed when its lease is over, and one
// that was stopped without waiting.
func TestServersOfOneLog(t *testing.T) {
	t.Run("nats", func(t *testing.T) { t.Parallel(); serversOfOneLog(t, testnats.NewServer(t, nil).URL()) })
	t.Run("postgres", func(t *testing.T) { t.Parallel(); serversOfOneLog(t, testpostgres.FastDB(t)) })
}

func serversOfOneLog(t *testing.T, log string) {
	dir := t.TempDir()
	serve := func() (*process, error) {
		s, err := startServer(dir, os.Environ(), "--log", log, "--kafka-lease", "10s")
		if err == nil {
			t.Cleanup(s.kill)
		}
		return s, err
	}
	must := func(s *process, err error) *process {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	holder := func(s *process) string { return fmt.Sprintf("process %d)", s.cmd.Process.Pid) }

	first := must(serve())
	k := kafkaCommand{t, first.kafka}
	k.want(exitOK, `.*`, "create", "t")
	k.want(exitOK, `.*`, "produce", "t", "one", "two", "three")
	k.want(exitOK, `one\ntwo\n`, "consume", "t", "--group", "g", "--max", "2")
	if _, err := serve(); err == nil || !strings.Contains(err.Error(), holder(first)) || !strings.Contains(err.Error(), "--kafka ''") {
		t.Fatalf("a second server: %v; want an error that names %q", err, holder(first))
	}

	first.kill()
	second := must(serve())
	kafkaCommand{t, second.kafka}.want(exitOK, `three\n`, "consume", "t", "--group", "g", "--max", "1")
	if err := second.end(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if text := second.stderr.String(); !strings.Contains(text, "until=") || !strings.Contains(text, holder(first)) {
		t.Errorf("the server that waited for %q does not say so:\n%s", holder(first), text)
	}

	third := must(serve())
	if err := third.end(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if text := third.stderr.String(); strings.Contains(text, "until=") {
		t.Errorf("the server waited for one that was stopped:\n%s", text)
	}
}
