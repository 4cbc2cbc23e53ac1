package readmodelpg_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
	readmodelpg "github.com/mainstemdev/mainstem/event/readmodel/pg"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

// run handles one event with do, in a projection of its own, and returns how often do was called.
func (l *ledger) run(t *testing.T, name string, do func(ctx context.Context, tx *projection.Tx, calls int) error) (calls int) {
	t.Helper()
	last := l.pay(t, 1)
	p, err := projection.New(name, 1, event.Filter{}, projection.On(func(ctx context.Context, tx *projection.Tx, _ paid, _ event.Recorded) error {
		calls++
		return do(ctx, tx, calls)
	}))
	if err != nil {
		t.Fatal(err)
	}
	e, err := projection.Open(l.store, l.types, &projection.Options{Logger: discard})
	if err == nil {
		err = e.Register(p.WithTarget(l.db), &projection.Async{After: last - 1, Backoff: time.Millisecond})
	}
	if err := errors.Join(err, e.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := e.WaitFor(ctx, name, last); err != nil {
		s, _ := e.Status(t.Context(), name)
		t.Fatalf("%s: %v; %+v", name, err, s)
	}
	stop(t, e)
	return calls
}

// A commit depends on the entries that its handlers read, or found missing: they are called again
// if one has changed.
func TestReadsAreConditions(t *testing.T) {
	onEach(t, func(t *testing.T, log mainstem.Log, pool *pgxpool.Pool) {
		l := newLedger(t, log, pool)
		add := func(ctx context.Context, tx *projection.Tx, key string) error {
			return readmodelpg.Modify(ctx, tx, l.sums, key, func(old total, _ bool) (total, error) { return total{key, old.Cents + 1, 0}, nil })
		}
		get := func(ctx context.Context, tx *projection.Tx, key string) error {
			_, err := readmodelpg.Get(ctx, tx, l.sums, key)
			if errors.Is(err, mainstem.ErrNotFound) {
				err = nil
			}
			return err
		}
		remove := func(ctx context.Context, tx *projection.Tx, key string) error {
			err := get(ctx, tx, key)
			readmodelpg.Delete(tx, l.sums, key)
			return err
		}
		insert := func(key string) error { return l.sums.Insert(t.Context(), total{key, 100, 0}) }
		update := func(key string) error { return l.sums.Update(t.Context(), total{key, 100, 0}) }
		gone := func(key string) error { return l.sums.Delete(t.Context(), key) }
		for name, c := range map[string]struct {
			there bool // before
			do    func(ctx context.Context, tx *projection.Tx, key string) error
			other func(key string) error // between the first call and its commit
			want  int                    // cents; 0: it is not there
		}{
			"insert, inserted":  {false, add, insert, 101},
			"update, updated":   {true, add, update, 101},
			"update, deleted":   {true, add, gone, 1},
			"delete, updated":   {true, remove, update, 0},
			"delete, deleted":   {true, remove, gone, 0},
			"read, updated":     {true, get, update, 100},
			"read, deleted":     {true, get, gone, 0},
			"missing, inserted": {false, get, insert, 100},
			"gone, inserted":    {false, remove, insert, 0},
		} {
			if c.there {
				if err := l.sums.Upsert(t.Context(), total{name, 50, 0}); err != nil {
					t.Fatal(err)
				}
			}
			calls := l.run(t, name, func(ctx context.Context, tx *projection.Tx, calls int) error {
				if err := c.do(ctx, tx, name); err != nil || calls > 1 {
					return err
				}
				return c.other(name)
			})
			got, err := l.sums.Get(t.Context(), name)
			if got.Cents != c.want || (c.want == 0) != errors.Is(err, mainstem.ErrNotFound) || calls != 2 {
				t.Errorf("%s: %+v, %v, after %d calls; want %d cents, after 2", name, got, err, calls, c.want)
			}
		}
		if n := l.run(t, "blind", func(_ context.Context, tx *projection.Tx, _ int) error {
			readmodelpg.Put(tx, l.sums, total{"blind", 1, 0})
			readmodelpg.Put(tx, l.sums, total{"blind", 2, 0})
			readmodelpg.Delete(tx, l.sums, "nobody")
			return insert("blind")
		}); n != 1 {
			t.Errorf("what was not read is no condition: %d calls", n)
		}
		if got, err := l.sums.Get(t.Context(), "blind"); got.Cents != 2 || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// With the log in the database, a projection writes tables of both in one commit.
func TestTablesOfBoth(t *testing.T) {
	log, pool := inDatabase(t)
	l := newLedger(t, log, pool)
	inLog, err := readmodel.Open(log, "shop/sums", &readmodel.Options[total]{Key: func(t total) string { return t.Customer }})
	if err != nil {
		t.Fatal(err)
	}
	one := func(old total, _ bool) (total, error) { return total{"a", old.Cents + 1, 0}, nil }
	calls := l.run(t, "both", func(ctx context.Context, tx *projection.Tx, calls int) error {
		if err := errors.Join(projection.Modify(ctx, tx, inLog, "a", one), readmodelpg.Modify(ctx, tx, l.sums, "a", one)); err != nil {
			return err
		}
		switch calls {
		case 1:
			return l.sums.Insert(ctx, total{"a", 10, 0}) // a conflict in the database
		case 2:
			return inLog.Insert(ctx, total{"a", 20, 0}) // and one in the log
		}
		return nil
	})
	a, err1 := l.sums.Get(t.Context(), "a")
	b, err2 := inLog.Get(t.Context(), "a")
	if a.Cents != 11 || b.Cents != 21 || calls != 3 || err1 != nil || err2 != nil {
		t.Errorf("%+v, %v and %+v, %v after %d calls", a, err1, b, err2, calls)
	}
}

// The server of the tables crashes while a projection commits: each event takes effect once.
func TestServerCrashes(t *testing.T) {
	server := testpostgres.Start(t, &testpostgres.Options{Fast: true})
	l := newLedger(t, testengines.Memory(t), connect(t, server.DB(t)))
	e := l.start(t, projection.Async{MaxBatch: 3})
	for range 3 {
		l.pay(t, 40)
		if err := e.WaitFor(t.Context(), "ledger", 20); err != nil {
			t.Fatal(err)
		}
		server.Crash(t)
		l.pay(t, 10)
		server.Restart(t)
	}
	l.check(t, e)
}
