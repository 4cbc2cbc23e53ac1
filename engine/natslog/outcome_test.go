package natslog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/natslog"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
)

// direct are options of a client that reaches the server through a proxy only, and
// notices soon that its connection is gone.
func direct(o natslog.Options) natslog.Options {
	o.Connect = []nats.Option{nats.IgnoreDiscoveredServers(), nats.PingInterval(50 * time.Millisecond), nats.MaxPingsOutstanding(4), nats.ReconnectWait(5 * time.Millisecond)}
	return o
}

func one(id, value string) *mainstem.Batch {
	b := mainstem.NewBatch()
	b.ID = id
	b.Ensure("s", mainstem.Policy{})
	b.Put("s", []byte("k"), []byte(value))
	return b
}

// openHasty opens a log whose timeout is too short to count on.
func openHasty(t *testing.T, url string, o natslog.Options) *natslog.Log {
	t.Helper()
	var log *natslog.Log
	testkit.Succeeds(t, "the log opens", func() (err error) {
		log, err = natslog.Open(url, &o)
		return err
	})
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return log
}

// commitAtLast commits a batch with an ID on such a log.
func commitAtLast(t *testing.T, log mainstem.Log, b *mainstem.Batch) {
	t.Helper()
	testkit.Succeeds(t, "the batch is committed", func() error {
		_, err := log.Commit(t.Context(), b)
		return err
	})
}

func mustCommit(t *testing.T, log mainstem.Log, b *mainstem.Batch) mainstem.Receipt {
	t.Helper()
	r, err := log.Commit(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// values returns what key k of space s holds, oldest first.
func values(t *testing.T, log mainstem.Log) string {
	t.Helper()
	var out []string
	for r, err := range log.Read(t.Context(), "s", []byte("k"), mainstem.Versions{}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(r.Value))
	}
	return strings.Join(out, " ")
}

// If the answer to a commit is lost for longer than the timeout, the outcome is
// unknown; the same batch with its ID resolves it.
func TestLostAnswerIsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	srv := testnats.NewServer(t, nil)
	p := newProxy(t, srv.URL())
	log := openHasty(t, p.url(), direct(natslog.Options{Timeout: 300 * time.Millisecond}))
	commitAtLast(t, log, one("first", "1"))
	direct := open(t, srv.URL(), natslog.Options{})

	for sent := false; !sent; {
		commitAtLast(t, log, one("first", "1")) // there is a connection
		p.dropAnswers.Store(true)
		_, err := log.Commit(t.Context(), one("second", "2"))
		sent = errors.Is(err, mainstem.ErrUnknownOutcome)
		if !errors.Is(err, mainstem.ErrUnavailable) {
			t.Fatalf("commit without an answer: %v, want Unavailable with an unknown outcome", err)
		}
		if !sent { // on a slow machine the connection was given up before
			p.heal()
		}
	}
	testkit.Succeeds(t, "what was sent has arrived", func() error {
		if got := values(t, direct); got != "1 2" {
			return fmt.Errorf("the key holds %q", got)
		}
		return nil
	})
	p.heal()
	testkit.Succeeds(t, "the connection is back", func() error {
		r, err := log.Commit(t.Context(), one("second", "2"))
		if err == nil && (!r.Duplicate || r.Versions[0] != 2) {
			t.Fatalf("the batch was written again: %+v", r)
		}
		return err
	})
	if got := values(t, log); got != "1 2" {
		t.Fatalf("the key holds %q, want each value once", got)
	}
}

// A short loss is not an error at all: the commit finds out by itself.
func TestShortLossIsResolved(t *testing.T) {
	t.Parallel()
	srv := testnats.NewServer(t, nil)
	p := newProxy(t, srv.URL())
	log := open(t, p.url(), direct(natslog.Options{}))
	mustCommit(t, log, one("", "0"))
	want := "0"
	for i := 1; i <= 6; i++ {
		drop := &p.dropAnswers
		if i%2 == 0 {
			drop = &p.dropRequests
		}
		drop.Store(true)
		done := make(chan error, 1)
		go func() {
			_, err := log.Commit(context.Background(), one("", fmt.Sprint(i)))
			done <- err
		}()
		timer := time.AfterFunc(100*time.Millisecond, p.heal)
		if err := <-done; err != nil {
			t.Fatalf("commit %d: %v", i, err)
		}
		timer.Stop()
		p.heal()
		want += fmt.Sprint(" ", i)
	}
	if got := values(t, log); got != want {
		t.Fatalf("the key holds %q, want %q", got, want)
	}
}

// If the answer to a commit is lost and its message is deleted before the log sees the stream
// again, nobody can tell whether it was written: it is not written a second time.
func TestLostAnswerOfADeletedMessage(t *testing.T) {
	t.Parallel()
	l := openTidy(t)
	if err := l.CreateSpace(t.Context(), "s", mainstem.Policy{History: 1}); err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, l.url)
	o := direct(natslog.Options{Stream: "S", Timeout: testkit.Patience, SweepEvery: -1})
	o.Connect = append(o.Connect, nats.PingInterval(time.Second)) // the commit is sent before it is noticed that answers are lost
	log := open(t, p.url(), o)
	mustCommit(t, log, one("", "1"))
	p.dropAnswers.Store(true)
	done := make(chan error, 1)
	go func() {
		_, err := log.Commit(t.Context(), one("", "2"))
		done <- err
	}()
	testkit.Eventually(t, "the commit has arrived", func() bool { return values(t, l) == "2" })
	mustCommit(t, l, one("", "3"))
	l.messages()
	if _, err := l.stream.GetMsg(t.Context(), 3); err == nil {
		t.Fatal("the message of the commit is still there")
	}
	p.heal()
	if err := <-done; !errors.Is(err, mainstem.ErrUnknownOutcome) || !errors.Is(err, mainstem.ErrUnavailable) {
		t.Errorf("the commit: %v, want Unavailable with an unknown outcome", err)
	}
	mustCommit(t, log, one("", "4"))
	if r, err := l.Get(t.Context(), "s", []byte("k")); err != nil || string(r.Value) != "4" || r.Version != 4 {
		t.Errorf("the key has version %d with the value %q, want 4 of both: %v", r.Version, r.Value, err)
	}
}

// A commit whose answer was lost finds its frame in the stream, also while the tail is
// behind, as it is where the machine has no time for it.
func TestLostAnswerIsResolvedWithoutTheTail(t *testing.T) {
	t.Parallel()
	srv := testnats.NewServer(t, nil)
	p := newProxy(t, srv.URL())
	o := direct(natslog.Options{Timeout: testkit.Patience, SweepEvery: -1})
	o.Connect = append(o.Connect, nats.PingInterval(time.Second)) // that it is cut off it sees by itself
	log, err := natslog.OpenWithoutTail(p.url(), &o)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	mustCommit(t, log, one("", "1"))
	large := mainstem.NewBatch() // of several messages
	for range 3 {
		large.Put("s", []byte("k"), make([]byte, 900<<10))
	}
	for i, b := range []*mainstem.Batch{one("", "2"), large} {
		p.dropAnswers.Store(true)
		timer := time.AfterFunc(200*time.Millisecond, p.heal) // the requests have passed by then, or are sent again
		mustCommit(t, log, b)
		timer.Stop()
		p.heal()
		if head, err := log.Head(t.Context()); err != nil || int(head) != []int{2, 5}[i] {
			t.Fatalf("batch %d: the head is %d: %v", i, head, err)
		}
	}
}

// A sweep whose frame the servers did not take has failed, and is done again later.
func TestSweepWithoutAServer(t *testing.T) {
	t.Parallel()
	srv := testnats.NewServer(t, nil)
	log := openHasty(t, srv.URL(), natslog.Options{Timeout: 200 * time.Millisecond, SweepEvery: -1})
	b := one("first", "1")
	b.Ensure("small", mainstem.Policy{MaxBytes: 1})
	b.Put("small", []byte("k"), []byte("more than that"))
	commitAtLast(t, log, b)
	srv.Stop()
	if err := log.Sweep(t.Context()); !errors.Is(err, mainstem.ErrUnavailable) {
		t.Errorf("a sweep without a server: %v, want Unavailable", err)
	}
	srv.Start()
	testkit.Succeeds(t, "sweeps work again", func() error { return log.Sweep(t.Context()) })
	if in, err := log.Space(t.Context(), "small"); err != nil || in.Records != 0 {
		t.Errorf("after the sweep the space is %+v: %v", in, err)
	}
}

// Without a server nothing is written, and the error says so.
func TestNoServer(t *testing.T) {
	t.Parallel()
	srv := testnats.NewServer(t, nil)
	log := openHasty(t, srv.URL(), natslog.Options{Timeout: 200 * time.Millisecond})
	commitAtLast(t, log, one("first", "1"))
	patient := open(t, srv.URL(), natslog.Options{Timeout: time.Hour}) // its commits end only with their contexts
	srv.Stop()
	testkit.Succeeds(t, "the client has noticed", func() error {
		_, err := log.Commit(t.Context(), one("", "2"))
		var e *mainstem.Error
		if !errors.As(err, &e) || e.Kind != mainstem.KindUnavailable {
			t.Fatalf("commit without a server: %v, want Unavailable", err)
		}
		if e.Outcome != mainstem.NotWritten {
			return err
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := patient.Commit(ctx, one("", "3")); !errors.Is(err, mainstem.ErrCanceled) {
		t.Fatalf("a commit that was given up: %v, want Canceled", err)
	}
	srv.Start()
	testkit.Succeeds(t, "commits work again", func() error {
		_, err := log.Commit(t.Context(), one("", "4"))
		return err
	})
}

// Limits of the server are errors that name them.
func TestServerLimits(t *testing.T) {
	srv := testnats.NewServer(t, &testnats.Options{MaxPayload: 64 << 10, Configure: func(o *server.Options) {
		o.JetStreamLimits.MaxBatchSize = 4
	}})
	log := open(t, srv.URL(), natslog.Options{})
	mustCommit(t, log, one("", "1"))
	refuse := func(what string, b *mainstem.Batch, words ...string) {
		t.Helper()
		_, err := log.Commit(t.Context(), b)
		var e *mainstem.Error
		if !errors.As(err, &e) || e.Kind != mainstem.KindInvalid || e.Outcome != mainstem.NotWritten {
			t.Fatalf("%s: %v, want Invalid, not written", what, err)
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Fatalf("%s: %v does not say %q", what, err, w)
			}
		}
	}
	refuse("a record larger than a message", one("", strings.Repeat("x", 64<<10)), "65536", "max_payload")
	many := mainstem.NewBatch()
	for range 6 {
		many.Put("s", []byte("k"), make([]byte, 50<<10))
	}
	refuse("a batch of six messages", many, "max_batch_size", "4")

	small := open(t, srv.URL(), natslog.Options{MaxMessages: 3})
	_, err := small.Commit(t.Context(), many)
	if !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), "6 messages") || !strings.Contains(err.Error(), "limit is 3") {
		t.Fatalf("a batch above MaxMessages: %v", err)
	}
	fits := mainstem.NewBatch()
	for range 4 {
		fits.Put("s", []byte("k"), make([]byte, 50<<10))
	}
	if r := mustCommit(t, log, fits); r.Last-r.First != 3 || r.Versions[3] != 5 {
		t.Fatalf("a batch of four messages: %+v", r)
	}
}
