package projection_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

var discard = slog.New(slog.DiscardHandler)

func TestMain(m *testing.M) {
	if url := os.Getenv(workerVariable); url != "" {
		os.Exit(worker(url))
	}
	if words := strings.SplitN(os.Getenv(inlineVariable), " ", 3); len(words) == 3 {
		os.Exit(inlineWorker(words[0], words[1], words[2]))
	}
	goleak.VerifyTestMain(m)
}

type paid struct {
	Customer string
	Cents    int
}

type noise struct{}

type total struct {
	Customer     string
	Cents, Count int
}

// fixture is a store and a table of totals by customer, whose rows many streams change.
type fixture struct {
	t      testing.TB
	log    mainstem.Log
	store  *event.Store
	types  *event.Types
	totals *readmodel.Table[total]

	mu   sync.Mutex
	want map[string]total // what the events add up to
}

// onEach runs a test on a store on every engine.
func onEach(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	testengines.Each(t, func(t *testing.T, log mainstem.Log) { test(t, newFixtureOn(t, log)) })
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	return newFixtureOn(t, testengines.Memory(t))
}

func newFixtureOn(t testing.TB, log mainstem.Log) *fixture {
	t.Helper()
	f := &fixture{t: t, log: log, types: event.NewTypes(nil), want: make(map[string]total)}
	err := errors.Join(event.Register[paid](f.types, "Paid"), event.Register[noise](f.types, "Noise"))
	if err != nil {
		t.Fatal(err)
	}
	if f.store, err = event.Open(log, "shop", nil); err != nil {
		t.Fatal(err)
	}
	f.totals, err = readmodel.Open(log, "shop/totals", &readmodel.Options[total]{Key: func(t total) string { return t.Customer }})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// pay appends an event to a stream, and returns its position.
func (f *fixture) pay(stream int, customer string, cents int) mainstem.Position {
	f.t.Helper()
	ev, err := f.types.Encode(paid{customer, cents})
	if err != nil {
		f.t.Error(err)
	}
	a, err := f.store.Append(f.t.Context(), fmt.Sprint("order-", stream), event.AnyVersion, []event.Event{ev, {Type: "Noise", Data: []byte("{}")}})
	if err != nil {
		f.t.Error(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.want[customer]
	f.want[customer] = total{customer, w.Cents + cents, w.Count + 1}
	return a.LastPosition
}

// rounds returns how many of n steps a test makes on the engine of the fixture, which may be slow.
func (f *fixture) rounds(n int) int { return testengines.Rounds(f.log, n) }

// payMany appends n events of random customers and returns the last position.
func (f *fixture) payMany(n int) (last mainstem.Position) {
	for range n {
		last = f.pay(rand.IntN(10), fmt.Sprint("customer", rand.IntN(5)), rand.IntN(1000))
	}
	return last
}

// payUntil appends events of random customers until done is closed, but at most as many as a slow
// engine can handle, and returns the last position. It returns after done is closed.
func (f *fixture) payUntil(done <-chan struct{}) (last mainstem.Position) {
	for range f.rounds(400) {
		last = f.payMany(1)
		select {
		case <-done:
			return last
		default:
		}
	}
	<-done
	return last
}

// add is the handler that adds an event to the total of its customer.
func (f *fixture) add(ctx context.Context, tx *projection.Tx, ev paid, _ event.Recorded) error {
	return projection.Modify(ctx, tx, f.totals, ev.Customer, func(old total, _ bool) (total, error) {
		return total{ev.Customer, old.Cents + ev.Cents, old.Count + 1}, nil
	})
}

// projection returns a projection with a handler, add if it is nil.
func (f *fixture) projection(name string, version int, handle func(context.Context, *projection.Tx, paid, event.Recorded) error) *projection.Projection {
	f.t.Helper()
	if handle == nil {
		handle = f.add
	}
	p, err := projection.New(name, version, event.Filter{Category: "order"}, projection.On(handle))
	if err != nil {
		f.t.Fatal(err)
	}
	return p.WithClear(f.totals.Clear)
}

// start starts an engine with projections, and stops it at the end of the test.
func (f *fixture) start(o *projection.Options, a *projection.Async, ps ...*projection.Projection) *projection.Engine {
	f.t.Helper()
	if o == nil {
		o = &projection.Options{}
	}
	o.Logger = discard
	e, err := projection.Open(f.store, f.types, o)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, p := range ps {
		if err := e.Register(p, a); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := e.Start(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { f.stop(e) })
	return e
}

func (f *fixture) stop(e *projection.Engine) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := e.Stop(ctx); err != nil {
		f.t.Error(err)
	}
}

// waitFor waits until a projection has handled everything up to p.
func (f *fixture) waitFor(e *projection.Engine, name string, p mainstem.Position) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	if err := e.WaitFor(ctx, name, p); err != nil {
		s, _ := e.Status(f.t.Context(), name)
		f.t.Fatalf("wait for %s: %v; it is %v: %v", name, err, s.State, s.Err)
	}
}

// position returns how far a projection has come, in whatever engine.
func (f *fixture) position(name string) mainstem.Position {
	cp, err := f.store.Checkpoint(f.t.Context(), name)
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		f.t.Error(err)
	}
	return cp.Position
}

// check compares the totals with what the events add up to, times n.
func (f *fixture) check(n int) {
	f.t.Helper()
	rows, err := f.totals.Find(f.t.Context(), readmodel.All())
	if err != nil {
		f.t.Fatal(err)
	}
	if len(rows) != len(f.want) {
		f.t.Errorf("%d rows, want %d", len(rows), len(f.want))
	}
	for _, r := range rows {
		if w := f.want[r.Customer]; r.Cents != n*w.Cents || r.Count != n*w.Count {
			f.t.Errorf("%+v, want %d times %+v", r, n, w)
		}
	}
}

func (f *fixture) inState(e *projection.Engine, name string, want projection.State) projection.Status {
	f.t.Helper()
	var s projection.Status
	testkit.Eventually(f.t, fmt.Sprintf("%s to be %v", name, want), func() bool {
		var err error
		if s, err = e.Status(f.t.Context(), name); err != nil {
			f.t.Fatal(err)
		}
		return s.State == want
	})
	return s
}
