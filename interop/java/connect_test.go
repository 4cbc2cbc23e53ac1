package java_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/interop/java"
	"github.com/mainstemdev/mainstem/interop/kafka"
	"github.com/mainstemdev/mainstem/interop/kafka/target"
)

// TestConnectStandalone copies a file through a topic to another file, with Connect
// standalone, its file source and its file sink. Connect is stopped in between and
// goes on where it was.
func TestConnectStandalone(t *testing.T) {
	needed(t)
	t.Parallel()
	broker := target.Mainstem(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	rest, err := target.FreeAddress()
	must(t, err)
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	configs := []string{
		properties(t, dir, "worker.properties", "bootstrap.servers="+broker.Kafka, "listeners=http://"+rest,
			"key.converter=org.apache.kafka.connect.storage.StringConverter", "value.converter=org.apache.kafka.connect.storage.StringConverter",
			"offset.storage.file.filename="+filepath.Join(dir, "offsets"), "offset.flush.interval.ms=500",
			"task.shutdown.graceful.timeout.ms=60000", "plugin.discovery=service_load"),
		properties(t, dir, "source.properties", "name=source", "connector.class=FileStreamSource", "file="+from, "topic=copied"),
		properties(t, dir, "sink.properties", "name=sink", "connector.class=FileStreamSink", "file="+to, "topics=copied"),
	}
	var want strings.Builder
	for round := range 2 {
		for i := range 500 {
			fmt.Fprintf(&want, "line %d of round %d\n", i, round)
		}
		must(t, os.WriteFile(from, []byte(want.String()), 0o600))
		run(t, "org.apache.kafka.connect.cli.ConnectStandalone", configs, func() error {
			return eventually(ctx, func() error {
				got, err := os.ReadFile(to)
				if err == nil && string(got) != want.String() {
					err = fmt.Errorf("the copy has %d bytes, want %d", len(got), want.Len())
				}
				return err
			})
		})
	}
	var stored strings.Builder
	for _, r := range kafka.NewJudge(t, broker.Kafka).ReadAll(ctx, "copied", false) {
		fmt.Fprintf(&stored, "%s\n", r.Value)
	}
	if stored.String() != want.String() {
		t.Errorf("the topic has %d bytes of lines, want %d: a line is missing or doubled", stored.Len(), want.Len())
	}
}

// run runs a program of Kafka 4.1 until work is done, and stops it.
func run(t *testing.T, class string, args []string, work func() error) {
	t.Helper()
	p, err := java.Start(t.Context(), java.Kafka41, class, args...)
	must(t, err)
	t.Cleanup(p.Kill) // work may end the test
	if err := work(); err != nil {
		t.Fatalf("%v\nthe program said:\n%s", err, p.Output())
	}
	if err := p.Stop(); err != nil {
		t.Fatalf("stop %s: %v\n%s", class, err, p.Output())
	}
}

// properties writes a file of Java's and returns its path.
func properties(t *testing.T, dir, name string, lines ...string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	must(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return path
}
