package actor_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func TestStopOfANodeDrains(t *testing.T) {
	node := open(t)
	var handled atomic.Int64
	const actors, each = 100, 50
	for range actors {
		r := worker(t, node, nil)
		for range each {
			send(t, r, func(*actor.Context[job]) error { handled.Add(1); return nil })
		}
	}
	if err := node.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if handled.Load() != actors*each || node.Len() != 0 {
		t.Errorf("%d messages handled, %d actors left: want all of %d and none", handled.Load(), node.Len(), actors*each)
	}
	if _, err := actor.Spawn(node, actor.Func[job](do), nil); !errors.Is(err, mainstem.ErrClosed) {
		t.Errorf("Spawn: %v, want Closed", err)
	}
	if err := node.Stop(t.Context()); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func TestStopOfANodeListsWhoDidNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, err := actor.Open("test", nil)
		if err != nil {
			t.Fatal(err)
		}
		let := make(chan struct{})
		worker(t, node, nil)
		stuck := worker(t, node, &actor.Options{Name: "stuck"})
		send(t, stuck, func(*actor.Context[job]) error { <-let; return nil })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = node.Stop(ctx)
		var e *actor.StopError
		if !errors.As(err, &e) || len(e.Stuck) != 1 || e.Stuck[0].Address.Name != "stuck" ||
			!errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "test/stuck") {
			t.Errorf("Stop: %v, want a StopError that names the actor", err)
		}
		close(let)
		synctest.Wait()
		if node.Len() != 0 {
			t.Errorf("%d actors left after the stuck one was let go", node.Len())
		}
	})
}

func TestParentLeavesAStuckChildBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		let := make(chan struct{})
		parent := worker(t, node, nil)
		send(t, parent, func(c *actor.Context[job]) error {
			r := worker(t, c, &actor.Options{Name: "child", Grace: time.Second})
			return r.Send(c, func(*actor.Context[job]) error { <-let; return nil })
		})
		synctest.Wait()
		parent.Stop()
		begin := time.Now()
		wait(t, parent)
		if took := time.Since(begin); took != time.Second {
			t.Errorf("the parent ended after %s, want 1s", took)
		}
		worker(t, node, &actor.Options{Name: "child"}) // the name is free
		close(let)
	})
}

// Stop waits for actors that were left behind, and lists them if they do not end, with their children.
func TestStopOfANodeWithActorsThatWereLeftBehind(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			node, err := actor.Open("test", nil)
			if err != nil {
				t.Fatal(err)
			}
			let := make(chan struct{})
			parent := worker(t, node, nil)
			send(t, parent, func(c *actor.Context[job]) error {
				r := worker(t, c, &actor.Options{Name: "child", Grace: time.Second})
				return r.Send(c, func(c *actor.Context[job]) error {
					worker(t, c, &actor.Options{Name: "grandchild"})
					<-let
					return nil
				})
			})
			synctest.Wait()
			if !stuck {
				time.AfterFunc(time.Minute, func() { close(let) })
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			err = node.Stop(ctx)
			var stop *actor.StopError
			switch {
			case !stuck && (err != nil || node.Len() != 0):
				t.Errorf("Stop: %v, %d actors: want that it waits", err, node.Len())
			case stuck && (!errors.As(err, &stop) || len(stop.Stuck) != 2 || stop.Stuck[1].Names[0] != "grandchild"):
				t.Errorf("Stop: %v, want that the child and its child are stuck", err)
			}
			if stuck {
				close(let)
			}
		})
	}
}

func TestMonitor(t *testing.T) {
	node := open(t)
	crash := errors.New("crash")
	watcher, watched := worker(t, node, nil), worker(t, node, nil)
	downs := make(chan actor.Down, 4)
	note := func(d actor.Down) error { downs <- d; return nil }
	send(t, watcher, func(c *actor.Context[job]) error {
		c.Monitor(watched, note)
		c.Monitor(watched, note)
		cancel := c.Monitor(watched, func(actor.Down) error { t.Error("a monitor that was cancelled"); return nil })
		cancel()
		return nil
	})
	awaitHandled(t, watcher)
	send(t, watched, func(*actor.Context[job]) error { return crash })
	for range 2 {
		if d := <-downs; d.Reason != crash || d.Ref != actor.AnyRef(watched) {
			t.Errorf("got %v, want crash of %s", d, watched)
		}
	}
	send(t, watcher, func(c *actor.Context[job]) error {
		c.Monitor(watched, note)
		return nil
	})
	if d := <-downs; d.Reason != actor.Missing {
		t.Errorf("monitor of a stopped actor: %v, want Missing", d.Reason)
	}
}

func TestMonitorsOfAnActorEndWithIt(t *testing.T) {
	node := open(t)
	watcher, watched := worker(t, node, nil), worker(t, node, nil)
	send(t, watcher, func(c *actor.Context[job]) error {
		c.Monitor(watched, func(actor.Down) error { return nil })
		c.Stop(nil)
		return nil
	})
	wait(t, watcher)
	testkit.Eventually(t, "the monitor to be gone", func() bool { i, err := node.Inspect(watched.Address()); return err == nil && i.Monitors == 0 })
}

func TestLinkedActorsEndTogether(t *testing.T) {
	node := open(t)
	crash := errors.New("crash")
	a, b, c, trapper := worker(t, node, nil), worker(t, node, nil), worker(t, node, nil), worker(t, node, nil)
	exits := make(chan actor.Exit, 1)
	send(t, trapper, func(x *actor.Context[job]) error {
		x.TrapExit(func(e actor.Exit) error { exits <- e; return nil })
		x.Link(c)
		return nil
	})
	send(t, a, func(x *actor.Context[job]) error { x.Link(b); return nil })
	send(t, b, func(x *actor.Context[job]) error { x.Link(c); x.Link(c); return nil })
	for _, r := range []actor.Ref[job]{a, b, trapper} {
		awaitHandled(t, r)
	}
	send(t, a, func(*actor.Context[job]) error { return crash })
	if e := <-exits; e.Reason != crash || e.From.ID != c.Address().ID {
		t.Errorf("exit %+v, want crash of %s", e, c)
	}
	testkit.Eventually(t, "one actor to be left", func() bool { return node.Len() == 1 })
	if i, err := node.Inspect(trapper.Address()); err != nil || i.Links != 0 {
		t.Errorf("trapper: %+v, %v: want it alive without links", i, err)
	}
}

func TestNormalEndsAndUnlinkedActorsTakeNobodyAlong(t *testing.T) {
	node := open(t)
	a, b, c := worker(t, node, nil), worker(t, node, nil), worker(t, node, nil)
	send(t, c, func(x *actor.Context[job]) error { x.Link(a); x.Link(b); x.Unlink(b); return nil })
	awaitHandled(t, c)
	send(t, a, func(x *actor.Context[job]) error { x.Stop(nil); return nil })
	send(t, b, func(x *actor.Context[job]) error { return errors.New("crash") })
	wait(t, a)
	wait(t, b)
	awaitHandled(t, c)
}

func TestLinkToAStoppedActorIsAnExit(t *testing.T) {
	node := open(t)
	gone, a := worker(t, node, nil), worker(t, node, nil)
	gone.Stop()
	wait(t, gone)
	reason := make(chan error, 1)
	watcher := worker(t, node, nil)
	send(t, watcher, func(c *actor.Context[job]) error {
		c.Monitor(a, func(d actor.Down) error { reason <- d.Reason; return nil })
		return nil
	})
	awaitHandled(t, watcher)
	send(t, a, func(c *actor.Context[job]) error { c.Link(gone); return nil })
	if r := <-reason; r != actor.Missing {
		t.Errorf("reason %v, want Missing", r)
	}
}

func TestReasonsKeepTheirNames(t *testing.T) {
	for _, r := range []error{actor.Normal, actor.Shutdown, actor.Killed, actor.Passivated, actor.Missing, actor.NodeDown, actor.Exceeded, actor.Exited} {
		name, ok := actor.ReasonName(r)
		back, known := actor.ParseReason(name)
		if !ok || !known || back != r {
			t.Errorf("%v: name %q, parsed %v", r, name, back)
		}
	}
	if _, ok := actor.ReasonName(errors.New("other")); ok {
		t.Error("an error that is no reason has a name")
	}
}
