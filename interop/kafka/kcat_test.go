//go:build kcat

// The tests of this file need kcat, which no Go module brings along. CI fetches
// Debian's package and sets the tag; with the tag a missing kcat is a failure.

package kafka_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/interop/kafka/target"
)

// kcat runs the program that KCAT names, or the one on the path.
func kcat(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	program := os.Getenv("KCAT")
	if program == "" {
		program = "kcat"
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var errors bytes.Buffer
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kcat %s: %v\n%s", strings.Join(args, " "), err, errors.String())
	}
	return string(out)
}

func TestKcatListsProducesConsumes(t *testing.T) {
	broker := target.Mainstem(t)
	b := broker.Kafka
	var want strings.Builder
	for i := range 100 {
		fmt.Fprintf(&want, "k%d:value %d of a hundred values\n", i, i)
	}
	for _, codec := range []string{"none", "gzip", "snappy", "lz4"} { // 1.7.1 knows no zstd by name
		topic := "kcat-" + codec
		kcat(t, want.String(), "-b", b, "-P", "-t", topic, "-K", ":", "-z", codec, "-X", "acks=all")
		if got := kcat(t, "", "-b", b, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-K", ":"); got != want.String() {
			t.Errorf("%s: consumed\n%s\nwant\n%s", codec, got, &want)
		}
	}
	list := kcat(t, "", "-b", b, "-L")
	for _, part := range []string{"1 brokers", `topic "kcat-gzip" with 1 partitions`, b} {
		if !strings.Contains(list, part) {
			t.Errorf("the list does not say %q:\n%s", part, list)
		}
	}
	if got := strings.TrimSpace(kcat(t, "", "-b", b, "-Q", "-t", "kcat-gzip:0:-1")); got != "kcat-gzip [0] offset 100" {
		t.Errorf("asked for the end: %q", got)
	}
	last := kcat(t, "", "-b", b, "-C", "-t", "kcat-gzip", "-o", "-3", "-e", "-q", "-f", `%o %k\n`)
	if last != "97 k97\n98 k98\n99 k99\n" {
		t.Errorf("the last three are %q", last)
	}
}

func TestKcatGroupGoesOn(t *testing.T) {
	b := target.Mainstem(t).Kafka
	for _, value := range []string{"one", "two"} {
		kcat(t, value+"\n", "-b", b, "-P", "-t", "groups")
		got := kcat(t, "", "-b", b, "-G", "kcat", "-c", "1", "-q", "-X", "auto.offset.reset=earliest", "groups")
		if strings.TrimSpace(got) != value {
			t.Errorf("the group read %q, want %s", got, value)
		}
	}
}

func TestKcatTransaction(t *testing.T) {
	b := target.Mainstem(t).Kafka
	kcat(t, "a\nb\n", "-b", b, "-P", "-t", "txn", "-X", "transactional.id=kcat")
	if got := kcat(t, "", "-b", b, "-C", "-t", "txn", "-e", "-q", "-X", "isolation.level=read_committed"); got != "a\nb\n" {
		t.Errorf("read %q", got)
	}
}

func TestKcatReadsImportedEvents(t *testing.T) {
	broker := target.Mainstem(t)
	out, err := broker.Run(t.Context(), "event", "import", "--store", "commits", "--stream", "author-{{.author}}", "--type", "commit",
		"../../examples/commits/testdata/commits.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	const commits = 2819
	if !strings.Contains(out, fmt.Sprint(commits, " written")) {
		t.Fatalf("import: %s", out)
	}
	for _, topic := range []string{"event.commits", "event.commits.author"} {
		got := kcat(t, "", "-b", broker.Kafka, "-C", "-t", topic, "-e", "-q")
		if n := strings.Count(got, "\n"); n != commits {
			t.Errorf("%s: %d records, want %d", topic, n, commits)
		}
	}
}
