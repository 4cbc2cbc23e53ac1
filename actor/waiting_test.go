package actor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem/actor"
)

// ender is an actor whose Start returns nil the first time, and then a reason that is no crash.
type ender struct{ starts *int }

func (e *ender) Start(*actor.Context[job]) error {
	*e.starts++
	if *e.starts > 1 {
		return actor.Normal
	}
	return nil
}

func (e *ender) Receive(c *actor.Context[job], m job) error { return m(c) }

// The children that wait for a sibling which failed to start are started without it if it is not
// restarted any more.
func TestSiblingsOfAChildThatIsGivenUpGoOn(t *testing.T) {
	limited := &actor.ChildOptions{Limit: actor.Limit{Intensity: -1}, Exceed: actor.DisableChild}
	slow := &actor.ChildOptions{Backoff: actor.Backoff{Min: time.Hour}}
	for _, c := range []struct {
		name string
		b    func(st *stage) actor.Child
		do   func(t *testing.T, s actor.Supervisor)
		want string
	}{
		{"its limit is exceeded", func(st *stage) actor.Child { return st.child("b", limited) }, nil, "a:running b:disabled c:running d:running"},
		{"it ends normally", func(*stage) actor.Child {
			starts := 0
			return actor.NewChild("b", func() *ender { return &ender{&starts} }, &actor.ChildOptions{Restart: actor.Transient})
		}, nil, "a:running b:ended c:running d:running"},
		{"it is disabled", func(st *stage) actor.Child { return st.child("b", slow) }, func(t *testing.T, s actor.Supervisor) {
			if err := s.Disable(t.Context(), "b"); err != nil {
				t.Fatal(err)
			}
		}, "a:running b:disabled c:running d:running"},
		{"it is removed", func(st *stage) actor.Child { return st.child("b", slow) }, func(t *testing.T, s actor.Supervisor) {
			if err := s.Remove(t.Context(), "b"); err != nil {
				t.Fatal(err)
			}
		}, "a:running c:running d:running"},
	} {
		for _, strategy := range []actor.Strategy{actor.AllForOne, actor.RestForOne} {
			t.Run(c.name+", "+strategy.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					st, node := newStage(), open(t)
					s := supervise(t, node, &actor.SupervisorOptions{Strategy: strategy},
						st.child("a", nil), c.b(st), st.child("c", nil), st.child("d", nil))
					last := childRef(t, s, "d")
					st.fail["b"] = 1
					send(t, childRef(t, s, "a"), crash)
					synctest.Wait()
					if c.do != nil {
						c.do(t, s)
					}
					if is := states(t, s); is != c.want {
						t.Fatalf("states %s, want %s", is, c.want)
					}
					awaitHandled(t, last)
				})
			})
		}
	}
}

// Enable leaves a child alone that waits for the restart of a sibling.
func TestEnableOfAWaitingChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, node := newStage(), open(t)
		s := supervise(t, node, &actor.SupervisorOptions{Strategy: actor.AllForOne},
			st.child("a", nil), st.child("b", &actor.ChildOptions{Backoff: actor.Backoff{Min: time.Minute}}), st.child("c", nil))
		c := childRef(t, s, "c")
		st.fail["b"] = 1
		send(t, childRef(t, s, "a"), crash)
		synctest.Wait()
		if err := s.Enable(t.Context(), "c"); err != nil {
			t.Fatal(err)
		}
		if is := states(t, s); is != "a:running b:delayed c:waiting" {
			t.Errorf("states %s, want that c waits for b", is)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if is := states(t, s); is != "a:running b:running c:running" || childRef(t, s, "c") != c || node.Len() != 4 {
			t.Errorf("states %s, %d actors: want one for each child, and the same c", is, node.Len())
		}
	})
}

// A child that was left behind, and whose sibling failed to start, is started with that sibling.
func TestWaitingChildThatWasLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, node := newStage(), open(t)
		s := supervise(t, node, &actor.SupervisorOptions{Strategy: actor.AllForOne},
			st.child("a", nil), st.child("b", nil), st.child("c", &actor.ChildOptions{Options: actor.Options{Grace: time.Second}}))
		hold := make(chan struct{})
		send(t, childRef(t, s, "c"), func(*actor.Context[job]) error { <-hold; return nil })
		synctest.Wait()
		st.fail["b"] = 1
		send(t, childRef(t, s, "a"), crash)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if is := states(t, s); is != "a:running b:running c:running" {
			t.Errorf("states %s, want all running", is)
		}
		close(hold)
	})
}
