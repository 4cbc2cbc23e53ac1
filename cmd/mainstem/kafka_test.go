package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/servertest"
	"github.com/mainstemdev/mainstem/server"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

func startKafkaNode(t *testing.T, change func(*server.Config)) *server.Server {
	t.Helper()
	c := server.DefaultConfig()
	c.Log, c.Listen, c.Kafka = server.Memory, "127.0.0.1:0", "127.0.0.1:0"
	if change != nil {
		change(&c)
	}
	n, err := server.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

// onClusters runs a test on our own server and on a cluster that others wrote.
func onClusters(t *testing.T, body func(t *testing.T, bootstrap string)) {
	t.Run("mainstem", func(t *testing.T) { body(t, startKafkaNode(t, nil).KafkaAddr().String()) })
	t.Run("kfake", func(t *testing.T) {
		c, err := kfake.NewCluster(kfake.NumBrokers(2))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		body(t, strings.Join(c.ListenAddrs(), ","))
	})
}

// kafkaCommand runs topic commands on a cluster.
type kafkaCommand struct {
	t         *testing.T
	bootstrap string
}

func (k kafkaCommand) run(change func(*Main), line ...string) result {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), time.Minute)
	defer cancel()
	return run(ctx, change, append(append([]string{"topic"}, line...), "--bootstrap", k.bootstrap)...)
}

// want runs a command and demands its status and that its output matches.
func (k kafkaCommand) want(status int, pattern string, line ...string) {
	k.t.Helper()
	r := k.run(nil, line...)
	text := r.out
	if status != exitOK {
		text = r.errors
	}
	if r.status != status || !regexp.MustCompile("(?s)^(?:"+pattern+")$").MatchString(text) {
		k.t.Fatalf("%q: status %d, out %q, errors %q; want status %d, %q", line, r.status, r.out, r.errors, status, pattern)
	}
}

func TestTopicsOfACluster(t *testing.T) {
	onClusters(t, func(t *testing.T, bootstrap string) {
		k := kafkaCommand{t, bootstrap}
		k.want(exitOK, `orders\t3 partitions\tretention.ms=86400000\n`, "create", "orders", "--partitions", "3", "--config", "retention.ms=86400000")
		k.want(exitConflict, `.*exists.*`, "create", "orders")
		k.want(exitOK, `orders\t3 partitions\n`, "list")
		k.want(exitOK, `\{"topic":"orders","id":"[^"]{22}","partitions":3\}\n`, "list", "--json")

		k.want(exitOK, `partition\t\d\toffset\t0\npartition\t\d\toffset\t1\n`, "produce", "orders", "--key", "42", `{"total":17}`, "second", "--header", "trace=t1")
		k.want(exitOK, `\{"topic":"orders","partition":\d,"offset":0,"time":"[^"]+","key":"42","headers":\[\{"name":"trace","value":"t1"\}\],"value":\{"total":17\}\}\n.*`, "consume", "orders", "--json")
		k.want(exitNotFound, `.*no partition 7.*`, "produce", "orders", "--partition", "7", "x")
		k.want(exitNotFound, `.*mainstem topic create nobody --bootstrap.*`, "produce", "nobody", "x")
		k.want(exitNotFound, `.*`, "consume", "nobody")
		k.want(exitNotFound, `.*`, "consume", "orders", "--partition", "9")

		k.want(exitOK, `lines\t2 partitions\n`, "create", "lines", "--partitions", "2")
		for i, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
			r := k.run(func(m *Main) { m.Stdin = strings.NewReader("a:one\nnonsense\nb:two\n") },
				"produce", "lines", "--key-separator", ":", "--partition", "1", "--compression", codec)
			if r.status != exitFailed || r.out != "2 records, 1 bad lines\n" || !strings.Contains(r.errors, "line 2: the line has no key separator") {
				t.Fatalf("%s: %+v", codec, r)
			}
			k.want(exitOK, strings.Repeat("one\ntwo\n", i+1), "consume", "lines")
		}
		k.want(exitOK, `8 b=two\n9 |8 a=one\n9 b=two\n`, "consume", "lines", "--from", "8", "--partition", "1", "--format", "{{.Offset}} {{.Key}}={{.Value}}")
		k.want(exitOK, `one\ntwo\none\n`, "consume", "lines", "--max", "3")
		k.want(exitOK, ``, "consume", "lines", "--from", "end")
		k.want(exitOK, ``, "consume", "lines", "--from", "2100-01-01T00:00:00Z")
		k.want(exitOK, `one\n`, "consume", "lines", "--from", "1h", "--max", "1")
		k.want(exitOK, `one\n`, "consume", "lines", "--from", "2001-01-01T00:00:00Z", "--max", "1")
		k.want(exitOK, ``, "consume", "lines", "--partition", "0")
		k.want(exitUsage, `.*yesterday.*`, "consume", "lines", "--from", "yesterday")
		k.want(exitUsage, `.*yesterday.*`, "consume", "lines", "--from", "yesterday", "--group", "g")
		k.want(exitOK, `partition\t1\toffset\t10\n`, "produce", "lines", "--partition", "1", "--key", "a", "--tombstone")
		k.want(exitOK, `\{.*"key":"a","value":null\}\n`, "consume", "lines", "--from", "10", "--partition", "1", "--json")

		k.want(exitOK, `topic +lines\n.*partition +start +end *\n +0 +0 +0 *\n +1 +0 +11 *\n`, "describe", "lines")
		k.want(exitOK, `\{"topic":"orders".*"config":\{"retention.ms":"86400000"\}\}\n(\{"topic":"orders","partition":\d,"start":0,"end":[02]\}\n){3}`, "describe", "orders", "--json")
		k.want(exitOK, `.*max.message.bytes +\d+\n.*`, "describe", "orders", "--all")
		k.want(exitOK, ``, "delete", "orders")
		k.want(exitNotFound, `.*`, "describe", "orders")
		k.want(exitNotFound, `.*`, "delete", "orders")
	})
}

// TestProgressOfACluster: a person who watches sees that something is going on.
func TestProgressOfACluster(t *testing.T) {
	k := kafkaCommand{t, startKafkaNode(t, nil).KafkaAddr().String()}
	k.want(exitOK, `.*`, "create", "t")
	lines, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer lines.Close()
	if _, err := lines.WriteString("one\ntwo\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := lines.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	r := k.run(func(m *Main) { m.Terminal, m.Stdin = true, lines }, "produce", "t")
	if r.status != exitOK || !strings.Contains(r.errors, "\rproduce t  ░░░") || !strings.HasSuffix(r.errors, "\r") || r.out != "2 records\n" {
		t.Errorf("%+v", r)
	}
	r = k.run(func(m *Main) { m.Terminal = true }, "consume", "t")
	if r.status != exitOK || !strings.Contains(r.errors, "\rconsume t  ") || r.out != "one\ntwo\n" {
		t.Errorf("%+v", r)
	}
}

// TestConsumeAsAGroup goes on where the member before ended.
func TestConsumeAsAGroup(t *testing.T) {
	onClusters(t, func(t *testing.T, bootstrap string) {
		k := kafkaCommand{t, bootstrap}
		k.want(exitOK, `.*`, "create", "t")
		k.want(exitOK, `.*`, "produce", "t", "1", "2", "3", "4", "5", "6")
		k.want(exitOK, `1\n2\n`, "consume", "t", "--group", "g", "--max", "2")
		k.want(exitOK, `3\n4\n5\n`, "consume", "t", "--group", "g", "--max", "3")
		k.want(exitOK, `1\n`, "consume", "t", "--group", "other", "--max", "1")
		k.want(exitOK, `4\n`, "consume", "t", "--group", "third", "--from", "3", "--max", "1")
	})
}

// TestConsumeFollows shows what comes, and ends in good order when it is interrupted.
func TestConsumeFollows(t *testing.T) {
	onClusters(t, func(t *testing.T, bootstrap string) {
		for _, group := range []string{"", "g"} {
			k := kafkaCommand{t, bootstrap}
			name := "t" + group
			k.want(exitOK, `.*`, "create", name)
			k.want(exitOK, `.*`, "produce", name, "before")
			line := []string{"topic", "consume", name, "--bootstrap", bootstrap}
			if group == "" {
				line = append(line, "--follow")
			} else {
				line = append(line, "--group", group)
			}
			ctx, interrupt := context.WithCancelCause(t.Context())
			out := &buffer{}
			ended := make(chan result, 1)
			go func() { ended <- run(ctx, func(m *Main) { m.Stdout = out }, line...) }()
			if !eventually(func() bool { return out.String() == "before\n" }) {
				t.Fatalf("shows %q", out.String())
			}
			k.want(exitOK, `.*`, "produce", name, "after")
			if !eventually(func() bool { return out.String() == "before\nafter\n" }) {
				t.Fatalf("shows %q", out.String())
			}
			interrupt(errInterrupted)
			if r := <-ended; r.status != exitOK {
				t.Errorf("interrupted: %+v", r)
			}
		}
	})
}

// TestConsumeOfTransactions ends although the last offsets have nothing to show.
func TestConsumeOfTransactions(t *testing.T) {
	onClusters(t, func(t *testing.T, bootstrap string) {
		k := kafkaCommand{t, bootstrap}
		k.want(exitOK, `.*`, "create", "t")
		cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.TransactionalID("x"), kgo.DefaultProduceTopic("t"))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		for i, commit := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
			if err := cl.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := cl.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if err := cl.EndTransaction(t.Context(), commit); err != nil {
				t.Fatal(err)
			}
		}
		k.want(exitOK, `0\n`, "consume", "t")
		k.want(exitOK, `0\n1\n`, "consume", "t", "--uncommitted")
	})
}

// TestConsumeEndsBehindWhatIsGone: between the plan and the reading, the last records
// disappear, and nothing that the server sends says so.
func TestConsumeEndsBehindWhatIsGone(t *testing.T) {
	n := startKafkaNode(t, nil)
	s, err := event.Open(n.Log(), "s", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range []string{"a-1", "a-2"} {
		if _, err := s.Write(t.Context(), stream, event.NoStream, []event.Event{{Type: "T", Data: []byte(stream)}}); err != nil {
			t.Fatal(err)
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.KafkaAddr().String()), kgo.FetchMaxWait(quiet/2))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	found, err := findTopic(t.Context(), cl, "event.s")
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	c := &kafkaConsumer{m: &Main{}, cl: cl, topic: found, r: &kafkaReading{from: "start", show: func(_ string, r *topic.Record) error {
		shown = append(shown, string(r.Value))
		return nil
	}}}
	if err := c.plan(t.Context(), found.partitions()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Do(t.Context(), func(b *mainstem.Batch) { s.Archive(b, "a-2") }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.read(ctx); err != nil || len(shown) != 1 || shown[0] != "a-1" {
		t.Errorf("shown %q, %v", shown, err)
	}
}

func TestClusterWithTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := servertest.WriteCertificate(cert, key); err != nil {
		t.Fatal(err)
	}
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte("two words\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := startKafkaNode(t, func(c *server.Config) { c.TLSCert, c.TLSKey, c.KafkaSASL = cert, key, "scram-sha-512" })
	if err := server.KafkaUsers(n.Log()).Set(t.Context(), "ada", "two words"); err != nil {
		t.Fatal(err)
	}
	k := kafkaCommand{t, n.KafkaAddr().String()}
	k.want(exitOK, ``, "list", "--tls", "--tls-ca", cert, "--user", "ada", "--password-file", password)
	k.want(exitFailed, `.*certificate.*`, "list", "--tls", "--user", "ada", "--password-file", password)
	k.want(exitFailed, `.*(add --tls).*`, "list", "--user", "ada", "--password-file", password)
	k.want(exitUsage, `.*--tls-ca is of no use.*`, "list", "--tls-ca", cert)
	k.want(exitUsage, `.*needs a password.*`, "list", "--user", "ada")
	k.want(exitUsage, `.*oauth.*`, "list", "--user", "ada", "--password-file", password, "--sasl-mechanism", "oauth")
}

// TestPasswordsAreNotShown: over plain, without TLS, to another machine.
func TestPasswordsAreNotShown(t *testing.T) {
	line := []string{"topic", "list", "--bootstrap", "kafka.example.test:9092", "--user", "ada", "--sasl-mechanism", "plain", "--timeout", "1s"}
	secret := func(m *Main) { m.Env = []string{passwordVariable + "=secret"} }
	if r := run(t.Context(), secret, line...); r.status != exitUsage || !strings.Contains(r.errors, "shows the password") {
		t.Errorf("%+v", r)
	}
	if r := run(t.Context(), secret, append(line, "--insecure")...); r.status != exitFailed {
		t.Errorf("--insecure: %+v", r)
	}
}

// FuzzSpan: whatever a broker sends, looking ahead ends and never goes back.
func FuzzSpan(f *testing.F) {
	var b recordbatch.Builder
	b.Append(&recordbatch.Record{Value: []byte("x")})
	batch, err := b.Finish(recordbatch.None)
	if err != nil {
		f.Fatal(err)
	}
	recordbatch.Place(batch, 7, 0)
	f.Add(batch, int64(7))
	f.Add(batch[:len(batch)-1], int64(7))
	f.Add([]byte{}, int64(0))
	f.Fuzz(func(t *testing.T, data []byte, from int64) {
		next, records := span(data, from)
		if len(data) < recordbatch.HeaderSize && (next != 0 || records) {
			t.Errorf("%d bytes hold no batch, but end at %d, %v", len(data), next, records)
		}
	})
}

func TestSpan(t *testing.T) {
	var b recordbatch.Builder
	for _, v := range []string{"one", "two"} {
		b.Append(&recordbatch.Record{Value: []byte(v)})
	}
	batch, err := b.Finish(recordbatch.None)
	if err != nil {
		t.Fatal(err)
	}
	recordbatch.Place(batch, 7, 0)
	for _, c := range []struct {
		data    []byte
		from    int64
		next    int64
		records bool
	}{
		{nil, 7, 0, false},
		{batch, 7, 9, true},
		{batch, 8, 9, true},
		{batch, 9, 9, false},
		{batch[:len(batch)-1], 7, 0, true},
	} {
		if next, records := span(c.data, c.from); next != c.next || records != c.records {
			t.Errorf("%d bytes from %d: %d, %v; want %d, %v", len(c.data), c.from, next, records, c.next, c.records)
		}
	}
}
