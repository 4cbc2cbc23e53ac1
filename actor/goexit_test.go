package actor_test

import (
	"errors"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/mainstemdev/mainstem/actor"
)

// quitter is an actor whose Start or Stop method ends the goroutine, as t.FailNow does.
type quitter struct{ start, stop bool }

func (q *quitter) Start(*actor.Context[job]) error {
	if q.start {
		runtime.Goexit()
	}
	return nil
}

func (q *quitter) Receive(c *actor.Context[job], m job) error { return m(c) }

func (q *quitter) Stop(*actor.Context[job], error) {
	if q.stop {
		runtime.Goexit()
	}
}

func TestGoexitInStopEndsTheActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		r, err := actor.Spawn(node, &quitter{stop: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		end := awaitEnd(t, r)
		r.Stop()
		if reason := <-end; !errors.Is(reason, actor.Exited) {
			t.Errorf("ended with %v, want Exited", reason)
		}
		endless := &actor.ChildOptions{Options: actor.Options{Grace: -1}}
		s := supervise(t, node, nil, actor.NewChild("a", func() *quitter { return &quitter{stop: true} }, endless))
		a := childRef(t, s, "a")
		send(t, a, crash)
		awaitHandled(t, a) // it was restarted
		s.Ref().Stop()
		wait(t, s.Ref())
		synctest.Wait()
		if n := node.Len(); n != 0 {
			t.Errorf("%d actors are left", n)
		}
	})
}

func TestGoexitInStartEndsTheActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		go func() {
			_, err := actor.Spawn(node, &quitter{start: true}, nil)
			t.Errorf("Spawn returned %v", err)
		}()
		synctest.Wait()
		if n := node.Len(); n != 0 {
			t.Fatalf("%d actors are left", n)
		}
		starts := 0
		s := supervise(t, node, nil, actor.NewChild("a", func() *quitter {
			starts++
			return &quitter{start: starts == 2}
		}, &actor.ChildOptions{Options: actor.Options{Grace: -1}}))
		end := awaitEnd(t, s.Ref())
		send(t, childRef(t, s, "a"), crash)
		if reason := <-end; !errors.Is(reason, actor.Exited) {
			t.Errorf("the supervisor ended with %v, want Exited", reason)
		}
		synctest.Wait()
		if n := node.Len(); n != 0 {
			t.Errorf("%d actors are left", n)
		}
	})
}
