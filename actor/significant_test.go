package actor_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mainstemdev/mainstem/actor"
)

func startChild(t testing.TB, s actor.Supervisor, o *actor.ChildOptions) actor.Ref[job] {
	t.Helper()
	r, err := actor.StartChild(t.Context(), s, func() actor.Func[job] { return do }, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// awaitEnd monitors an actor, in a bubble of synctest, and returns a channel that gets its exit reason.
func awaitEnd(t testing.TB, r actor.AnyRef) <-chan error {
	end := make(chan error, 1)
	go func() {
		reason, err := actor.Wait(t.Context(), r)
		end <- errors.Join(reason, err)
	}()
	synctest.Wait()
	return end
}

// The exit reason of the supervisor names a significant child without a name by its address.
func TestSignificantChildWithoutANameCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, restart := range []actor.Restart{actor.Temporary, actor.Transient} {
			s := supervise(t, open(t), &actor.SupervisorOptions{AutoStop: actor.AnySignificant, Limit: actor.Limit{Intensity: -1}})
			r := startChild(t, s, &actor.ChildOptions{Restart: restart, Significant: true})
			end := awaitEnd(t, s.Ref())
			send(t, r, crash)
			if reason := <-end; !errors.Is(reason, errCrash) || !strings.Contains(reason.Error(), r.String()) {
				t.Errorf("%v: the supervisor ended with %v, want the crash of %s", restart, reason, r)
			}
		}
	})
}

func TestDynamicSupervisorStopsWithItsLastSignificantChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		s := supervise(t, node, &actor.SupervisorOptions{Strategy: actor.Dynamic, AutoStop: actor.AllSignificant})
		significant := &actor.ChildOptions{Restart: actor.Temporary, Significant: true}
		a, b := startChild(t, s, significant), startChild(t, s, significant)
		startChild(t, s, nil)
		a.Stop()
		synctest.Wait()
		if node.Len() != 3 {
			t.Fatalf("%d actors after the first significant end, want the supervisor and 2 children", node.Len())
		}
		b.Stop()
		synctest.Wait()
		if node.Len() != 0 {
			t.Errorf("%d actors after the last significant end, want none", node.Len())
		}
	})
}
