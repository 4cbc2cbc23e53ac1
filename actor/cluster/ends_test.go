package cluster_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// reasons collects reasons for tests.
type reasons struct {
	mu  sync.Mutex
	all []error
}

func (r *reasons) add(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, err)
}

func (r *reasons) get() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]error(nil), r.all...)
}

// do runs f in the turn of an actor and waits for it.
func do(t testing.TB, r actor.Ref[job], f job) {
	t.Helper()
	done := make(chan struct{})
	err := r.Send(t.Context(), func(c *actor.Context[job]) error { defer close(done); return f(c) })
	if err != nil {
		t.Fatal(err)
	}
	<-done
}

// watching returns a reference to an actor that monitors another, and the ends that it gets.
func watching(t testing.TB, m *member, other actor.AnyRef) (actor.Ref[job], *reasons) {
	t.Helper()
	var reported reasons
	w := worker(t, m, nil)
	do(t, w, func(c *actor.Context[job]) error {
		c.Monitor(other, func(d actor.Down) error { reported.add(d.Reason); return nil })
		return nil
	})
	return w, &reported
}

func only(t testing.TB, r *reasons, want error) {
	t.Helper()
	testkit.Eventually(t, "a reason", func() bool { return len(r.get()) > 0 })
	if all := r.get(); len(all) != 1 || !errors.Is(all[0], want) {
		t.Errorf("told %v, want %v once", all, want)
	}
}

func TestMonitorsGetEnds(t *testing.T) {
	a, b := two(t, nil)
	for name, end := range map[string]struct {
		do   func(far, here actor.Ref[job])
		want error
	}{
		"normal": {func(_, here actor.Ref[job]) {
			_ = here.Send(t.Context(), func(*actor.Context[job]) error { return actor.Normal })
		}, actor.Normal},
		"stopped": {func(far, _ actor.Ref[job]) { far.Stop() }, actor.Shutdown},
		"killed":  {func(far, _ actor.Ref[job]) { far.Kill() }, actor.Killed},
		"drained": {func(far, _ actor.Ref[job]) { far.Drain() }, actor.Shutdown},
		"failed": {func(_, here actor.Ref[job]) {
			_ = here.Send(t.Context(), func(*actor.Context[job]) error { return errRefused })
		}, errRefused},
		"panic": {func(_, here actor.Ref[job]) {
			_ = here.Send(t.Context(), func(*actor.Context[job]) error { panic(errRefused) })
		}, errRefused},
		"kinds": {func(_, here actor.Ref[job]) {
			_ = here.Send(t.Context(), func(*actor.Context[job]) error {
				return errors.Join(errors.New("first"), &mainstem.Error{Kind: mainstem.KindConflict, Op: "commit", Err: context.DeadlineExceeded})
			})
		}, mainstem.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			here := worker(t, b, &actor.Options{Name: name})
			far := seen(t, a, here)
			_, reported := watching(t, a, far)
			_, byName := watching(t, a, named[job](t, a, "b", name))
			testkit.Eventually(t, "two monitors", func() bool { i, err := b.node.Inspect(here.Address()); return err == nil && i.Monitors == 2 })
			end.do(far, here)
			only(t, reported, end.want)
			only(t, byName, end.want)
			if name == "panic" {
				var p *actor.PanicError
				if !errors.As(reported.get()[0], &p) || len(p.Stack) == 0 {
					t.Errorf("%v is no PanicError with a stack", reported.get())
				}
			}
			_, late := watching(t, a, far)
			only(t, late, actor.Missing)
			if reason, err := actor.Wait(t.Context(), far); !errors.Is(reason, actor.Missing) || err != nil {
				t.Errorf("Wait: %v, %v", reason, err)
			}
		})
	}
}

func TestLinkedActorsEndTogether(t *testing.T) {
	a, b := two(t, nil)
	for name, byName := range map[string]bool{"number": false, "name": true} {
		t.Run(name, func(t *testing.T) {
			var reported reasons
			there := worker(t, b, &actor.Options{Name: "there " + name})
			far := seen(t, a, there)
			if byName {
				far = named[job](t, a, "b", "there "+name)
			}
			trapping, plain, unlinked := worker(t, a, nil), worker(t, a, nil), worker(t, a, nil)
			links := func(want int) { // links take their time to get there
				t.Helper()
				testkit.Eventually(t, "the links to arrive", func() bool { i, err := b.node.Inspect(there.Address()); return err == nil && i.Links == want })
			}
			do(t, unlinked, func(c *actor.Context[job]) error { c.Link(far); return nil })
			links(1)
			do(t, unlinked, func(c *actor.Context[job]) error { c.Unlink(far); return nil })
			links(0)
			do(t, trapping, func(c *actor.Context[job]) error {
				c.TrapExit(func(e actor.Exit) error { reported.add(e.Reason); return nil })
				c.Link(far)
				c.Link(far)
				return nil
			})
			links(1)
			do(t, plain, func(c *actor.Context[job]) error { c.Link(far); return nil })
			links(2)
			if _, err := actor.Wait(short(t, 50*time.Millisecond), there); err == nil {
				t.Fatal("it ended with nothing")
			}
			if err := there.Send(t.Context(), func(*actor.Context[job]) error { return errRefused }); err != nil {
				t.Fatal(err)
			}
			only(t, &reported, errRefused)
			if reason, err := actor.Wait(t.Context(), plain); err != nil || !errors.Is(reason, errRefused) && !errors.Is(reason, actor.Missing) {
				t.Errorf("linked actor ended with %v, %v", reason, err)
			}
			// The way back: what traps is no longer linked; a fresh link ends what is there.
			there2 := worker(t, b, nil)
			do(t, trapping, func(c *actor.Context[job]) error { c.Link(seen(t, a, there2)); return nil })
			trapping.Kill()
			if reason, err := actor.Wait(t.Context(), there2); err != nil || !errors.Is(reason, actor.Killed) && !errors.Is(reason, actor.Missing) {
				t.Errorf("ended with %v, %v", reason, err)
			}
			do(t, unlinked, func(*actor.Context[job]) error { return nil })
		})
	}
}

// hidden returns options of a node that others cannot dial: its only way is through a proxy.
func hidden(o *cluster.Options) *cluster.Options {
	own := *o
	own.Listen = ""
	return &own
}

func short(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// The links, monitors, questions and subscriptions of a node end once when the other goes down.
func TestNodeDown(t *testing.T) {
	for name, leave := range map[string]bool{"left": true, "lost": false} {
		t.Run(name, func(t *testing.T) {
			o := &cluster.Options{Listen: "127.0.0.1:0", Secret: secret, Plain: true, Logger: logger(t)}
			if !leave { // what is lost must be noticed; a busy machine must not be taken for lost
				o.DownAfter, o.DialTimeout = 2*time.Second, time.Second
			}
			b := join(t, "b", o)
			p := newProxy(t, b.Addr())
			a := join(t, "a", hidden(o))
			a.peers["b"] = p.addr()
			testkit.Succeeds(t, "a session", func() error { return a.Connect(t.Context(), "b") }) // a dial may be late
			there := worker(t, b, nil)
			far := seen(t, a, there)
			var events reasons
			a.Watch(func(e cluster.NodeEvent) {
				if !e.Up {
					events.add(e.Reason)
				}
			})
			_, reported := watching(t, a, far)
			var exits reasons
			linked := worker(t, a, nil)
			do(t, linked, func(c *actor.Context[job]) error {
				c.TrapExit(func(e actor.Exit) error { exits.add(e.Reason); return nil })
				c.Link(far)
				return nil
			})
			asker := spawn(t, b, func(*actor.Context[Errand], Errand) error { return nil }, nil) // never answers
			asked := make(chan error, 1)
			go func() {
				_, err := actor.Ask(context.Background(), seen(t, a, asker), func(p actor.Reply[string]) Errand { return Errand{Reply: p} })
				asked <- err
			}()
			testkit.Eventually(t, "the question to be handled", func() bool { i, err := b.node.Inspect(asker.Address()); return err == nil && i.Handled == 1 })
			if leave {
				if err := b.Leave(t.Context()); err != nil {
					t.Fatal(err)
				}
			} else {
				p.cut(true)
			}
			only(t, reported, actor.NodeDown)
			only(t, &exits, actor.NodeDown)
			if err := <-asked; !errors.Is(err, actor.ErrNoReply) || !errors.Is(err, actor.NodeDown) {
				t.Errorf("Ask: %v, want ErrNoReply because of NodeDown", err)
			}
			testkit.Eventually(t, "the node to be down", func() bool { return len(events.get()) == 1 && len(a.Nodes()) == 0 })
			if err := far.Send(t.Context(), nil); err == nil || a.node.DeadLetters() == 0 {
				t.Errorf("Send to a node that is down: %v", err)
			}
		})
	}
}

// References to actors of an earlier life of a node are refused, those by name are not.
func TestRestartedNode(t *testing.T) {
	o := &cluster.Options{Listen: "127.0.0.1:0", Secret: secret, Plain: true, Logger: logger(t)}
	a, first := two(t, o)
	old := seen(t, a, spawn(t, first, func(*actor.Context[Ping], Ping) error { return nil }, nil))
	if err := old.Send(t.Context(), Ping{}); err != nil {
		t.Fatal(err)
	}
	first.leave(t)
	second := join(t, "b", o, a)
	got := make(chan int, 1)
	spawn(t, second, func(_ *actor.Context[Ping], p Ping) error { got <- p.N; return nil }, &actor.Options{Name: "x"})
	if err := second.Connect(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the second incarnation to be up", func() bool { n := a.Nodes(); return len(n) == 1 && n[0].Start == second.node.Start() })
	if err := old.Send(t.Context(), Ping{}); !errors.Is(err, actor.ErrRestarted) || !errors.Is(err, actor.ErrStopped) || !errors.Is(err, mainstem.ErrClosed) {
		t.Errorf("Send to an earlier life: %v, want ErrRestarted", err)
	}
	_, reported := watching(t, a, old)
	only(t, reported, actor.NodeDown)
	if err := named[Ping](t, a, "b", "x").Send(t.Context(), Ping{7}); err != nil {
		t.Error(err)
	}
	if n := <-got; n != 7 {
		t.Errorf("got %d", n)
	}
}
