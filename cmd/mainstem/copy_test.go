package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/internal/logcopy"
	"github.com/mainstemdev/mainstem/server"
	"github.com/mainstemdev/mainstem/topic"
)

var realCommits = filepath.Join("..", "..", "examples", "commits", "testdata", "commits.jsonl")

// must runs a command line that must succeed.
func must(t *testing.T, line ...string) string {
	t.Helper()
	r := run(t.Context(), nil, line...)
	if r.status != cli.ExitOK {
		t.Fatalf("%q: %+v", line, r)
	}
	return r.out
}

// contents writes down every record of a log in the order of its feed and by key.
func contents(t *testing.T, target string) (out []string) {
	t.Helper()
	log, err := server.OpenLog(t.Context(), target, &server.LogOptions{MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	add := func(what string, r mainstem.Record, err error) {
		if err != nil {
			t.Fatal(err)
		}
		r.Position = 0
		out = append(out, fmt.Sprintf("%s %s %q %d %d %d %d %d %q %v %q", what, r.Space, r.Key, r.Version, r.Count, r.Tombstone,
			r.Time.UnixNano(), r.Expires.UnixNano(), r.Value, r.Value == nil, r.Headers))
	}
	for r, err := range log.Feed(t.Context(), mainstem.Filter{}) {
		add("feed", r, err)
	}
	for in, err := range log.Spaces(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if in.Name == logcopy.Space {
			continue
		}
		out = append(out, fmt.Sprintf("%s %+v %d %d %d", in.Name, in.Policy, in.Keys, in.Records, in.Bytes))
		for r, err := range log.Scan(t.Context(), in.Name, mainstem.Range{Tombstones: true}) {
			add("scan", r, err)
		}
	}
	return out
}

// produceToKafka writes to topics of a node on the log in dir with a Kafka client, in
// every codec, and commits offsets of a group.
func produceToKafka(t *testing.T, dir string) {
	t.Helper()
	n, k := startKafkaNode(t, dir)
	for i, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		name := fmt.Sprint("codec-", i)
		client, err := kgo.NewClient(kgo.SeedBrokers(k.Addr().String()), kgo.ProducerBatchCompression(codec), kgo.AllowAutoTopicCreation(),
			kgo.ConsumeTopics(name), kgo.ConsumerGroup("readers"), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		if err != nil {
			t.Fatal(err)
		}
		for j := range 300 {
			client.Produce(t.Context(), &kgo.Record{Topic: name, Key: fmt.Append(nil, j%7), Value: []byte(strings.Repeat("text ", j))}, nil)
		}
		if err := client.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if f := client.PollFetches(t.Context()); f.Err() != nil || f.NumRecords() == 0 {
			t.Fatalf("%d records: %v", f.NumRecords(), f.Err())
		}
		if err := client.CommitUncommittedOffsets(t.Context()); err != nil {
			t.Fatal(err)
		}
		client.Close()
	}
	if err := n.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// emptyPartition makes a topic whose three records were all deleted.
func emptyPartition(t *testing.T, dir string) {
	t.Helper()
	must(t, "topic", "create", "emptied", "--partitions", "2", "--log", dir)
	must(t, "topic", "produce", "emptied", "1", "2", "3", "--partition", "1", "--log", dir)
	log, err := server.OpenLog(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	topics, err := topic.Open(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer topics.Close()
	emptied, err := topics.Topic(t.Context(), "emptied")
	if err != nil {
		t.Fatal(err)
	}
	if start, err := emptied.DeleteRecords(t.Context(), 1, topic.ToEnd); start != 3 || err != nil {
		t.Fatal(start, err)
	}
}

// TestCopyOfRealData copies the real commits in all three views, topics of a Kafka client
// and some of everything else from a directory to a server and back to a directory.
func TestCopyOfRealData(t *testing.T) {
	dir, back := filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "back")
	must(t, "event", "import", "--store", "commits", "--stream", "author-{{.author}}", "--type", "commit", "--log", dir, realCommits)
	must(t, "kv", "import", "commits", realCommits, "--key", "{{.id}}", "--log", dir)
	must(t, "kv", "put", "sessions", "s", "token", "--ttl", "1h", "--meta", "user=42", "--log", dir)
	must(t, "kv", "put", "sessions", "gone", "x", "--log", dir)
	must(t, "kv", "delete", "sessions", "gone", "--log", dir)
	for _, codec := range []string{"none", "zstd"} {
		must(t, "topic", "create", "lines-"+codec, "--partitions", "3", "--log", dir)
		must(t, "topic", "produce", "lines-"+codec, "a", "b", "c", "--compression", codec, "--log", dir)
	}
	produceToKafka(t, dir)
	emptyPartition(t, dir)
	want := contents(t, dir)
	if len(want) < 3*2800 {
		t.Fatalf("only %d lines", len(want))
	}

	remote := "http://" + startNode(t).Addr().String()
	must(t, "copy", "--from", dir, "--to", remote)
	out := must(t, "copy", "--from", remote, "--to", back, "--json")
	var report struct {
		Complete                             bool
		Differences, Records, Position, Head int64
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || !report.Complete || report.Records < 5600 || report.Position != report.Head {
		t.Errorf("%s %v", out, err)
	}
	if got := contents(t, back); !slices.Equal(got, want) {
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				t.Fatalf("line %d is\n%.500s, want\n%.500s", i, got[i], want[i])
			}
		}
		t.Fatalf("%d lines, want %d", len(got), len(want))
	}
	must(t, "copy", "--from", dir, "--to", back, "--verify-only")
	must(t, "check", "--log", back)
	if out := must(t, "topic", "produce", "emptied", "4", "--partition", "1", "--json", "--log", back); !strings.Contains(out, `"offset":3`) {
		t.Errorf("a partition without records goes on with %s", out)
	}
	if r := run(t.Context(), nil, "copy", "--from", remote, "--to", back); r.status != cli.ExitConflict || !strings.Contains(r.errors, "others have written") {
		t.Errorf("a target with a life of its own: %+v", r)
	}
}

// TestKilledCopy kills copying processes at random moments: the last one goes on and
// ends with both sides the same.
func TestKilledCopy(t *testing.T) {
	dir, to := filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "to")
	must(t, "event", "import", "--store", "commits", "--stream", "author-{{.author}}", "--type", "commit", "--batch", "2", "--log", dir, realCommits)
	must(t, "kv", "import", "commits", realCommits, "--key", "{{.id}}", "--batch", "3", "--log", dir)
	for range 6 {
		killAtRandom(t, []string{"copy", "--from", dir, "--to", to})
		if isThere(filepath.Join(to, "MAINSTEM")) {
			must(t, "check", "--log", to)
		}
	}
	out := must(t, "copy", "--from", dir, "--to", to)
	if !strings.HasSuffix(out, ": the same\n") {
		t.Error(out)
	}
	t.Log(out)
	if got, want := contents(t, to), contents(t, dir); !slices.Equal(got, want) {
		t.Errorf("%d lines, want %d", len(got), len(want))
	}
}

// TestInterruptedCopySaysHowToGoOn: a signal ends a copy properly.
func TestInterruptedCopySaysHowToGoOn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	must(t, "event", "import", "--store", "commits", "--stream", "author-{{.author}}", "--type", "commit", "--batch", "1", "--log", dir, realCommits)
	for range 20 { // the copy may be quicker
		to := filepath.Join(t.TempDir(), "to")
		r := interruptCopy(t, dir, to)
		if r.status == cli.ExitOK {
			continue
		}
		if r.status != cli.ExitInterrupted || !strings.Contains(r.errors, "interrupted") || r.out != "" && !strings.Contains(r.out, "run the same command again") {
			t.Fatalf("%+v", r)
		}
		if out := must(t, "copy", "--from", dir, "--to", to); !strings.HasSuffix(out, ": the same\n") {
			t.Error(out)
		}
		return
	}
	t.Error("no copy could be interrupted")
}

// interruptCopy interrupts a copy when it has begun to write.
func interruptCopy(t *testing.T, dir, to string) result {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	done := make(chan result, 1)
	go func() { done <- run(ctx, nil, "copy", "--from", dir, "--to", to) }()
	if !eventually(func() bool { return isThere(filepath.Join(to, "MAINSTEM")) || len(done) > 0 }) {
		t.Fatal("the copy did not begin")
	}
	cancel(cli.ErrInterrupted)
	return <-done
}
