package natslog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/natslog"
	"github.com/mainstemdev/mainstem/enginetest"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
)

// The suite on a stream that three servers keep.
func TestConformanceCluster(t *testing.T) {
	t.Parallel()
	cluster := testnats.NewCluster(t, 3, nil)
	clock := enginetest.NewClock()
	f := features(clock)
	f.Programs = 5 + *more
	open, reopen := streams(cluster.URL(), natslog.Options{Now: clock.Now, Monotonic: clock.Monotonic, Limits: small, SweepEvery: -1, Replicas: 3})
	f.Reopen = reopen
	again(t, f, open)
}

// A cluster that is not complete yet is waited for; when it stays so, that is no fault
// of the configuration.
func TestOpenWaitsForServers(t *testing.T) {
	t.Parallel()
	cluster := testnats.NewCluster(t, 2, nil)
	url := cluster.URL()
	testkit.Succeeds(t, "the error says what is missing", func() error {
		_, err := natslog.Open(url, &natslog.Options{Stream: "LOG", Replicas: 3, Timeout: time.Second})
		var e *mainstem.Error
		if !errors.As(err, &e) || e.Kind != mainstem.KindUnavailable {
			t.Fatalf("open with two of three servers: %v, want Unavailable", err)
		}
		if e.Hint == "" || !strings.Contains(err.Error(), "no suitable peers") { // they may not have answered at all
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
	opened := make(chan error, 1)
	go func() {
		log, err := natslog.Open(url, &natslog.Options{Stream: "LOG", Replicas: 3, Timeout: patience})
		if err == nil {
			err = log.Close()
		}
		opened <- err
	}()
	cluster.Join(nil)
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
}

// load is writers that commit batches, each with an ID, and try again with the same ID
// whatever goes wrong.
type load struct {
	t      *testing.T
	logs   []*natslog.Log // one for each writer
	stop   chan struct{}
	ended  sync.WaitGroup
	mu     sync.Mutex
	acked  map[string]mainstem.Receipt // by value
	failed error
}

func startLoad(t *testing.T, logs ...*natslog.Log) *load {
	t.Helper()
	l := &load{t: t, logs: logs, stop: make(chan struct{}), acked: map[string]mainstem.Receipt{}}
	for w := range logs {
		l.ended.Go(func() { l.write(w) })
	}
	t.Cleanup(l.end)
	return l
}

// end stops the writers.
func (l *load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.ended.Wait()
}

func (l *load) write(w int) {
	for n := 0; ; n++ {
		select {
		case <-l.stop:
			return
		default:
		}
		id := fmt.Sprintf("%d.%d", w, n)
		b := mainstem.NewBatch()
		b.ID = id
		b.Ensure("s", mainstem.Policy{})
		b.Put("s", fmt.Append(nil, "writer ", w), []byte(id))
		b.Put("s", []byte("all"), []byte(id))
		for {
			r, err := l.logs[w].Commit(context.Background(), b)
			l.mu.Lock()
			if err == nil {
				l.acked[id] = r
			} else if !errors.Is(err, mainstem.ErrUnavailable) && l.failed == nil {
				l.failed = fmt.Errorf("commit of %s: %w", id, err)
			}
			failed := l.failed
			l.mu.Unlock()
			if failed != nil {
				return
			}
			if err == nil {
				break
			}
		}
	}
}

// progress waits until n more batches are acknowledged: for each of them [testkit.Patience].
func (l *load) progress(n int) {
	l.t.Helper()
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.failed != nil {
			l.t.Fatal(l.failed)
		}
		return len(l.acked)
	}
	for from, got := count(), 0; got < n; {
		last := got
		testkit.Succeeds(l.t, "commits go on", func() error {
			if got = count() - from; got == last {
				return fmt.Errorf("%d commits, want %d", got, n)
			}
			return nil
		})
	}
}

// check compares what a log holds with what was acknowledged.
func (l *load) check(log mainstem.Log) []string {
	l.t.Helper()
	var order []string
	for r, err := range log.Read(l.t.Context(), "s", []byte("all"), mainstem.Versions{}) {
		if err != nil {
			l.t.Fatal(err)
		}
		value := string(r.Value)
		if slices.Contains(order, value) {
			l.t.Fatalf("batch %s is there twice", value)
		}
		order = append(order, value)
		ack, ok := l.acked[value]
		if !ok {
			l.t.Fatalf("batch %s was never acknowledged and every writer went on until it was", value)
		}
		if ack.Versions[1] != r.Version || ack.Last != r.Position {
			l.t.Fatalf("batch %s has version %d and position %d, its receipt says %d and %d", value, r.Version, r.Position, ack.Versions[1], ack.Last)
		}
	}
	if len(order) != len(l.acked) {
		l.t.Fatalf("%d batches are there, %d were acknowledged", len(order), len(l.acked))
	}
	for w := range l.logs {
		n := 0
		for r, err := range log.Read(l.t.Context(), "s", fmt.Append(nil, "writer ", w), mainstem.Versions{}) {
			if err != nil {
				l.t.Fatal(err)
			}
			if want := fmt.Sprintf("%d.%d", w, n); string(r.Value) != want {
				l.t.Fatalf("writer %d: record %d is %s, want %s", w, n, r.Value, want)
			}
			n++
		}
	}
	return order
}

// trail follows a log and notes what it sees of key "all".
type trail struct {
	mu   sync.Mutex
	seen []string
	err  error
	done chan struct{}
}

func follow(t *testing.T, log mainstem.Log) *trail {
	t.Helper()
	tr := &trail{done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(tr.done)
		last := mainstem.Position(0)
		for r, err := range log.Feed(ctx, mainstem.Filter{Spaces: []string{"s"}, Follow: true}) {
			tr.mu.Lock()
			switch {
			case err != nil:
				if ctx.Err() == nil {
					tr.err = err
				}
			case r.Position <= last:
				tr.err = fmt.Errorf("position %d came after %d", r.Position, last)
			case string(r.Key) == "all":
				tr.seen = append(tr.seen, string(r.Value))
			}
			last = r.Position
			tr.mu.Unlock()
		}
	}()
	t.Cleanup(func() { cancel(); <-tr.done })
	return tr
}

// sees waits until the follower has seen exactly want.
func (tr *trail) sees(t *testing.T, want []string) {
	t.Helper()
	testkit.Succeeds(t, "the follower sees everything", func() error {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		if tr.err != nil {
			t.Fatalf("the follower failed: %v", tr.err)
		}
		if len(tr.seen) < len(want) {
			return fmt.Errorf("%d batches, want %d", len(tr.seen), len(want))
		}
		if !slices.Equal(tr.seen, want) {
			t.Fatalf("the follower saw %d batches in another order than the %d there are", len(tr.seen), len(want))
		}
		return nil
	})
}

// patience is how long a test waits for what must happen.
const patience = 60 * time.Second

func open(t *testing.T, url string, o natslog.Options) *natslog.Log {
	t.Helper()
	log, err := natslog.Open(url, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return log
}

// Leaders are stopped, nodes come back, leaders step down, all during load: no batch
// that was acknowledged is lost, none is there twice, and followers miss nothing.
func TestFailover(t *testing.T) {
	t.Parallel()
	cluster := testnats.NewCluster(t, 3, nil)
	o := natslog.Options{Stream: "LOG", Replicas: 3}
	logs := []*natslog.Log{open(t, cluster.URL(), o), open(t, cluster.URL(), o), open(t, cluster.URL(), o)}
	follower := follow(t, open(t, cluster.URL(), o))
	l := startLoad(t, logs...)
	l.progress(50)

	leader := cluster.Leader("LOG")
	leader.Stop()
	l.progress(50)
	leader.Start()
	cluster.WaitHealthy("LOG")
	l.progress(20)

	cluster.StepDown("LOG")
	l.progress(50)

	for _, node := range cluster.Nodes { // one that does not lead
		if node != cluster.Leader("LOG") {
			node.Stop()
			l.progress(50)
			node.Start()
			cluster.WaitHealthy("LOG")
			break
		}
	}
	l.progress(50)
	l.end()

	order := l.check(open(t, cluster.URL(), o))
	follower.sees(t, order)
	for _, log := range logs {
		testkit.Succeeds(t, "every process sees the same", func() error {
			if p, err := log.Head(t.Context()); err != nil || int(p) != 2*len(order) {
				return fmt.Errorf("head %d, want %d: %v", p, 2*len(order), err)
			}
			return nil
		})
		if got := l.check(log); !slices.Equal(got, order) {
			t.Fatal("two processes see different orders")
		}
	}
}

// The only server is stopped and started again during load.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	server := testnats.NewServer(t, &testnats.Options{SyncAlways: true})
	o := natslog.Options{Stream: "LOG"}
	logs := []*natslog.Log{open(t, server.URL(), o), open(t, server.URL(), o)}
	follower := follow(t, open(t, server.URL(), o))
	l := startLoad(t, logs...)
	for range 3 {
		l.progress(100)
		server.Stop()
		server.Start()
	}
	l.progress(100)
	l.end()
	follower.sees(t, l.check(open(t, server.URL(), o)))
}
