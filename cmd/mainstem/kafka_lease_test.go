package main

import (
	"context"
	"fmt"
	"os"
	"slices"
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
	k, err := dialKafka(first.kafka)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.create(t.Context(), "t", 1); err != nil {
		t.Fatal(err)
	}
	if err := k.produce(t.Context(), "t", 0, "one", "two", "three"); err != nil {
		t.Fatal(err)
	}
	wantOfGroup(t, first, "one", "two")
	if _, err := serve(); err == nil || !strings.Contains(err.Error(), holder(first)) || !strings.Contains(err.Error(), "--kafka ''") {
		t.Fatalf("a second server: %v; want an error that names %q", err, holder(first))
	}

	first.kill()
	second := must(serve())
	wantOfGroup(t, second, "three")
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

// wantOfGroup demands that the next values for the group g of topic t are those.
func wantOfGroup(t *testing.T, s *process, want ...string) {
	t.Helper()
	k, err := dialKafka(s.kafka, consuming("t", "g")...)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	ctx, cancel := context.WithTimeout(t.Context(), kafkaTime)
	defer cancel()
	records, err := k.consume(ctx, len(want))
	var got []string
	for _, r := range records {
		got = append(got, string(r.Value))
	}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("the group is given %q, %v; want %q", got, err, want)
	}
}
