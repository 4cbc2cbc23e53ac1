package pglog_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pglog"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

// failoverWriters write at once while the server is crashed.
const failoverWriters = 6

// load is writers that go on until they are told to stop, each on a key of its own.
type load struct {
	logs []*pglog.Log
	stop atomic.Bool
	mu   sync.Mutex
	acks []string // values of acknowledged batches
}

// write commits batches with IDs and tries again whenever the log cannot say that they
// are written.
func (l *load) write(ctx context.Context, w int) error {
	for n := 0; !l.stop.Load(); n++ {
		text := fmt.Sprintf("%d.%d", w, n)
		b := mainstem.NewBatch()
		b.ID = text
		b.Ensure("s", mainstem.Policy{})
		b.Put("s", []byte{byte('a' + w)}, []byte(text))
		b.Put("s", []byte("all"), []byte(text))
		for {
			_, err := l.logs[w%len(l.logs)].Commit(ctx, b)
			if err == nil {
				break
			}
			if !errors.Is(err, mainstem.ErrUnavailable) {
				return fmt.Errorf("batch %s: %w", text, err)
			}
		}
		l.mu.Lock()
		l.acks = append(l.acks, text)
		l.mu.Unlock()
	}
	return nil
}

func (l *load) acknowledged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acks)
}

// progress waits until n more batches are acknowledged: for each of them [testkit.Patience].
func (l *load) progress(t *testing.T, what string, n int) {
	t.Helper()
	for before, got := l.acknowledged(), 0; got < n; {
		last := got
		testkit.Eventually(t, what, func() bool {
			got = l.acknowledged() - before
			return got > last
		})
	}
}

// PostgreSQL is crashed and started again, twice, under load from two processes: nothing
// acknowledged is lost, nothing is there twice, followers miss nothing.
func TestServerCrashes(t *testing.T) {
	t.Parallel()
	server := testpostgres.Start(t, nil)
	url := server.DB(t)
	l := &load{logs: []*pglog.Log{openAt(t, url, nil), openAt(t, url, nil)}}
	commit(t, l.logs[0], batch("first", "first"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	errs := make(chan error, failoverWriters)
	for w := range failoverWriters {
		go func() { errs <- l.write(ctx, w) }()
	}
	followed := make([]atomic.Int64, len(l.logs))
	values := make([][]string, len(l.logs))
	var followers sync.WaitGroup
	for i, log := range l.logs {
		followers.Go(func() {
			for r, err := range log.Feed(ctx, mainstem.Filter{Spaces: []string{"s"}, Follow: true}) {
				if err != nil {
					if !errors.Is(err, mainstem.ErrCanceled) {
						t.Errorf("a follower ended: %v", err)
					}
					return
				}
				values[i] = append(values[i], string(r.Value))
				followed[i].Add(1)
			}
		})
	}
	for i := range followed { // one that the server has never answered does not survive a crash
		testkit.Eventually(t, "followers have begun", func() bool { return followed[i].Load() > 0 })
	}
	for range 2 {
		l.progress(t, "writers get through", 101)
		server.Crash(t)
		server.Restart(t)
	}
	l.progress(t, "writers get through after the crashes", 21)
	l.stop.Store(true)
	for range failoverWriters {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	want := int64(1 + 2*l.acknowledged())
	for i := range followed {
		testkit.Eventually(t, "followers are at the end", func() bool { return followed[i].Load() >= want })
	}
	cancel()
	followers.Wait()
	l.judge(t, values)
}

// A follower that is still behind when the server crashes, and so has never waited, goes on
// when the server is back.
func TestFollowersBehindSurviveACrash(t *testing.T) {
	t.Parallel()
	server := testpostgres.Start(t, nil)
	log := openAt(t, server.DB(t), nil)
	const records = 3000
	b := mainstem.NewBatch()
	b.Ensure("s", mainstem.Policy{})
	for n := range records {
		b.Put("s", []byte("k"), fmt.Appendf(nil, "%d", n))
	}
	commit(t, log, b)
	followers := map[string]iter.Seq2[mainstem.Record, error]{
		"feed": log.Feed(t.Context(), mainstem.Filter{Spaces: []string{"s"}, Follow: true}),
		"read": log.Read(t.Context(), "s", []byte("k"), mainstem.Versions{Follow: true}),
	}
	var reading sync.WaitGroup
	begun := make(chan struct{}, len(followers))
	down := make(chan struct{})
	for name, seq := range followers {
		reading.Go(func() {
			n := 0
			for r, err := range seq {
				if err != nil || string(r.Value) != fmt.Sprint(n) {
					t.Errorf("%s goes on with %q, %v, want %d", name, r.Value, err, n)
					begun <- struct{}{}
					return
				}
				if n == 0 {
					begun <- struct{}{}
					<-down
				}
				if n++; n == records {
					return
				}
			}
		})
	}
	for range followers {
		<-begun
	}
	server.Crash(t)
	close(down) // the next page is asked of a server that is not there
	server.Restart(t)
	reading.Wait()
}

// judge compares what was acknowledged with what is there and what followers saw.
func (l *load) judge(t *testing.T, followed [][]string) {
	t.Helper()
	count := map[string]int{}
	var all []string
	for r, err := range l.logs[0].Feed(t.Context(), mainstem.Filter{Spaces: []string{"s"}}) {
		if err != nil {
			t.Fatal(err)
		}
		count[string(r.Value)]++
		all = append(all, string(r.Value))
	}
	for _, text := range l.acks {
		if count[text] != 2 {
			t.Errorf("batch %s was acknowledged; %d of its 2 records are there", text, count[text])
		}
	}
	if len(all) != 1+2*len(l.acks) {
		t.Errorf("%d records are there for %d batches of 2", len(all)-1, len(l.acks))
	}
	for i, values := range followed {
		if fmt.Sprint(values) != fmt.Sprint(all) {
			t.Errorf("follower %d saw %d records, other than the %d that are there", i, len(values), len(all))
		}
	}
}
