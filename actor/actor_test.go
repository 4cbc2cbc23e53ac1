package actor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB) *actor.Node {
	t.Helper()
	n, err := actor.Open("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, n) })
	return n
}

// stop stops a node. Node.Close would give up sooner on a busy machine.
func stop(t testing.TB, n *actor.Node) {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func spawn[M any](t testing.TB, s actor.Spawner, f func(c *actor.Context[M], m M) error, o *actor.Options) actor.Ref[M] {
	t.Helper()
	r, err := actor.Spawn(s, actor.Func[M](f), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func send[M any](t testing.TB, r actor.Ref[M], ms ...M) {
	t.Helper()
	for _, m := range ms {
		if err := r.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
}

func wait(t testing.TB, r actor.AnyRef) error {
	t.Helper()
	reason, err := actor.Wait(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return reason
}

// endedBy does do once it waits for the end of r, in a synctest bubble, and returns the exit reason:
// an actor that has ended before has no reason any more.
func endedBy(t testing.TB, r actor.AnyRef, do func()) error {
	t.Helper()
	time.AfterFunc(1, do) // time passes when every goroutine waits
	return wait(t, r)
}

// job is a message that its actor calls, so that a test can be read from the top down.
type job func(c *actor.Context[job]) error

func worker(t testing.TB, s actor.Spawner, o *actor.Options) actor.Ref[job] {
	t.Helper()
	return spawn(t, s, do, o)
}

func do(c *actor.Context[job], m job) error { return m(c) }

// awaitHandled waits until the actor has handled all messages that were sent to it before.
func awaitHandled(t testing.TB, r actor.Ref[job]) {
	t.Helper()
	done := make(chan struct{})
	send(t, r, func(*actor.Context[job]) error { close(done); return nil })
	<-done
}

func TestMessagesOfEachSenderKeepTheirOrder(t *testing.T) {
	node := open(t)
	const senders, each = 4, 20_000
	type message struct{ from, n int }
	var got [senders]int
	left := senders * each
	done := make(chan struct{})
	r := spawn(t, node, func(_ *actor.Context[message], m message) error {
		if m.n != got[m.from] {
			t.Errorf("sender %d: got message %d, want %d", m.from, m.n, got[m.from])
		}
		got[m.from]++
		if left--; left == 0 {
			close(done)
		}
		return nil
	}, nil)
	for from := range senders {
		go func() {
			for n := range each {
				if err := r.Send(t.Context(), message{from, n}); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	<-done
}

func TestSendToStoppedActorFailsAndIsADeadLetter(t *testing.T) {
	node := open(t)
	r := worker(t, node, &actor.Options{Name: "gone"})
	var letters []actor.DeadLetter
	defer node.OnDeadLetter(func(l actor.DeadLetter) { letters = append(letters, l) })()
	r.Stop()
	if reason := wait(t, r); reason != actor.Shutdown && reason != actor.Missing {
		t.Errorf("reason %v, want shutdown", reason)
	}
	err := r.Send(t.Context(), nil)
	if !errors.Is(err, actor.ErrStopped) || !errors.Is(err, mainstem.ErrClosed) {
		t.Errorf("Send: %v, want ErrStopped of kind Closed", err)
	}
	if len(letters) != 1 || node.DeadLetters() != 1 || !errors.Is(letters[0].Reason, actor.ErrStopped) {
		t.Errorf("dead letters %v, counted %d: want one with ErrStopped", letters, node.DeadLetters())
	}
	if err := (actor.Ref[int]{}).Send(t.Context(), 1); !errors.Is(err, actor.ErrStopped) {
		t.Errorf("Send to nobody: %v", err)
	}
}

func TestWaitingMessagesOfACrashedActorAreDeadLetters(t *testing.T) {
	node := open(t)
	crash := errors.New("crash")
	hold := make(chan struct{})
	r := worker(t, node, nil)
	send(t, r, func(*actor.Context[job]) error { <-hold; return crash }, nil, nil, nil)
	close(hold)
	if reason := wait(t, r); reason != crash && reason != actor.Missing {
		t.Errorf("reason %v, want crash", reason)
	}
	testkit.Eventually(t, "three dead letters", func() bool { return node.DeadLetters() == 3 })
}

func TestPanicAndGoexitAreReasons(t *testing.T) {
	node := open(t)
	var reasons []error
	watcher := worker(t, node, nil)
	end := make(chan struct{})
	for _, f := range []job{
		func(*actor.Context[job]) error { panic("boom") },
		func(*actor.Context[job]) error { panic(context.Canceled) },
		func(*actor.Context[job]) error { runtime.Goexit(); return nil },
		func(c *actor.Context[job]) error { c.Stop(nil); return nil },
	} {
		r := worker(t, node, nil)
		send(t, watcher, func(c *actor.Context[job]) error {
			c.Monitor(r, func(d actor.Down) error {
				reasons = append(reasons, d.Reason)
				end <- struct{}{}
				return nil
			})
			return nil
		})
		awaitHandled(t, watcher)
		send(t, r, f)
		<-end
	}
	var p *actor.PanicError
	if !errors.As(reasons[0], &p) || p.Value != "boom" || len(p.Stack) == 0 || !actor.IsCrash(p) {
		t.Errorf("reason %v, want a PanicError with value and stack", reasons[0])
	}
	if !errors.Is(reasons[1], context.Canceled) {
		t.Errorf("reason %v, want the error that was passed to panic", reasons[1])
	}
	if reasons[2] != actor.Exited || reasons[3] != actor.Normal {
		t.Errorf("reasons %v, want goroutine exited, normal", reasons[2:])
	}
}

type starter struct {
	start error
	stop  func(reason error)
}

func (s *starter) Receive(c *actor.Context[job], m job) error { return m(c) }
func (s *starter) Start(*actor.Context[job]) error            { return s.start }
func (s *starter) Stop(_ *actor.Context[job], reason error)   { s.stop(reason) }

func TestStartThatFailsFailsSpawn(t *testing.T) {
	node := open(t)
	bad := errors.New("bad")
	var stopped error
	_, err := actor.Spawn(node, &starter{start: bad, stop: func(r error) { stopped = r }}, &actor.Options{Name: "x"})
	if err != bad || stopped != bad {
		t.Errorf("Spawn: %v, Stop got %v, want bad", err, stopped)
	}
	if _, err := actor.Lookup[job](node, "x"); !errors.Is(err, mainstem.ErrNotFound) || node.Len() != 0 {
		t.Errorf("Lookup: %v, %d actors: want nothing left", err, node.Len())
	}
}

func TestChildrenEndBeforeTheirParent(t *testing.T) {
	node := open(t)
	var mu sync.Mutex
	var order []string
	named := func(name string) *starter {
		return &starter{stop: func(error) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, name)
		}}
	}
	top, err := actor.Spawn(node, named("top"), nil)
	if err != nil {
		t.Fatal(err)
	}
	send(t, top, func(c *actor.Context[job]) error {
		mid, err := actor.Spawn(c, named("mid"), nil)
		if err != nil {
			return err
		}
		return mid.Send(c, func(c *actor.Context[job]) error {
			_, err := actor.Spawn(c, named("leaf"), nil)
			return err
		})
	})
	testkit.Eventually(t, "three actors to run", func() bool { return node.Len() == 3 })
	top.Stop()
	wait(t, top)
	testkit.Eventually(t, "all actors to end", func() bool { return node.Len() == 0 })
	if want := []string{"leaf", "mid", "top"}; !slices.Equal(order, want) {
		t.Errorf("stopped %v, want %v", order, want)
	}
}

func TestKillSkipsStop(t *testing.T) {
	node := open(t)
	called := false
	r, err := actor.Spawn(node, &starter{stop: func(error) { called = true }}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Kill()
	wait(t, r)
	testkit.Eventually(t, "all actors to end", func() bool { return node.Len() == 0 })
	if called {
		t.Error("Stop was called")
	}
}

func TestPrioritiesGoFirst(t *testing.T) {
	node := open(t)
	var got []string
	hold := make(chan struct{})
	r := spawn(t, node, func(_ *actor.Context[string], m string) error {
		<-hold
		got = append(got, m)
		return nil
	}, nil)
	send(t, r, "first", "user1", "user2")
	testkit.Eventually(t, "two messages to wait", func() bool { return waiting(t, node, r) == 2 })
	for _, m := range []string{"system1", "urgent1", "system2", "urgent2"} {
		p := actor.System
		if m[0] == 'u' {
			p = actor.Urgent
		}
		if err := r.SendPriority(t.Context(), p, m); err != nil {
			t.Fatal(err)
		}
	}
	r.Drain()
	close(hold)
	wait(t, r)
	if want := []string{"first", "urgent1", "urgent2", "system1", "system2", "user1", "user2"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func waiting(t testing.TB, n *actor.Node, r actor.AnyRef) int {
	t.Helper()
	i, err := n.Inspect(r.Address())
	if err != nil {
		t.Fatal(err)
	}
	return i.Waiting
}

func TestNamesAreUniqueAndGoWithTheActor(t *testing.T) {
	node := open(t)
	r := worker(t, node, &actor.Options{Name: "a"})
	if _, err := actor.Spawn(node, actor.Func[job](do), &actor.Options{Name: "a"}); !errors.Is(err, mainstem.ErrExists) {
		t.Errorf("second a: %v, want Exists", err)
	}
	done := make(chan error, 3)
	send(t, r, func(c *actor.Context[job]) error {
		done <- c.Register("b")
		done <- c.Register("c")
		if !c.Unregister("b") || c.Unregister("b") {
			t.Error("Unregister: want true once")
		}
		done <- nil
		return nil
	})
	if err := errors.Join(<-done, <-done, <-done); err != nil {
		t.Fatal(err)
	}
	if got, err := actor.Lookup[job](node, "c"); err != nil || got != r {
		t.Errorf("Lookup c: %v, %v", got, err)
	}
	if _, err := actor.Lookup[int](node, "c"); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("Lookup of another type: %v, want Invalid", err)
	}
	if _, err := actor.Lookup[job](node, "b"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("Lookup b: %v, want NotFound", err)
	}
	if got, err := actor.Find[job](node, r.Address()); err != nil || got != r {
		t.Errorf("Find: %v, %v", got, err)
	}
	r.Stop()
	wait(t, r)
	worker(t, node, &actor.Options{Name: "a"})
}

func TestAliasCanBeRevoked(t *testing.T) {
	node := open(t)
	r := worker(t, node, &actor.Options{Name: "a"})
	type given struct {
		ref    actor.Ref[job]
		revoke func()
	}
	out := make(chan given, 1)
	send(t, r, func(c *actor.Context[job]) error {
		ref, revoke := c.Alias()
		out <- given{ref, revoke}
		return nil
	})
	g := <-out
	awaitHandled(t, g.ref)
	text, err := g.ref.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var back actor.Ref[job]
	if err := back.UnmarshalText(text); err != nil {
		t.Fatal(err)
	}
	awaitHandled(t, back.On(node))
	g.revoke()
	if err := g.ref.Send(t.Context(), nil); !errors.Is(err, actor.ErrStopped) {
		t.Errorf("Send to a revoked alias: %v, want ErrStopped", err)
	}
	if err := back.On(node).Send(t.Context(), nil); !errors.Is(err, actor.ErrStopped) {
		t.Errorf("Send to a revoked alias that was decoded: %v, want ErrStopped", err)
	}
	awaitHandled(t, r)
	if _, err := actor.Adapt(r, func(int) job { return nil }).MarshalText(); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("encoding an adapted reference: %v, want Invalid", err)
	}
}

func TestStashKeepsQuestionsAndOrder(t *testing.T) {
	type message struct {
		n     int
		reply actor.Reply[int]
	}
	node := open(t)
	var got []int
	ready := false
	r := spawn(t, node, func(c *actor.Context[message], m message) error {
		switch {
		case m.n == 0:
			ready = true
			c.Unstash()
			return nil
		case !ready:
			return c.Stash(m)
		}
		got = append(got, m.n)
		return m.reply.Send(m.n * 10)
	}, nil)
	answers := make(chan int)
	go func() {
		v, err := actor.Ask(t.Context(), r, func(p actor.Reply[int]) message { return message{1, p} })
		if err != nil {
			t.Error(err)
		}
		answers <- v
	}()
	testkit.Eventually(t, "one message to be handled", func() bool { i, err := node.Inspect(r.Address()); return err == nil && i.Handled == 1 })
	send(t, r, message{n: 2}, message{n: 0}, message{n: 3})
	r.Drain()
	if v := <-answers; v != 10 {
		t.Errorf("answer %d, want 10", v)
	}
	wait(t, r)
	if !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("handled %v, want 1, 2, 3", got)
	}
}

func TestBecome(t *testing.T) {
	node := open(t)
	var got []string
	loud := actor.Func[string](func(c *actor.Context[string], m string) error {
		got = append(got, m+"!")
		c.Unbecome()
		return nil
	})
	r := spawn(t, node, func(c *actor.Context[string], m string) error {
		got = append(got, m)
		c.Become(loud)
		return nil
	}, nil)
	send(t, r, "a", "b", "c")
	r.Drain()
	wait(t, r)
	if fmt.Sprint(got) != "[a b! c]" {
		t.Errorf("got %v", got)
	}
}

func TestIdleActorIsPassivated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		begin := time.Now()
		r := worker(t, node, &actor.Options{Idle: time.Minute})
		for range 3 {
			time.Sleep(40 * time.Second)
			awaitHandled(t, r)
		}
		if reason := wait(t, r); reason != actor.Passivated {
			t.Errorf("reason %v, want passivated", reason)
		}
		if took := time.Since(begin); took != 3*time.Minute {
			t.Errorf("passivated after %s, want 3m: a minute after the last message", took)
		}
		if err := r.Send(t.Context(), nil); !errors.Is(err, actor.ErrStopped) {
			t.Errorf("Send: %v", err)
		}
	})
}

func TestTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		begin := time.Now()
		var got []string
		r := spawn(t, node, func(_ *actor.Context[string], m string) error {
			got = append(got, fmt.Sprint(m, time.Since(begin)))
			return nil
		}, nil)
		r.SendAfter(time.Second, "once")
		if never := r.SendAfter(time.Second, "never"); !never.Stop() || never.Stop() {
			t.Error("Stop: want true once")
		}
		every := r.SendEvery(2*time.Second, "every")
		time.Sleep(7 * time.Second)
		every.Stop()
		time.Sleep(time.Minute)
		r.Drain()
		wait(t, r)
		if want := "[once1s every2s every4s every6s]"; fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
	})
}

func TestTimersOfAnActorEndWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		n := 0
		r := worker(t, node, nil)
		send(t, r, func(c *actor.Context[job]) error {
			var tick *actor.Timer
			tick = c.Every(time.Second, func() error {
				if n++; n == 3 {
					tick.Stop()
				}
				return nil
			})
			c.After(10*time.Second, func() error { c.Stop(nil); return nil })
			c.Every(4*time.Second, func() error { n += 100; return nil })
			return nil
		})
		if reason := wait(t, r); reason != actor.Normal {
			t.Errorf("reason %v", reason)
		}
		time.Sleep(time.Minute)
		if n != 203 {
			t.Errorf("n = %d, want 3 ticks and 2 of the others", n)
		}
	})
}

type slowStop struct{ handled int }

func (s *slowStop) Receive(*actor.Context[int], int) error { s.handled++; return nil }
func (s *slowStop) Stop(*actor.Context[int], error)        { <-time.After(time.Minute) }

// A message that is sent to an actor while it passivates is refused. If it were accepted and became
// a dead letter, Send would have returned nil for it.
func TestPassivatingActorTakesNoMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		s := &slowStop{}
		r, err := actor.Spawn(node, actor.Actor[int](s), &actor.Options{Idle: time.Minute, Grace: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Second)
		for _, p := range []actor.Priority{actor.User, actor.Urgent} {
			if err := r.SendPriority(t.Context(), p, 1); !errors.Is(err, actor.ErrStopped) {
				t.Errorf("Send at priority %s while it stops: %v, want ErrStopped", p, err)
			}
		}
		wait(t, r)
		if s.handled != 0 || node.DeadLetters() != 2 {
			t.Errorf("%d handled, %d dead letters: want 0, 2", s.handled, node.DeadLetters())
		}
	})
}
