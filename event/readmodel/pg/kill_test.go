package readmodelpg_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pglog"
	"github.com/mainstemdev/mainstem/engine/remotelog"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

var long = flag.Duration("readmodelpg.kill", 0, "how long TestKilledProcesses kills processes, with each log; 0: a few times")

const (
	killPartitions = 4
	killProcesses  = 2
	killTTL        = 2 * time.Second      // a busy machine must have time to renew
	workerVariable = "READMODELPG_WORKER" // makes this binary a process of the test, with the URLs of a log and of a database
)

// openLog opens the log at a URL: a served one, or one in PostgreSQL.
func openLog(ctx context.Context, url string) (mainstem.Log, error) {
	if strings.HasPrefix(url, "postgres:") {
		return pglog.Open(ctx, url, nil)
	}
	return remotelog.Open(url, nil)
}

// worker is the life of a process: it ends when it is killed, or its parent ends.
func worker(urls string) int {
	ctx := context.Background()
	logURL, dbURL, _ := strings.Cut(urls, " ")
	log, err := openLog(ctx, logURL)
	if err == nil {
		err = work(ctx, log, dbURL)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	testkit.UntilParentEnds()
	return 0
}

func work(ctx context.Context, log mainstem.Log, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	l, err := openLedger(ctx, log, pool)
	if err == nil {
		_, err = l.engine(ctx, projection.Async{Partitions: killPartitions}, projection.Options{TTL: killTTL})
	}
	return err
}

// committed reports whether a process was the last to commit for one of the partitions.
func (l *ledger) committed(t *testing.T, pid int) bool {
	for cp, err := range l.store.Checkpoints(t.Context()) {
		if err != nil {
			t.Error(err)
			return true
		}
		if strings.Contains(cp.Owner, fmt.Sprintf(" pid %d #", pid)) {
			return true
		}
	}
	return false
}

// rebuild clears the tables and lets them grow again, from time to time.
func (l *ledger) rebuild(t *testing.T, until context.Context) (n int64) {
	e, err := projection.Open(l.store, l.types, &projection.Options{Logger: discard})
	if err != nil {
		t.Error(err)
		return 0
	}
	const every = 200 * time.Millisecond
	for testkit.Pause(until, every); until.Err() == nil; testkit.Pause(until, every) {
		err := e.Rebuild(until, "ledger", &projection.RebuildOptions{InPlace: true})
		switch {
		case err == nil:
			n++
		case errors.Is(err, mainstem.ErrNotFound): // no process has begun yet
		case until.Err() == nil:
			t.Error(err)
		}
	}
	return n
}

// Processes that share the partitions of a projection are killed at any moment, while events come,
// and the tables are cleared and rebuilt. In the end the tables equal a replay of the events.
func TestKilledProcesses(t *testing.T) {
	t.Run("log elsewhere", func(t *testing.T) {
		log, url := testengines.Serve(t)
		killed(t, log, url, testpostgres.FastDB(t))
	})
	t.Run("log in the database", func(t *testing.T) {
		url := testpostgres.FastDB(t)
		log, err := pglog.Open(t.Context(), url, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := log.Close(); err != nil {
				t.Error(err)
			}
		})
		killed(t, log, url, url)
	})
}

func killed(t *testing.T, log mainstem.Log, logURL, dbURL string) {
	l := newLedger(t, log, connect(t, dbURL))
	until, cancel := context.WithCancel(t.Context())
	workers := testkit.Processes{Env: workerVariable + "=" + logURL + " " + dbURL, Lives: 1, Longest: 200 * time.Millisecond, Begun: func(pid int) bool { return l.committed(t, pid) }}
	switch {
	case *long > 0: // there are many lives: some may end before they begin
		until, cancel = context.WithTimeout(t.Context(), *long)
		workers.Lives, workers.Longest, workers.Begun = 0, 5*time.Second, nil
	case testengines.WithServers(t, "more kills"):
		workers.Lives = 4
	}
	defer cancel()
	var processes, others sync.WaitGroup
	var kills, rebuilds atomic.Int64
	for range killProcesses {
		processes.Go(func() { kills.Add(int64(workers.Run(t, until))) })
	}
	others.Go(func() {
		for until.Err() == nil {
			l.pay(t, 5)
			testkit.Pause(until, 50*time.Millisecond)
		}
	})
	others.Go(func() { rebuilds.Store(l.rebuild(t, until)) })
	processes.Wait()
	cancel()
	others.Wait()
	e, err := l.engine(t.Context(), projection.Async{}, projection.Options{TTL: killTTL})
	if err != nil {
		t.Fatal(err)
	}
	l.check(t, e)
	stop(t, e)
	t.Logf("%d processes were killed, %d rebuilds", kills.Load(), rebuilds.Load())
}
