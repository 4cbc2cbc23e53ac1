package actortest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/actortest"
)

// metronome ticks every minute.
type metronome struct{ to actor.Ref[string] }

func (m *metronome) Start(c *actor.Context[string]) error {
	c.Every(time.Minute, func() error { return m.to.Send(c, "tick") })
	return nil
}

func (m *metronome) Receive(*actor.Context[string], string) error { return nil }

// An hour of a metronome passes at once.
func TestMetronome(t *testing.T) {
	actortest.Run(t, func(t *testing.T, node *actor.Node) {
		ear := actortest.NewProbe[string](t, node)
		actortest.Spawn(t, node, &metronome{ear.Ref()}, nil)
		for range 60 {
			ear.Expect("tick")
		}
	})
}

// greeter greets the name that it gets.
type greeter struct{ to actor.Ref[string] }

func (g *greeter) Receive(c *actor.Context[string], name string) error {
	return g.to.Send(c, "hello "+name)
}

func Example() {
	t := newExample() // in a test, its *testing.T
	defer t.end()

	node := actortest.Node(t)
	ear := actortest.NewProbe[string](t, node)
	g := actortest.Spawn(t, node, &greeter{ear.Ref()}, nil)
	actortest.Send(t, g, "ann", "bob", "cid")
	ear.Expect("hello ann")
	fmt.Println(ear.Next())
	fmt.Println(ear.Find(func(s string) bool { return s > "hello c" }))
	// Output:
	// hello bob
	// hello cid
}

// example is a testing.TB for examples, which have none.
type example struct {
	testing.TB
	ctx     context.Context
	cancel  func()
	cleanup []func()
}

func newExample() *example {
	e := &example{}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

func (e *example) Helper()                           {}
func (e *example) Context() context.Context          { return e.ctx }
func (e *example) Cleanup(f func())                  { e.cleanup = append(e.cleanup, f) }
func (e *example) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (e *example) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (e *example) end() {
	e.cancel()
	for _, f := range e.cleanup {
		f()
	}
}
