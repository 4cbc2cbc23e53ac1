package projection_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/remotelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

var long = flag.Duration("projection.kill", 0, "how long TestKilledProcesses kills processes; 0: a few times")

const (
	killPartitions = 16
	killProcesses  = 4
	killTTL        = 2 * time.Second     // a busy machine must have time to renew
	workerVariable = "PROJECTION_WORKER" // makes this binary a process of the test, over the log of that URL
)

// ledger is the state that the processes of the test compute: the totals of customers, in rows that
// all partitions change, and the version of each stream that was handled last.
type ledger struct {
	store    *event.Store
	types    *event.Types
	sums     *readmodel.Alias[total]
	versions *readmodel.Alias[newest]
}

func openLedger(log mainstem.Log) (*ledger, error) {
	l := &ledger{types: event.NewTypes(nil)}
	var errs [4]error
	l.store, errs[0] = event.Open(log, "shop", nil)
	errs[1] = event.Register[paid](l.types, "Paid")
	l.sums, errs[2] = readmodel.OpenAlias(log, "shop/sums", &readmodel.Options[total]{Key: func(t total) string { return t.Customer }})
	l.versions, errs[3] = readmodel.OpenAlias(log, "shop/versions", &readmodel.Options[newest]{Key: func(n newest) string { return n.Stream }})
	return l, errors.Join(errs[:]...)
}

// errOrder is an event that was handled twice, or before its predecessor.
var errOrder = errors.New("the events of a stream are handled out of order")

func (l *ledger) handle(ctx context.Context, tx *projection.Tx, ev paid, r event.Recorded) error {
	err := projection.Modify(ctx, tx, l.versions, r.Stream, func(old newest, _ bool) (newest, error) {
		if r.Version != old.Version+1 {
			return old, fmt.Errorf("%w: version %d of %s after %d", errOrder, r.Version, r.Stream, old.Version)
		}
		return newest{r.Stream, r.Version}, nil
	})
	if err != nil {
		return err
	}
	return projection.Modify(ctx, tx, l.sums, ev.Customer, func(old total, _ bool) (total, error) {
		return total{ev.Customer, old.Cents + ev.Cents, old.Count + 1}, nil
	})
}

// engine starts an engine of the ledger.
func (l *ledger) engine(ctx context.Context) (*projection.Engine, error) {
	p, err := projection.New("ledger", 1, event.Filter{Category: "order"}, projection.On(l.handle))
	if err != nil {
		return nil, err
	}
	e, err := projection.Open(l.store, l.types, &projection.Options{Logger: discard, TTL: killTTL})
	if err != nil {
		return nil, err
	}
	err = e.Register(p.WithTables(l.sums, l.versions), &projection.Async{Partitions: killPartitions, Backoff: time.Millisecond})
	return e, errors.Join(err, e.Start(ctx))
}

// worker runs an engine until its process is killed or the parent has ended.
func worker(url string) int {
	log, err := remotelog.Open(url, nil)
	if err == nil {
		var l *ledger
		if l, err = openLedger(log); err == nil {
			_, err = l.engine(context.Background())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	testkit.UntilParentEnds()
	return 0
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

// Processes that share the partitions of a projection are killed at any moment, while events are
// appended and tables are rebuilt. In the end the tables are equal to a replay of the events.
func TestKilledProcesses(t *testing.T) {
	log, url := testengines.Serve(t)
	l, err := openLedger(log)
	if err != nil {
		t.Fatal(err)
	}
	until, cancel := context.WithCancel(t.Context())
	workers := testkit.Processes{Env: workerVariable + "=" + url, Lives: 2, Longest: 400 * time.Millisecond, Begun: func(pid int) bool { return l.committed(t, pid) }}
	if *long > 0 { // there are many lives: some may end before they begin
		until, cancel = context.WithTimeout(t.Context(), *long)
		workers.Lives, workers.Longest, workers.Begun = 0, 10*time.Second, nil
	}
	defer cancel()
	var lives, others sync.WaitGroup
	var killed, appended, rebuilds atomic.Int64
	for range killProcesses {
		lives.Go(func() { killed.Add(int64(workers.Run(t, until))) })
	}
	others.Go(func() { appended.Store(l.append(t, until)) })
	others.Go(func() { rebuilds.Store(l.rebuild(t, until)) })
	lives.Wait()
	cancel()
	others.Wait()

	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	e, err := l.engine(ctx)
	if err != nil {
		t.Fatal(err)
	}
	head, err := l.store.LastPosition(ctx)
	if err == nil {
		err = e.WaitFor(ctx, "ledger", head)
	}
	if err != nil {
		s, _ := e.Status(t.Context(), "ledger")
		t.Errorf("%v; %+v", err, s)
	}
	l.compare(t)
	if err := e.Stop(ctx); err != nil {
		t.Error(err)
	}
	t.Logf("%d processes were killed, %d events, %d rebuilds", killed.Load(), appended.Load(), rebuilds.Load())
}

// append appends events of random streams and customers until ctx ends, and returns how many.
func (l *ledger) append(t *testing.T, until context.Context) (n int64) {
	for ; until.Err() == nil; n++ {
		ev, err := l.types.Encode(paid{fmt.Sprint("customer", rand.IntN(30)), rand.IntN(1000)})
		if err == nil {
			_, err = l.store.Append(t.Context(), fmt.Sprint("order-", rand.IntN(100)), event.AnyVersion, []event.Event{ev})
		}
		if err != nil {
			t.Error(err)
			return n
		}
		if n%10 == 9 { // not faster than so many processes can follow
			testkit.Pause(until, 100*time.Millisecond)
		}
	}
	return n
}

// rebuild asks for new tables, again and again, and returns how often they came.
func (l *ledger) rebuild(t *testing.T, until context.Context) (n int64) {
	e, err := projection.Open(l.store, l.types, &projection.Options{Logger: discard})
	if err != nil {
		t.Error(err)
		return 0
	}
	for until.Err() == nil {
		err := e.Rebuild(until, "ledger", &projection.RebuildOptions{Keep: time.Second})
		switch {
		case err == nil:
			n++
		case errors.Is(err, mainstem.ErrNotFound): // no process has begun yet
		case until.Err() == nil:
			t.Error(err)
		}
		testkit.Pause(until, 300*time.Millisecond)
	}
	return n
}

// compare compares the tables with a replay.
func (l *ledger) compare(t *testing.T) {
	t.Helper()
	sums, versions := make(map[string]total), make(map[string]newest)
	for r, err := range l.store.Feed(t.Context(), nil) {
		var v any
		if err == nil {
			v, err = l.types.Decode(r)
		}
		if err != nil {
			t.Fatal(err)
		}
		ev := v.(paid)
		s := sums[ev.Customer]
		sums[ev.Customer] = total{ev.Customer, s.Cents + ev.Cents, s.Count + 1}
		versions[r.Stream] = newest{r.Stream, r.Version}
	}
	same(t, l.sums, sums)
	same(t, l.versions, versions)
}

func same[T comparable](t *testing.T, table *readmodel.Alias[T], want map[string]T) {
	t.Helper()
	rows, err := table.Find(t.Context(), readmodel.All())
	if err != nil || len(rows) != len(want) {
		t.Errorf("%d rows of %s, want %d; %v", len(rows), table.Name(), len(want), err)
	}
	for _, r := range rows {
		if w := want[table.Key(r)]; r != w {
			t.Errorf("%s: %+v, a replay gives %+v", table.Name(), r, w)
		}
	}
}
