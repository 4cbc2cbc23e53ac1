package readmodelpg_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
	readmodelpg "github.com/mainstemdev/mainstem/event/readmodel/pg"
)

type paid struct {
	Customer string
	Cents    int
}

// total is the sum of the events of a customer, who has many streams.
type total struct {
	Customer string `sql:",pk"`
	Cents    int    `sql:",index"`
	Count    int
}

// newest is the version of a stream that was handled last.
type newest struct {
	Stream  string `sql:",pk"`
	Version int64
}

// ledger is a store, and tables that a projection of it writes.
type ledger struct {
	db       *readmodelpg.DB
	store    *event.Store
	types    *event.Types
	sums     *readmodelpg.Table[total]
	versions *readmodelpg.Table[newest]
}

func openLedger(ctx context.Context, log mainstem.Log, pool *pgxpool.Pool) (*ledger, error) {
	l := &ledger{types: event.NewTypes(nil)}
	var errs [5]error
	l.db, errs[0] = readmodelpg.New(pool, nil)
	l.store, errs[1] = event.Open(log, "shop", nil)
	errs[2] = event.Register[paid](l.types, "Paid")
	l.sums, errs[3] = readmodelpg.Open[total](ctx, l.db, "sums")
	l.versions, errs[4] = readmodelpg.Open[newest](ctx, l.db, "versions")
	return l, errors.Join(errs[:]...)
}

func newLedger(t *testing.T, log mainstem.Log, pool *pgxpool.Pool) *ledger {
	t.Helper()
	l, err := openLedger(t.Context(), log, pool)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// errOrder is an event that was handled twice, or before its predecessor.
var errOrder = errors.New("the events of a stream are handled out of order")

func (l *ledger) handle(ctx context.Context, tx *projection.Tx, ev paid, r event.Recorded) error {
	err := readmodelpg.Modify(ctx, tx, l.versions, r.Stream, func(old newest, _ bool) (newest, error) {
		if int64(r.Version) != old.Version+1 {
			return old, fmt.Errorf("%w: version %d of %s after %d", errOrder, r.Version, r.Stream, old.Version)
		}
		return newest{r.Stream, int64(r.Version)}, nil
	})
	if err != nil {
		return err
	}
	return readmodelpg.Modify(ctx, tx, l.sums, ev.Customer, func(old total, _ bool) (total, error) {
		return total{ev.Customer, old.Cents + ev.Cents, old.Count + 1}, nil
	})
}

func (l *ledger) clear(ctx context.Context) error {
	return errors.Join(l.sums.Clear(ctx), l.versions.Clear(ctx))
}

// engine starts an engine of the ledger.
func (l *ledger) engine(ctx context.Context, a projection.Async, o projection.Options) (*projection.Engine, error) {
	p, err := projection.New("ledger", 1, event.Filter{Category: "order"}, projection.On(l.handle))
	if err != nil {
		return nil, err
	}
	o.Logger = discard
	e, err := projection.Open(l.store, l.types, &o)
	if err != nil {
		return nil, err
	}
	a.Backoff = time.Millisecond
	err = e.Register(p.WithTarget(l.db).WithClear(l.clear), &a)
	return e, errors.Join(err, e.Start(ctx))
}

// start starts an engine that is stopped when the test ends.
func (l *ledger) start(t *testing.T, a projection.Async) *projection.Engine {
	t.Helper()
	e, err := l.engine(t.Context(), a, projection.Options{RestartAfter: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, e) })
	return e
}

func stop(t *testing.T, e *projection.Engine) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := e.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// pay appends n events of random streams and customers, and returns the last position.
func (l *ledger) pay(t testing.TB, n int) (last mainstem.Position) {
	for range n {
		ev, err := l.types.Encode(paid{fmt.Sprint("customer", rand.IntN(10)), rand.IntN(1000)})
		if err != nil {
			t.Error(err)
			return 0
		}
		a, err := l.store.Append(context.WithoutCancel(t.Context()), fmt.Sprint("order-", rand.IntN(30)), event.AnyVersion, []event.Event{ev})
		if err != nil {
			t.Error(err)
			return 0
		}
		last = a.LastPosition
	}
	return last
}

// check waits until everything is handled, and compares the tables with a replay.
func (l *ledger) check(t *testing.T, e *projection.Engine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	last, err := l.store.LastPosition(ctx)
	if err == nil {
		err = e.WaitFor(ctx, "ledger", last)
	}
	if err != nil {
		s, _ := e.Status(t.Context(), "ledger")
		t.Fatalf("%v; %+v", err, s)
	}
	sums, versions := make(map[string]total), make(map[string]newest)
	for r, err := range l.store.Feed(ctx, nil) {
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
		versions[r.Stream] = newest{r.Stream, int64(r.Version)}
	}
	same(t, l.sums, sums)
	same(t, l.versions, versions)
}

func same[T comparable](t *testing.T, table *readmodelpg.Table[T], want map[string]T) {
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
