package actor_test

import (
	"flag"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

var wholeMillion = flag.Bool("actor.million", false, "start a whole million actors in TestMillionActors")

// TestMillionActors starts very many supervised actors, sends each a message, asks
// each a question, and stops them: nothing is lost, no goroutine is left.
func TestMillionActors(t *testing.T) {
	million := 100_000
	switch {
	case *wholeMillion:
		million = 1_000_000
	case raceDetector:
		million = 20_000 // the memory of the race detector is the limit
	}
	before := runtime.NumGoroutine()
	node, err := actor.Open("million", nil)
	if err != nil {
		t.Fatal(err)
	}
	s := supervise(t, node, &actor.SupervisorOptions{Strategy: actor.Dynamic})
	var stopped atomic.Int64
	refs := make([]actor.Ref[question], million)
	for i := range refs {
		refs[i], err = actor.StartChild(t.Context(), s, func() *adder { return &adder{stopped: &stopped} }, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range refs {
		send(t, r, question{n: i})
	}
	for i, r := range refs {
		if v, err := ask(t.Context(), r, 1); v != i+1 || err != nil {
			t.Fatalf("actor %d: %d, %v", i, v, err)
		}
	}
	if err := node.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if stopped.Load() != int64(million) || node.Len() != 0 || node.DeadLetters() != 0 {
		t.Errorf("%d stopped, %d left, %d dead letters", stopped.Load(), node.Len(), node.DeadLetters())
	}
	testkit.Eventually(t, "goroutines to be as few as before", func() bool { return runtime.NumGoroutine() <= before })
}

// adder adds what it is sent and answers with the sum.
type adder struct {
	sum     int
	stopped *atomic.Int64
}

func (a *adder) Receive(_ *actor.Context[question], q question) error {
	a.sum += q.n
	return q.reply.Send(a.sum)
}

func (a *adder) Stop(*actor.Context[question], error) { a.stopped.Add(1) }
