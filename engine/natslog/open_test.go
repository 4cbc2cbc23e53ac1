package natslog_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/natslog"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
)

func TestAddress(t *testing.T) {
	srv := testnats.NewServer(t, &testnats.Options{Configure: func(o *server.Options) { o.Username, o.Password = "me", "secret" }})
	log := open(t, srv.URL()+"?stream=ORDERS&replicas=1&latest=true&silence=10s", natslog.Options{Stream: "other"})
	mustCommit(t, log, one("", "1"))
	conn := testnats.Connect(t, srv.URL())
	js := testnats.JetStream(t, conn)
	s, err := js.Stream(t.Context(), "ORDERS")
	if err != nil || s.CachedInfo().State.Msgs != 1 {
		t.Fatalf("one batch of one record and a space is in the stream of the address as %+v, %v", s, err)
	}
	second, err := natslog.OpenConn(conn, &natslog.Options{Stream: "ORDERS"})
	if err != nil {
		t.Fatal(err)
	}
	if got := values(t, second); got != "1" {
		t.Fatalf("a log on the caller's connection holds %q", got)
	}
	if err := second.Close(); err != nil || conn.IsClosed() {
		t.Fatalf("close closes a connection that is not its own: %v", err)
	}

	wrong := strings.Replace(srv.URL(), "secret", "guess", 1)
	for address, kind := range map[string]error{
		wrong:                                mainstem.ErrDenied,
		srv.URL() + "?replicas=many":         mainstem.ErrInvalid,
		srv.URL() + "?replicas=6":            mainstem.ErrInvalid,
		srv.URL() + "?stream=a.b":            mainstem.ErrInvalid,
		srv.URL() + "?shards=2":              mainstem.ErrInvalid,
		srv.URL() + "?silence=soon":          mainstem.ErrInvalid,
		srv.URL() + "?silence=1ms":           mainstem.ErrInvalid,
		srv.URL() + "?stream=NEW&replicas=3": mainstem.ErrInvalid,
		"nats://127.0.0.1:1":                 mainstem.ErrUnavailable,
	} {
		log, err := natslog.Open(address, nil)
		if !errors.Is(err, kind) {
			t.Errorf("open %s: %v, want %v", address, err, kind)
		}
		if err == nil {
			_ = log.Close()
		} else if strings.Contains(err.Error(), "guess") || strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

// A stream that another program uses, or that forgets messages, is refused.
func TestStreamsThatAreRefused(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	js := testnats.JetStream(t, testnats.Connect(t, srv.URL()))
	good := jetstream.StreamConfig{
		AllowAtomicPublish: true, AllowDirect: true,
		Metadata: map[string]string{"mainstem.format": "1"}, Discard: jetstream.DiscardNew,
	}
	for word, spoil := range map[string]func(c *jetstream.StreamConfig){
		"metadata":       func(c *jetstream.StreamConfig) { c.Metadata = nil },
		"subjects":       func(c *jetstream.StreamConfig) { c.Subjects = []string{"orders.>"} },
		"atomic publish": func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false },
		"direct get":     func(c *jetstream.StreamConfig) { c.AllowDirect = false },
		"limits on age":  func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 },
		"denies":         func(c *jetstream.StreamConfig) { c.DenyDelete = true },
		"":               func(*jetstream.StreamConfig) {},
	} {
		// A name of its own for each, and none is deleted: the server then removes the files
		// of a stream, and the directory of all streams if that is empty, in the background,
		// and meanwhile cannot make another there.
		c := good
		c.Name = "S" + strings.ReplaceAll(word, " ", "-")
		subject := "mainstem." + c.Name
		c.Subjects = []string{subject}
		spoil(&c)
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		log, err := natslog.Open(srv.URL(), &natslog.Options{Stream: c.Name})
		if word == "" {
			if err != nil {
				t.Fatalf("a stream that is right is refused: %v", err)
			}
			mustCommit(t, log, one("", "1"))
			if _, err := js.Publish(t.Context(), subject, nil); err != nil {
				t.Fatal(err)
			}
			testkit.Succeeds(t, "a message that is not ours is damage", func() error {
				if _, err := log.Head(t.Context()); !errors.Is(err, mainstem.ErrCorrupt) {
					return fmt.Errorf("head: %v, want Corrupt", err)
				}
				return nil
			})
		} else if !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), word) {
			t.Errorf("open: %v, want Invalid that says %q", err, word)
		}
		if log != nil {
			if err := log.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// Several processes write to one log: conditions hold between them, all see one order,
// and each reads what it has written itself at once.
func TestSeveralProcesses(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	const processes, rounds = 3, 40
	logs := make([]*natslog.Log, processes)
	trails := make([]*trail, processes)
	for i := range logs {
		logs[i] = open(t, srv.URL(), natslog.Options{})
		trails[i] = follow(t, logs[i])
	}
	mustCommit(t, logs[0], one("", "0"))
	var work sync.WaitGroup
	for i, log := range logs {
		work.Go(func() {
			for n := range rounds {
				if err := increment(t, log, fmt.Sprintf("%d.%d", i, n)); err != nil {
					t.Errorf("process %d: %v", i, err)
					return
				}
			}
		})
	}
	work.Wait()
	latest := open(t, srv.URL(), natslog.Options{Latest: true})
	var order []string
	for r, err := range latest.Read(t.Context(), "s", []byte("all"), mainstem.Versions{}) {
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, string(r.Value))
	}
	if len(order) != processes*rounds {
		t.Fatalf("%d increments are there, want %d", len(order), processes*rounds)
	}
	for _, tr := range trails {
		tr.sees(t, order)
	}
	for n := range 20 {
		want := mustCommit(t, logs[n%processes], one("", fmt.Sprint(n)))
		r, err := latest.Get(t.Context(), "s", []byte("k"))
		if err != nil || r.Position != want.Last {
			t.Fatalf("with Latest, a read after a commit elsewhere sees position %d, want %d: %v", r.Position, want.Last, err)
		}
	}
}

// increment adds one to the version of key all by compare and set, however often
// another process comes first.
func increment(t *testing.T, log mainstem.Log, value string) error {
	for {
		b := mainstem.NewBatch()
		r, err := log.Get(t.Context(), "s", []byte("all"))
		switch {
		case err == nil:
			b.IfVersion("s", []byte("all"), r.Version)
		case errors.Is(err, mainstem.ErrNotFound):
			b.IfAbsent("s", []byte("all"))
		default:
			return err
		}
		b.Ensure("s", mainstem.Policy{})
		b.Put("s", []byte("all"), []byte(value))
		receipt, err := log.Commit(t.Context(), b)
		if errors.Is(err, mainstem.ErrConflict) {
			continue
		}
		if err != nil {
			return err
		}
		mine, err := log.Get(t.Context(), "s", []byte("all"))
		if err != nil || mine.Version < receipt.Versions[0] {
			return fmt.Errorf("a read after a commit of version %d sees version %d: %w", receipt.Versions[0], mine.Version, err)
		}
		return nil
	}
}
