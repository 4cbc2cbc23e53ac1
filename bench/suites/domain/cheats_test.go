package domain

import (
	"context"
	"errors"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
	"github.com/mainstemdev/mainstem/bench/suite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counts is an honest domain that keeps how many items an order has.
type counts struct {
	mu      sync.Mutex
	items   map[string]int
	handled int
}

var errUnknown = errors.New("there is no such order")

func (c *counts) Save(_ context.Context, order string, items int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.items[order] = items
	return nil
}

func (c *counts) Load(_ context.Context, order string) (Order, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.items[order]
	if n == 0 {
		return Order{}, errUnknown
	}
	return Order{n, n * Cents, uint64(n)}, nil
}

func (c *counts) LoadSnapshot(ctx context.Context, order string) (Order, error) {
	return c.Load(ctx, order)
}

func (c *counts) Add(_ context.Context, order string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.items[order]++
	return nil
}

func (c *counts) Dispatch(ctx context.Context, p Pipeline, order string) error {
	if p >= Aggregate {
		return c.Add(ctx, order)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handled++
	return nil
}

func (c *counts) Handled() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.handled
}

func (c *counts) Clear(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.items)
	return nil
}

func (c *counts) Close() error { return nil }

func factory(cheat func(*counts) Domain) Factory {
	return Factory{Name: "mine", Durability: suite.Memory, ScaleCommands: 100,
		Open: func(context.Context, *suite.Env, string) (Domain, error) {
			return cheat(&counts{items: make(map[string]int)}), nil
		}}
}

func TestHonest(t *testing.T) {
	for _, e := range Entries(factory(func(c *counts) Domain { return c })) {
		t.Run(e.Case, func(t *testing.T) {
			if err := runnertest.Try(t, &e, 2, 20); err != nil {
				t.Error(err)
			}
		})
	}
}

// The cheats. Each is honest but for what its method does.
type (
	savesNothing    struct{ *counts }
	savesOneLess    struct{ *counts }
	addsNothing     struct{ *counts }
	dispatchesNone  struct{ *counts }
	dispatchesTwice struct{ *counts }
	loadsOld        struct {
		*counts
		known sync.Map
	}
)

func (savesNothing) Save(context.Context, string, int) error { return nil }

func (c savesOneLess) Save(ctx context.Context, order string, items int) error {
	return c.counts.Save(ctx, order, max(1, items-1))
}

func (addsNothing) Add(context.Context, string) error { return nil }

func (dispatchesNone) Dispatch(context.Context, Pipeline, string) error { return nil }

func (c dispatchesTwice) Dispatch(ctx context.Context, p Pipeline, order string) error {
	return errors.Join(c.counts.Dispatch(ctx, p, order), c.counts.Dispatch(ctx, p, order))
}

func (c *loadsOld) load(ctx context.Context, order string) (Order, error) {
	if v, ok := c.known.Load(order); ok {
		return v.(Order), nil
	}
	o, err := c.counts.Load(ctx, order)
	c.known.Store(order, o)
	return o, err
}

func (c *loadsOld) Load(ctx context.Context, order string) (Order, error) { return c.load(ctx, order) }
func (c *loadsOld) LoadSnapshot(ctx context.Context, order string) (Order, error) {
	return c.load(ctx, order)
}

func TestCheatsAreCaught(t *testing.T) {
	for name, c := range map[string]struct {
		cheat func(*counts) Domain
		cases []string
	}{
		"saves nothing":    {func(c *counts) Domain { return savesNothing{c} }, []string{"aggregate/save/1", "aggregate/load/10", "command/aggregate"}},
		"saves one less":   {func(c *counts) Domain { return savesOneLess{c} }, []string{"aggregate/save/5", "aggregate/life-cycle", "aggregate/snapshot"}},
		"adds nothing":     {func(c *counts) Domain { return addsNothing{c} }, []string{"aggregate/life-cycle"}},
		"dispatches none":  {func(c *counts) Domain { return dispatchesNone{c} }, []string{"command/bare", "command/validation", "command/pipeline", "command/aggregate", "command/full", "command/8-workers"}},
		"dispatches twice": {func(c *counts) Domain { return dispatchesTwice{c} }, []string{"command/bare", "command/aggregate"}},
		"loads what was":   {func(c *counts) Domain { return &loadsOld{counts: c} }, []string{"aggregate/load/100", "aggregate/snapshot"}},
	} {
		for _, e := range Entries(factory(c.cheat)) {
			for _, want := range c.cases {
				if e.Case != want {
					continue
				}
				if err := runnertest.Try(t, &e, 2, 20); err == nil {
					t.Errorf("%s: a domain that %s passed the check", e.Case, name)
				}
			}
		}
	}
}
