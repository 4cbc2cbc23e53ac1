package readmodelpg_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pglog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	readmodelpg "github.com/mainstemdev/mainstem/event/readmodel/pg"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

// onEach runs a test with the log in memory, and with the log in the database of the tables.
func onEach(t *testing.T, body func(t *testing.T, log mainstem.Log, pool *pgxpool.Pool)) {
	t.Run("log elsewhere", func(t *testing.T) {
		_, pool := newDB(t)
		body(t, testengines.Memory(t), pool)
	})
	t.Run("log in the database", func(t *testing.T) {
		log, pool := inDatabase(t)
		body(t, log, pool)
	})
}

// inDatabase returns a log in a database, and a pool for tables in the same.
func inDatabase(t *testing.T) (mainstem.Log, *pgxpool.Pool) {
	t.Helper()
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
	return log, connect(t, url)
}

// faulty is a log that fails some commits of the projection.
type faulty struct {
	mainstem.Log
	mu     sync.Mutex
	before func(b *mainstem.Batch) error // instead of the commit
	after  func(b *mainstem.Batch) error // after it
}

func (f *faulty) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	f.mu.Lock()
	before, after := f.before, f.after
	f.mu.Unlock()
	if before != nil {
		if err := before(b); err != nil {
			return mainstem.Receipt{}, err
		}
	}
	r, err := f.Log.Commit(ctx, b)
	if err == nil && after != nil {
		if err := after(b); err != nil {
			return mainstem.Receipt{}, err
		}
	}
	return r, err
}

func (f *faulty) fail(before, after func(b *mainstem.Batch) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

func movesCheckpoint(b *mainstem.Batch) bool {
	for _, w := range b.Writes() {
		if strings.HasPrefix(w.Space, "event.checkpoint/") {
			return true
		}
	}
	return false
}

func TestProjection(t *testing.T) {
	onEach(t, func(t *testing.T, log mainstem.Log, pool *pgxpool.Pool) {
		l := newLedger(t, log, pool)
		l.pay(t, testkit.Rounds(150))
		e := l.start(t, projection.Async{})
		l.check(t, e)
		l.pay(t, testkit.Rounds(50))
		l.check(t, e)

		other := newLedger(t, log, pool).start(t, projection.Async{}) // beside the first
		l.pay(t, testkit.Rounds(50))
		l.check(t, other)
		stop(t, e)
		l.pay(t, testkit.Rounds(50))
		l.check(t, other)

		if err := other.Rebuild(t.Context(), "ledger", nil); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("a rebuild beside the tables: %v, want Invalid", err)
		}
		for range 2 {
			if err := other.Rebuild(t.Context(), "ledger", &projection.RebuildOptions{InPlace: true}); err != nil {
				t.Fatal(err)
			}
			l.pay(t, 20)
			l.check(t, other)
		}
	})
}

// Partitions change the same rows; their number is changed while events come, and with engines that come and go.
func TestPartitions(t *testing.T) {
	onEach(t, func(t *testing.T, log mainstem.Log, pool *pgxpool.Pool) {
		l := newLedger(t, log, pool)
		ctx, cancel := context.WithCancel(t.Context())
		var appending sync.WaitGroup
		appending.Go(func() {
			for ctx.Err() == nil {
				l.pay(t, 5)
				testkit.Pause(ctx, 10*time.Millisecond)
			}
		})
		var e *projection.Engine
		for _, n := range []int{4, 3, 1, 4} {
			next := newLedger(t, log, pool).start(t, projection.Async{Partitions: n, MaxBatch: 7})
			last := l.pay(t, 30)
			waiting, done := context.WithTimeout(t.Context(), time.Minute)
			testkit.Eventually(t, "the partitions are as many as asked for", func() bool {
				s, err := next.Status(t.Context(), "ledger")
				return err == nil && len(s.Partitions) == n
			})
			if err := next.WaitFor(waiting, "ledger", last); err != nil {
				t.Errorf("with %d partitions: %v", n, err)
			}
			done()
			if e != nil {
				stop(t, e)
			}
			e = next
		}
		cancel()
		appending.Wait()
		l.check(t, e)
	})
}

// If the commit of the checkpoint fails or is unknown, before or after that of the rows, each event
// still takes effect once.
func TestCheckpointFails(t *testing.T) {
	errs := map[string]error{
		"not written": &mainstem.Error{Kind: mainstem.KindUnavailable, Outcome: mainstem.NotWritten},
		"unknown":     &mainstem.Error{Kind: mainstem.KindUnavailable, Outcome: mainstem.Unknown},
		"conflict":    &mainstem.Error{Kind: mainstem.KindConflict, Outcome: mainstem.NotWritten},
		"refused":     &mainstem.Error{Kind: mainstem.KindInternal, Outcome: mainstem.NotWritten},
	}
	for name, failure := range errs {
		t.Run(name, func(t *testing.T) {
			_, pool := newDB(t)
			log := &faulty{Log: testengines.Memory(t)}
			l := newLedger(t, log, pool)
			e := l.start(t, projection.Async{MaxBatch: 10})
			l.check(t, e)
			var n atomic.Int64 // the test commits too
			sometimes := func(b *mainstem.Batch) error {
				if n.Add(1)%3 == 0 && movesCheckpoint(b) {
					return failure
				}
				return nil
			}
			log.fail(sometimes, nil)
			l.pay(t, 40)
			l.check(t, e)
			if name == "unknown" {
				log.fail(nil, sometimes)
				l.pay(t, 40)
				l.check(t, e)
			}
			stop(t, e)
			log.fail(nil, nil)
			l.pay(t, 10)
			l.check(t, l.start(t, projection.Async{}))
		})
	}
}

// A commit of rows that was begun before a rebuild changes nothing once the rebuild clears.
func TestFence(t *testing.T) {
	db, pool := newDB(t)
	l := newLedger(t, testengines.Memory(t), pool)
	source := projection.Source{Store: l.store, Projection: "ledger", Subscription: "ledger"}
	for name, change := range map[string]func() error{
		"reset": func() error { return db.Reset(t.Context(), source) },
		"fence": func() error { _, err := db.Fence(t.Context(), source); return err },
	} {
		out, err := db.Open(t.Context(), source)
		if err != nil {
			t.Fatal(err)
		}
		x, err := out.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Commit(t.Context(), mainstem.NewBatch(), 7); !errors.Is(err, mainstem.ErrConflict) {
			t.Errorf("after %s: %v, want Conflict", name, err)
		}
		if n := value[int](t, pool, "SELECT count(*) FROM mainstem_positions"); n != 0 {
			t.Errorf("after %s: there are %d positions", name, n)
		}
	}
}

// Rows are not taken for those of another log, nor is an empty database for one without events.
func TestOtherLog(t *testing.T) {
	_, pool := newDB(t)
	l := newLedger(t, testengines.Memory(t), pool)
	l.pay(t, 20)
	e := l.start(t, projection.Async{})
	l.check(t, e)
	stop(t, e)

	faulted := func(l *ledger, want string) {
		t.Helper()
		e := l.start(t, projection.Async{})
		testkit.Eventually(t, want, func() bool {
			s, err := e.Status(t.Context(), "ledger")
			return err == nil && s.Err != nil && strings.Contains(s.Err.Error(), want) && errors.Is(s.Err, mainstem.ErrInvalid)
		})
		if err := e.Rebuild(t.Context(), "ledger", &projection.RebuildOptions{InPlace: true}); err != nil {
			t.Fatal(err)
		}
		l.pay(t, 5)
		l.check(t, e)
		stop(t, e)
	}
	faulted(newLedger(t, testengines.Memory(t), pool), "the events of another log")
	execute(t, pool, "DROP TABLE mainstem_projections, mainstem_positions")
	faulted(l, "it is another one, or was emptied")
}

// Uses of a table in PostgreSQL that a projection does not support are refused.
func TestRefusedProjections(t *testing.T) {
	db, pool := newDB(t)
	l := newLedger(t, testengines.Memory(t), pool)
	p := func(do func(ctx context.Context, tx *projection.Tx, ev paid, r event.Recorded) error) *projection.Projection {
		p, err := projection.New("ledger", 1, event.Filter{}, projection.On(do))
		if err != nil {
			t.Fatal(err)
		}
		return p.WithTarget(db)
	}
	e, err := projection.Open(l.store, l.types, &projection.Options{Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.RegisterLive(p(l.handle), nil); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("a live projection: %v", err)
	}
	if _, err := projection.OpenInline(t.Context(), l.store, l.types, nil, p(l.handle)); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("an inline projection: %v", err)
	}
	l.pay(t, 1)
	for want, do := range map[string]func(ctx context.Context, tx *projection.Tx, ev paid, r event.Recorded) error{
		"divide it into two": func(ctx context.Context, tx *projection.Tx, ev paid, r event.Recorded) error {
			tx.Batch().Ensure("s", mainstem.Policy{})
			tx.Batch().Put("s", []byte("k"), nil)
			return l.handle(ctx, tx, ev, r)
		},
		"1 to 4096 bytes": func(_ context.Context, tx *projection.Tx, _ paid, _ event.Recorded) error {
			readmodelpg.Put(tx, l.sums, total{})
			return nil
		},
		"was given the key": func(ctx context.Context, tx *projection.Tx, _ paid, _ event.Recorded) error {
			return readmodelpg.Modify(ctx, tx, l.sums, "a", func(total, bool) (total, error) { return total{Customer: "b"}, nil })
		},
	} {
		e, err := projection.Open(l.store, l.types, &projection.Options{Logger: discard, RestartAfter: -1})
		if err == nil {
			err = e.Register(p(do), &projection.Async{Attempts: 1})
		}
		if err := errors.Join(err, e.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, want, func() bool {
			s, err := e.Status(t.Context(), "ledger")
			return err == nil && s.State == projection.Faulted && strings.Contains(s.Err.Error(), want)
		})
		stop(t, e)
	}
	var none projection.Tx
	if _, err := readmodelpg.Get(t.Context(), &none, l.sums, "a"); !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), "WithTarget") {
		t.Errorf("without a target: %v", err)
	}
}
