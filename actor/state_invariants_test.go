//go:build invariants || race

package actor

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// faulty is an actor that fails to start, or fails at each message.
type faulty struct{ start error }

func (a *faulty) Start(*Context[int]) error        { return a.start }
func (a *faulty) Receive(*Context[int], int) error { return errors.New("broken") }

// TestActorsTakeEveryTransition compares the table with the steps of actors: each step is in the
// table, else step would panic, and each row of the table is a step that one of them takes.
func TestActorsTakeEveryTransition(t *testing.T) {
	var mu sync.Mutex
	seen := make(map[transition]int)
	before := stepped
	defer func() { stepped = before }()
	stepped = func(row transition) {
		mu.Lock()
		defer mu.Unlock()
		seen[row]++
	}
	synctest.Test(t, func(t *testing.T) {
		n, check := startAll(t)
		time.Sleep(61 * time.Second)
		synctest.Wait()
		check()
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	})
	for _, row := range transitions {
		if seen[row] == 0 {
			t.Errorf("no actor took the step %v in %v to %v", row.on, row.from, row.to)
		}
		delete(seen, row)
	}
	if len(seen) != 0 {
		t.Errorf("steps that the table does not have: %v", seen)
	}
}

// startAll starts actors that take all steps until a minute has passed and the node has been
// closed. The test calls check in between.
func startAll(t *testing.T) (n *Node, check func()) {
	t.Helper()
	n, err := Open("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Spawn(n, &faulty{start: errors.New("no start")}, nil); err == nil {
		t.Error("an actor whose Start failed was spawned")
	}
	crashing, err := Spawn(n, &faulty{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := crashing.Send(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	resting := Func[int](func(*Context[int], int) error { return nil })
	short, err := Spawn(n, resting, &Options{Idle: time.Second}) // passivated
	if err != nil {
		t.Fatal(err)
	}
	long, err := Spawn(n, resting, nil) // drained by Close
	if err != nil {
		t.Fatal(err)
	}
	if err := long.Send(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	s, err := Supervise(n, &SupervisorOptions{Strategy: Dynamic})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := StartChild(t.Context(), s, func() Actor[int] { return resting }, &ChildOptions{Options: Options{Idle: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	return n, func() {
		if !crashing.core().gone() || !short.core().gone() {
			t.Errorf("gone: the one that crashed %v, the one that was passivated %v", crashing.core().gone(), short.core().gone())
		}
		if i := kept.core().ops.inspect().Incarnation; i != 2 {
			t.Errorf("the supervised one is in incarnation %d, want 2", i)
		}
	}
}
