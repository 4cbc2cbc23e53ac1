package actor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem/bench/suite"
)

func closed(c io.Closer, err error) error { return errors.Join(err, c.Close()) }

// populationEntry is the memory of a process that waits for messages. The process that
// runs it is new for every round, so that nothing else is in its memory.
func populationEntry(name string, f Factory, n int, scale bool) suite.Entry {
	return suite.Entry{
		Case: name, About: "start one process, which then waits for messages; " + strconv.Itoa(n) + " of them are measured together",
		Op: "process", Primary: "memory", Fixed: n, Fresh: true, Scale: scale,
		Curve: &suite.Curve{Name: "memory", Axis: "processes", X: float64(n)},
		Start: func(ctx context.Context, _ *suite.Env) (*suite.Round, error) {
			c, err := f.Spawn(ctx)
			if err != nil {
				return nil, err
			}
			m := &census{population: c}
			return &suite.Round{Prepare: m.prepare, Run: m.run, Check: m.check, Metrics: m.metrics, Close: c.Close}, nil
		},
	}
}

// census counts the processes of a population and what they take.
type census struct {
	population    Population
	seen          []atomic.Uint32 // by process
	left          atomic.Int64    // processes that have yet to answer
	all           chan struct{}
	before, after uint64
}

func (m *census) prepare(_ context.Context, n int) error {
	m.seen = make([]atomic.Uint32, n)
	m.left.Store(int64(n))
	m.all = make(chan struct{})
	m.before = inUse()
	return nil
}

func (m *census) run(ctx context.Context, n int, _ *suite.Recorder) error {
	return m.population.Spawn(ctx, n, func(i int) {
		m.seen[i].Add(1)
		if m.left.Add(-1) == 0 {
			close(m.all)
		}
	})
}

// check measures the memory, before the processes are disturbed, and then lets each
// of them show that it is there.
func (m *census) check(ctx context.Context) error {
	m.after = inUse()
	if err := m.population.Poke(ctx); err != nil {
		return err
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-m.all:
	case <-late.C:
		return fmt.Errorf("%d of %d processes did not answer within %s", m.left.Load(), len(m.seen), patience)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for i := range m.seen {
		if n := m.seen[i].Load(); n != 1 {
			return fmt.Errorf("process %d got %d messages, want 1", i, n)
		}
	}
	return nil
}

func (m *census) metrics(context.Context) ([]suite.Metric, error) {
	each := (float64(m.after) - float64(m.before)) / float64(len(m.seen))
	return []suite.Metric{{Name: "memory", Unit: "B/process", Value: each}}, nil
}

// inUse returns the bytes of live objects and of stacks.
func inUse() uint64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers and pools held
	runtime.ReadMemStats(&s)
	return s.HeapAlloc + s.StackInuse
}

// publishEntry is one value to very many.
func publishEntry(name string, f Factory, nodes, each int, scale bool) suite.Entry {
	all := nodes * each
	fixed := 0
	if scale {
		fixed = publishes // so that one contender's subscribers are there at a time
	}
	return suite.Entry{
		Case: name, About: fmt.Sprintf("publish one value to %d subscribers on each of %d nodes, until the last has it", each, nodes),
		Op: "delivery", Items: all, Scale: scale, Fixed: fixed,
		Start: func(ctx context.Context, _ *suite.Env) (*suite.Round, error) {
			a := newAudience(nodes, each)
			began := time.Now()
			p, err := f.Publish(ctx, a)
			if err != nil {
				return nil, err
			}
			took := time.Since(began)
			published := 0
			publish := func(ctx context.Context, _ int) error {
				text := "test" + strconv.Itoa(published%10)
				published++
				a.text.Store(&text)
				if err := p.Publish(ctx, text); err != nil {
					return err
				}
				return a.await(ctx)
			}
			if err := publish(ctx, 0); err != nil { // connected
				return nil, closed(p, err)
			}
			return &suite.Round{
				Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
					return suite.Loop(ctx, n, rec, publish)
				},
				Check: func(context.Context) error { return a.check(published) },
				Metrics: func(context.Context) ([]suite.Metric, error) {
					return []suite.Metric{{Name: "subscribe", Unit: "ns/subscriber", Value: float64(took.Nanoseconds()) / float64(all)}}, nil
				},
				Close: p.Close,
			}, nil
		},
	}
}
