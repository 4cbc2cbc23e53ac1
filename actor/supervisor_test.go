package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

var errCrash = errors.New("crash")

func crash(*actor.Context[job]) error { return errCrash }

// stage records the starts, stops and messages of its actors, in order.
type stage struct {
	mu    sync.Mutex
	notes []string
	fail  map[string]int // how many times the Start of a name still fails
}

func (s *stage) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// take returns the records since the last call.
func (s *stage) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	notes := strings.Join(s.notes, " ")
	s.notes = nil
	return notes
}

// player is an actor of a stage.
type player struct {
	name  string
	stage *stage
	up    bool // Start succeeded
}

func (p *player) Receive(c *actor.Context[job], m job) error { return m(c) }

func (p *player) Start(*actor.Context[job]) error {
	p.stage.mu.Lock()
	failing := p.stage.fail[p.name] > 0
	p.stage.fail[p.name]--
	p.stage.mu.Unlock()
	if failing {
		p.stage.note("!%s", p.name)
		return errCrash
	}
	p.stage.note("+%s", p.name)
	p.up = true
	return nil
}

func (p *player) Stop(*actor.Context[job], error) {
	if p.up {
		p.stage.note("-%s", p.name)
	}
}

func newStage() *stage { return &stage{fail: make(map[string]int)} }

func (s *stage) child(name string, o *actor.ChildOptions) actor.Child {
	return actor.NewChild(name, func() *player { return &player{name: name, stage: s} }, o)
}

func (s *stage) children(o *actor.ChildOptions, names ...string) []actor.Child {
	var all []actor.Child
	for _, n := range names {
		all = append(all, s.child(n, o))
	}
	return all
}

func supervise(t testing.TB, n actor.Spawner, o *actor.SupervisorOptions, children ...actor.Child) actor.Supervisor {
	t.Helper()
	s, err := actor.Supervise(n, o, children...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func childRef(t testing.TB, s actor.Supervisor, name string) actor.Ref[job] {
	t.Helper()
	r, err := actor.ChildRef[job](t.Context(), s, name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// states returns the children as "name:state".
func states(t testing.TB, s actor.Supervisor) string {
	t.Helper()
	infos, err := s.Children(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, i := range infos {
		all = append(all, i.Name+":"+i.State)
	}
	return strings.Join(all, " ")
}

func TestStrategies(t *testing.T) {
	for _, c := range []struct {
		strategy actor.Strategy
		want     string
	}{
		{actor.OneForOne, "-c +c"},
		{actor.AllForOne, "-c -d -b -a +a +b +c +d"},
		{actor.RestForOne, "-c -d +c +d"},
	} {
		synctest.Test(t, func(t *testing.T) {
			st := newStage()
			node := open(t)
			s := supervise(t, node, &actor.SupervisorOptions{Strategy: c.strategy}, st.children(nil, "a", "b", "c", "d")...)
			if got := st.take(); got != "+a +b +c +d" {
				t.Errorf("start: %s", got)
			}
			refs := childRef(t, s, "d")
			send(t, childRef(t, s, "c"), crash)
			synctest.Wait()
			if got := st.take(); got != c.want {
				t.Errorf("strategy %d: %s, want %s", c.strategy, got, c.want)
			}
			if childRef(t, s, "d") != refs {
				t.Error("the reference of a child changed")
			}
			awaitHandled(t, refs)
			s.Ref().Stop()
			wait(t, s.Ref())
			if got := st.take(); got != "-d -c -b -a" {
				t.Errorf("stop: %s, want the reverse order", got)
			}
		})
	}
}

func TestRestartTypes(t *testing.T) {
	normal := func(c *actor.Context[job]) error { c.Stop(nil); return nil }
	for _, c := range []struct {
		restart actor.Restart
		end     job
		want    string
		states  string
	}{
		{actor.Permanent, crash, "-a +a", "a:running"},
		{actor.Permanent, normal, "-a +a", "a:running"},
		{actor.Transient, crash, "-a +a", "a:running"},
		{actor.Transient, normal, "-a", "a:ended"},
		{actor.Temporary, crash, "-a", ""},
		{actor.Temporary, normal, "-a", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			st := newStage()
			s := supervise(t, open(t), nil, st.child("a", &actor.ChildOptions{Restart: c.restart}))
			st.take()
			send(t, childRef(t, s, "a"), c.end)
			synctest.Wait()
			if got, is := st.take(), states(t, s); got != c.want || is != c.states {
				t.Errorf("restart %d: %q, %q: want %q, %q", c.restart, got, is, c.want, c.states)
			}
		})
	}
}

func TestMailboxOutlivesARestart(t *testing.T) {
	for _, drop := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			node := open(t)
			var got []int
			incarnation := 0
			o := &actor.ChildOptions{Options: actor.Options{DropMailbox: drop}}
			s := supervise(t, node, nil, actor.NewChild("a", func() actor.Func[int] {
				return func(c *actor.Context[int], m int) error {
					switch {
					case m%10 == 0 && m < 100:
						return fmt.Errorf("poison %d", m)
					case m == 5:
						return c.Stash(m)
					}
					incarnation = c.Incarnation()
					got = append(got, m)
					return nil
				}
			}, o))
			r, err := actor.ChildRef[int](t.Context(), s, "a")
			if err != nil {
				t.Fatal(err)
			}
			for m := 1; m <= 35; m++ {
				send(t, r, m)
			}
			synctest.Wait()
			send(t, r, 101)
			synctest.Wait()
			if got[len(got)-1] != 101 {
				t.Errorf("the actor does not go on: %v", got)
			}
			if drop {
				return
			}
			// The stashed message comes first after the restart, and is stashed again each time.
			var want []int
			for m := 1; m <= 35; m++ {
				if m%10 != 0 && m != 5 {
					want = append(want, m)
				}
			}
			if !slices.Equal(got, append(want, 101)) || incarnation != 4 {
				t.Errorf("incarnation %d handled %v, want %v in 4", incarnation, got, want)
			}
			if n := node.DeadLetters(); n != 0 {
				t.Errorf("%d dead letters", n)
			}
		})
	}
}

func TestTooManyRestartsEndTheSupervisor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage()
		o := &actor.SupervisorOptions{Limit: actor.Limit{Intensity: 2, Window: time.Second}}
		s := supervise(t, open(t), o, st.children(nil, "a", "b")...)
		a := childRef(t, s, "a")
		for range 5 { // slow enough
			send(t, a, crash)
			time.Sleep(600 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		reason := endedBy(t, s.Ref(), func() {
			for range 3 {
				send(t, a, crash)
			}
		})
		if !errors.Is(reason, actor.Exceeded) || !errors.Is(reason, errCrash) || !strings.Contains(reason.Error(), "child a") {
			t.Errorf("reason %v, want Exceeded with the child and its reason", reason)
		}
		if got := st.take(); !strings.HasSuffix(got, "-a -b") {
			t.Errorf("%s: want all children stopped", got)
		}
		if err := a.Send(t.Context(), nil); !errors.Is(err, actor.ErrStopped) {
			t.Errorf("Send to a child: %v, want ErrStopped", err)
		}
	})
}

func TestChildWithItsOwnLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage()
		own := &actor.ChildOptions{Limit: actor.Limit{Intensity: 1}, Exceed: actor.DisableChild}
		s := supervise(t, open(t), &actor.SupervisorOptions{Limit: actor.Limit{Intensity: -1}},
			st.child("a", own), st.child("b", nil))
		a := childRef(t, s, "a")
		send(t, a, crash, crash)
		synctest.Wait()
		if is := states(t, s); is != "a:disabled b:running" {
			t.Fatalf("states %s", is)
		}
		if _, err := actor.ChildRef[job](t.Context(), s, "a"); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("ChildRef of a disabled child: %v, want NotFound", err)
		}
		if err := s.Enable(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		awaitHandled(t, childRef(t, s, "a"))
		if err := s.Disable(t.Context(), "b"); err != nil || states(t, s) != "a:running b:disabled" {
			t.Errorf("Disable: %v, %s", err, states(t, s))
		}
		if err := s.Remove(t.Context(), "a"); err != nil || states(t, s) != "b:disabled" {
			t.Errorf("Remove: %v, %s", err, states(t, s))
		}
		if err := s.Remove(t.Context(), "a"); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("Remove again: %v, want NotFound", err)
		}
		if err := s.Start(t.Context(), st.child("b", nil)); !errors.Is(err, mainstem.ErrExists) {
			t.Errorf("Start: %v, want Exists", err)
		}
		if err := s.Start(t.Context(), st.child("c", nil)); err != nil || states(t, s) != "b:disabled c:running" {
			t.Errorf("Start: %v, %s", err, states(t, s))
		}
	})
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage()
		o := &actor.SupervisorOptions{
			Limit:   actor.Limit{Intensity: 100, Window: time.Hour},
			Backoff: actor.Backoff{Min: time.Second, Max: 5 * time.Second},
		}
		s := supervise(t, open(t), o, st.child("a", nil))
		a := childRef(t, s, "a")
		begin := time.Now()
		var waits []time.Duration
		for range 80 {
			send(t, a, crash)
			synctest.Wait()
			if is := states(t, s); is != "a:delayed" {
				t.Fatalf("states %s", is)
			}
			awaitHandled(t, a) // the message waits for the restart
			waits = append(waits, time.Since(begin))
			begin = time.Now()
		}
		if got := fmt.Sprint(waits[:5]); got != "[1s 2s 4s 5s 5s]" || waits[79] != 5*time.Second {
			t.Errorf("restarted after %s", waits)
		}
		send(t, a, crash)
		synctest.Wait()
		s.Ref().Stop()
		wait(t, s.Ref())
	})
}

func TestRestartThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage()
		s := supervise(t, open(t), &actor.SupervisorOptions{Strategy: actor.AllForOne},
			st.child("a", nil), st.child("b", nil), st.child("c", &actor.ChildOptions{Restart: actor.Transient}))
		st.take()
		st.fail["b"] = 2
		send(t, childRef(t, s, "a"), crash)
		synctest.Wait()
		if got, want := st.take(), "-a -c -b +a !b -a +a !b -a +a +b +c"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if is := states(t, s); is != "a:running b:running c:running" {
			t.Errorf("states %s", is)
		}
	})
}

func TestStartThatFailsStopsTheOthers(t *testing.T) {
	st := newStage()
	st.fail["c"] = 1
	node := open(t)
	_, err := actor.Supervise(node, nil, st.children(nil, "a", "b", "c")...)
	if err != errCrash || st.take() != "+a +b !c -b -a" || node.Len() != 0 {
		t.Errorf("Supervise: %v, %d actors left", err, node.Len())
	}
}

func TestSignificantChildren(t *testing.T) {
	for _, c := range []struct {
		auto actor.AutoStop
		ends []string
	}{
		{actor.AnySignificant, []string{"x", "a"}},
		{actor.AllSignificant, []string{"x", "a", "b"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			st := newStage()
			node := open(t)
			significant := &actor.ChildOptions{Restart: actor.Transient, Significant: true}
			s := supervise(t, node, &actor.SupervisorOptions{AutoStop: c.auto},
				st.child("x", &actor.ChildOptions{Restart: actor.Transient}), st.child("a", significant), st.child("b", significant))
			for _, name := range c.ends {
				if node.Len() == 0 {
					t.Fatalf("the supervisor stopped before %s", name)
				}
				childRef(t, s, name).Stop()
				synctest.Wait()
			}
			if node.Len() != 0 {
				t.Errorf("AutoStop %d: %d actors left after %v", c.auto, node.Len(), c.ends)
			}
		})
	}
}

// A call that was given up shares no variable with the supervisor, which still makes it later: the
// race detector would say so.
func TestCallsThatAreGivenUp(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, s actor.Supervisor) (none bool, err error){
		"Children": func(ctx context.Context, s actor.Supervisor) (bool, error) {
			infos, err := s.Children(ctx)
			return infos == nil, err
		},
		"ChildRef": func(ctx context.Context, s actor.Supervisor) (bool, error) {
			ref, err := actor.ChildRef[job](ctx, s, "a")
			return ref.IsZero(), err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := supervise(t, open(t), nil, newStage().child("a", nil))
			go func() {
				slow := actor.NewChild("slow", func() actor.Func[job] { time.Sleep(time.Hour); return do }, nil)
				if err := s.Start(t.Context(), slow); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if none, err := call(ctx, s); !none || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: a result: %v, error %v, want none and a deadline", name, !none, err)
			}
			time.Sleep(2 * time.Hour) // the supervisor makes the call now
		})
	}
}

func TestDynamicSupervisor(t *testing.T) {
	node := open(t)
	s := supervise(t, node, &actor.SupervisorOptions{Strategy: actor.Dynamic, Limit: actor.Limit{Intensity: 1000}})
	var wg sync.WaitGroup
	refs := make([]actor.Ref[job], 500)
	for i := range refs {
		wg.Go(func() {
			r, err := actor.StartChild(t.Context(), s, func() actor.Func[job] { return do },
				&actor.ChildOptions{Restart: actor.Restart(i % 3)})
			if err != nil {
				t.Error(err)
			}
			refs[i] = r
		})
	}
	wg.Wait()
	for _, r := range refs {
		send(t, r, crash)
	}
	for i, r := range refs {
		if actor.Restart(i%3) != actor.Temporary {
			awaitHandled(t, r)
		}
	}
	testkit.Eventually(t, "334 children to be left", func() bool { all, err := s.Children(t.Context()); return err == nil && len(all) == 334 })
	s.Ref().Stop()
	wait(t, s.Ref())
	testkit.Eventually(t, "all actors to end", func() bool { return node.Len() == 0 })
}

func TestSupervisorsOfSupervisors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage()
		node := open(t)
		inner := &actor.SupervisorOptions{Name: "inner", Limit: actor.Limit{Intensity: 1}}
		s := supervise(t, node, nil, st.child("a", nil), actor.NewSupervisor("sub", inner, nil, st.children(nil, "x", "y")...))
		find := func() actor.Supervisor {
			sub, err := actor.ChildSupervisor(t.Context(), s, "sub")
			if err != nil {
				t.Fatal(err)
			}
			return sub
		}
		x := childRef(t, find(), "x")
		send(t, x, crash, crash)
		synctest.Wait()
		if got, want := st.take(), "+a +x +y -x +x -x -y +x +y"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		awaitHandled(t, childRef(t, find(), "x"))
		s.Ref().Stop()
		wait(t, s.Ref())
		if got := st.take(); got != "-y -x -a" {
			t.Errorf("stop: %s", got)
		}
	})
}

func TestStuckChildIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage()
		s := supervise(t, open(t), &actor.SupervisorOptions{Strategy: actor.AllForOne}, st.children(nil, "a", "b")...)
		let := make(chan struct{})
		old := childRef(t, s, "b")
		send(t, old, func(*actor.Context[job]) error { <-let; return nil })
		synctest.Wait()
		send(t, childRef(t, s, "a"), crash)
		time.Sleep(actor.DefaultGrace)
		synctest.Wait()
		if b := childRef(t, s, "b"); b == old {
			t.Error("the stuck child was not replaced")
		}
		close(let)
		synctest.Wait()
		if err := old.Send(t.Context(), nil); !errors.Is(err, actor.ErrStopped) {
			t.Errorf("Send to the old child: %v, want ErrStopped", err)
		}
	})
}

func TestSuperviseRefusesWhatCannotBe(t *testing.T) {
	node, st := open(t), newStage()
	for i, f := range []func() error{
		func() error { _, err := actor.Supervise(node, nil, st.children(nil, "a", "a")...); return err },
		func() error { _, err := actor.Supervise(node, nil, actor.Child{}); return err },
		func() error { _, err := actor.Supervise(node, nil, st.child("", nil)); return err },
		func() error {
			_, err := actor.Supervise(node, &actor.SupervisorOptions{Strategy: actor.Dynamic}, st.child("a", nil))
			return err
		},
		func() error {
			_, err := actor.Supervise(node, &actor.SupervisorOptions{Backoff: actor.Backoff{Min: 2, Max: 1}})
			return err
		},
		func() error {
			_, err := actor.Supervise(node, nil, st.child("a", &actor.ChildOptions{Restart: 7}))
			return err
		},
		func() error {
			_, err := actor.Supervise(node, &actor.SupervisorOptions{Limit: actor.Limit{Window: -1}})
			return err
		},
		func() error {
			_, err := actor.Supervise(node, nil, st.child("a", &actor.ChildOptions{Limit: actor.Limit{Window: -1}}))
			return err
		},
	} {
		if err := f(); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("case %d: %v, want Invalid", i, err)
		}
	}
	s := supervise(t, node, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Children(ctx); err != nil && !errors.Is(err, mainstem.ErrCanceled) {
		t.Errorf("Children: %v", err)
	}
}
