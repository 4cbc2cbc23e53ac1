package natslog_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/natslog"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
)

// probe commits a batch that writes nothing, as a readiness check does.
func probe(t *testing.T, log mainstem.Log, patience time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := log.Commit(ctx, mainstem.NewBatch())
	return err
}

// TestServerAway stops the server and starts it again after the log has noticed. Who asks
// whether the log takes commits is answered when its patience ends, and not when that of
// the log does. That the stream cannot be read is logged once, however often it is tried.
// A server that is back before the log notices is no failure, and logged by the connection.
func TestServerAway(t *testing.T) {
	s := testnats.NewServer(t, nil)
	var out testkit.Lines
	log := open(t, s.URL(), natslog.Options{Timeout: time.Hour, Logger: out.Logger()})
	mustCommit(t, log, one("", "a"))
	failures := func(want int) func() error { // that have not ended; a slow machine may have more of them
		return func() error {
			if n := out.Count("the stream cannot be read") - out.Count("the stream can be read again"); n != want {
				return fmt.Errorf("%d failures have not ended, want %d", n, want)
			}
			return nil
		}
	}
	for range 2 {
		s.Stop()
		testkit.Succeeds(t, "the stream cannot be read", failures(1))
		for range 5 {
			if err := probe(t, log, 300*time.Millisecond); mainstem.KindOf(err) != mainstem.KindCanceled {
				t.Fatalf("a probe without a server: %v", err)
			}
		}
		if err := failures(1)(); err != nil {
			t.Fatalf("without a server: %v:\n%s", err, out.String())
		}
		s.Start()
		testkit.Succeeds(t, "the log takes commits", func() error { return probe(t, log, 5*time.Second) })
		mustCommit(t, log, one("", "b"))
		testkit.Succeeds(t, "the stream is read", failures(0))
	}
}

// silent opens a log behind a proxy whose connections can be cut.
func silent(t *testing.T, o natslog.Options) (*proxy, *natslog.Log) {
	t.Helper()
	p := newProxy(t, testnats.NewServer(t, nil).URL())
	o.Connect = []nats.Option{nats.IgnoreDiscoveredServers()}
	log := open(t, p.url(), o)
	mustCommit(t, log, one("", "a"))
	return p, log
}

// TestSilentConnection loses everything on a connection that stays open. Another one is
// made when the silence has lasted for as long as the options say: no request would be sent again
// before an hour has passed.
func TestSilentConnection(t *testing.T) {
	p, log := silent(t, natslog.Options{Timeout: time.Hour, Silence: 400 * time.Millisecond})
	p.cut()
	testkit.Succeeds(t, "the log takes commits", func() error { return probe(t, log, 5*time.Second) })
}

// A call that waits for a silent server ends with its context, and not an hour later, when a
// request would be sent again. Only of a commit that was sent
// is the outcome unknown then.
func TestDeadlineOnASilentConnection(t *testing.T) {
	p, log := silent(t, natslog.Options{Timeout: time.Hour, Silence: time.Hour, CacheBytes: 1, SweepEvery: -1})
	p.cut()
	const limit = 300 * time.Millisecond
	for what, do := range map[string]func(ctx context.Context) error{
		"a commit": func(context.Context) error {
			when := late{t.Context(), make(chan struct{})}
			done := make(chan error, 1)
			go func() {
				_, err := log.Commit(when, one("", "b"))
				done <- err
			}()
			testkit.Eventually(t, "the commit is on its way", log.Asking)
			close(when.passed)
			err := <-done
			if !errors.Is(err, mainstem.ErrUnknownOutcome) {
				t.Errorf("a commit that was sent: %v, want an unknown outcome", err)
			}
			return err
		},
		"a condition": func(ctx context.Context) error {
			b := one("", "c")
			b.IfVersion("s", []byte("k"), 99)
			_, err := log.Commit(ctx, b)
			if errors.Is(err, mainstem.ErrUnknownOutcome) {
				t.Errorf("a condition that is not confirmed: %v, want no unknown outcome", err)
			}
			return err
		},
		"a read": func(ctx context.Context) error {
			_, err := log.Get(ctx, "s", []byte("k"))
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		if err := do(ctx); !errors.Is(err, mainstem.ErrCanceled) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want Canceled by the deadline", what, err)
		}
		cancel()
	}
}

// late is a context whose deadline passes when the test says so.
type late struct {
	context.Context
	passed chan struct{}
}

func (c late) Done() <-chan struct{} { return c.passed }

func (c late) Err() error {
	select {
	case <-c.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// A caller that leaves takes nobody along: a commit in the same frame goes on, and is written
// once.
func TestDeadlineOfOneCommitOfSeveral(t *testing.T) {
	p, log := silent(t, natslog.Options{Timeout: time.Hour, Silence: time.Hour, SweepEvery: -1})
	p.cut()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	first := make(chan error, 1)
	go func() {
		_, err := log.Commit(ctx, one("", "first"))
		first <- err
	}()
	testkit.Succeeds(t, "the first commit is on its way", func() error {
		if !log.Asking() {
			return errors.New("it is not")
		}
		return nil
	})
	patient := make(chan error, 1)
	go func() {
		_, err := log.Commit(context.WithoutCancel(ctx), one("", "patient"))
		patient <- err
	}()
	hurry, stop := context.WithCancel(t.Context())
	defer stop()
	b, key := mainstem.NewBatch(), []byte("hasty")
	b.Put("s", key, nil)
	hasty := make(chan error, 1)
	go func() {
		_, err := log.Commit(hurry, b)
		hasty <- err
	}()
	testkit.Eventually(t, "both commits wait", func() bool { return log.Waiting() == 2 })
	leave()
	testkit.Eventually(t, "both commits are on their way", func() bool { return log.Waiting() == 0 && log.Asking() })
	stop()
	if err := <-hasty; !errors.Is(err, mainstem.ErrUnknownOutcome) {
		t.Fatalf("the hasty commit: %v, want an unknown outcome", err)
	}
	copy(key, "XXXXX") // it is the caller's again
	if err := <-first; !errors.Is(err, mainstem.ErrUnknownOutcome) {
		t.Errorf("the first commit: %v, want an unknown outcome", err)
	}
	p.heal()
	if err := <-patient; err != nil {
		t.Fatal(err)
	}
	if got := values(t, log); got != "a patient" && got != "a first patient" {
		t.Errorf("the key holds %q", got)
	}
	if got := scanned(t, log); got != "[hasty k]" && got != "[k]" {
		t.Errorf("the log has %s", got)
	}
}

// Two commits with one ID in one frame, of which nobody knows whether it was written: the
// second is no duplicate of something that is there.
func TestSecondCommitOfAnIDInAFrameThatFails(t *testing.T) {
	p, log := silent(t, natslog.Options{Timeout: time.Hour, Silence: time.Hour, SweepEvery: -1})
	p.cut()
	done := make(chan error, 3)
	commit := func(ctx context.Context, id string) {
		_, err := log.Commit(ctx, one(id, id))
		done <- err
	}
	first, leaveFirst := context.WithCancel(t.Context())
	defer leaveFirst()
	go commit(first, "first")
	testkit.Eventually(t, "the first commit is on its way", log.Asking)
	both, leaveBoth := context.WithCancel(t.Context())
	defer leaveBoth()
	go commit(both, "id")
	go commit(both, "id")
	testkit.Eventually(t, "both commits wait", func() bool { return log.Waiting() == 2 })
	leaveFirst()
	testkit.Eventually(t, "both commits are on their way", func() bool { return log.Waiting() == 0 && log.Asking() })
	leaveBoth()
	for range 3 {
		if err := <-done; !errors.Is(err, mainstem.ErrUnknownOutcome) {
			t.Errorf("a commit without an answer: %v, want an unknown outcome", err)
		}
	}
}

// A server that accepts a connection and then stands still for longer than the client waits
// is asked again until Options.Timeout.
func TestOpenOfAServerThatStandsStill(t *testing.T) {
	p := newProxy(t, testnats.NewServer(t, nil).URL())
	p.dropAnswers.Store(true)
	o := natslog.Options{Connect: []nats.Option{nats.Timeout(50 * time.Millisecond)}, Timeout: 100 * time.Millisecond}
	if _, err := natslog.Open(p.url(), &o); !errors.Is(err, mainstem.ErrUnavailable) {
		t.Errorf("open while the server stands still: %v, want Unavailable", err)
	}
	d := &dialer{third: p.heal}
	o.Connect, o.Timeout = append(o.Connect, nats.SetCustomDialer(d)), patience
	open(t, p.url(), o)
	if n := d.dials.Load(); n < 3 {
		t.Errorf("the log is open after %d attempts, and only the third was answered", n)
	}
}

// dialer calls third before it dials for the third time.
type dialer struct {
	dials atomic.Int32
	third func()
}

func (d *dialer) Dial(network, address string) (net.Conn, error) {
	if d.dials.Add(1) == 3 {
		d.third()
	}
	return net.Dial(network, address)
}
