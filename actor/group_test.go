package actor_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
)

func group[M any](t testing.TB, n *actor.Node, name string) *actor.Group[M] {
	t.Helper()
	g, err := actor.GroupOf[M](n, name)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGroupReachesMembersOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		g := group[string](t, node, "waiters")
		if again := group[string](t, node, "waiters"); again != g {
			t.Error("the same name is another group")
		}
		if _, err := actor.GroupOf[int](node, "waiters"); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("GroupOf with other messages: %v, want Invalid", err)
		}
		got := make([][]string, 3)
		var refs []actor.Ref[string]
		for i := range got {
			r := spawn(t, node, func(_ *actor.Context[string], m string) error {
				got[i] = append(got[i], m)
				return nil
			}, nil)
			refs = append(refs, r)
			if err := errors.Join(g.Join(r), g.Join(r)); err != nil {
				t.Fatal(err)
			}
		}
		say := func(m string, want int) {
			if n, err := g.Broadcast(t.Context(), m); err != nil || n != want {
				t.Errorf("Broadcast %s: %d, %v, want %d", m, n, err, want)
			}
			synctest.Wait()
		}
		say("all", 3)
		if !g.Leave(refs[0]) || g.Leave(refs[0]) || g.Has(refs[0]) || !g.Has(refs[1]) {
			t.Error("Leave: want true once, and the others still members")
		}
		say("two", 2)
		refs[1].Stop()
		wait(t, refs[1])
		synctest.Wait()
		if m := g.Members(); !slices.Equal(m, refs[2:]) {
			t.Errorf("members %v, want only %v", m, refs[2])
		}
		say("one", 1)
		if err := g.Join(refs[1]); !errors.Is(err, actor.ErrStopped) {
			t.Errorf("Join of a stopped actor: %v", err)
		}
		want := [][]string{{"all"}, {"all", "two"}, {"all", "two", "one"}}
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("got %v, want %v", got, want)
		}
		if node.DeadLetters() != 0 {
			t.Errorf("%d dead letters", node.DeadLetters())
		}
	})
}

func TestGroupMemberStaysOneOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		got := 0
		sup, err := actor.Supervise(node, nil, actor.NewChild("x", func() actor.Func[job] {
			return func(c *actor.Context[job], m job) error { got++; return m(c) }
		}, nil))
		if err != nil {
			t.Fatal(err)
		}
		r, err := actor.ChildRef[job](t.Context(), sup, "x")
		if err != nil {
			t.Fatal(err)
		}
		g := group[job](t, node, "")
		if err := g.Join(r); err != nil {
			t.Fatal(err)
		}
		for _, m := range []job{
			func(*actor.Context[job]) error { return errors.New("crash") },
			func(*actor.Context[job]) error { return nil },
		} {
			if n, err := g.Broadcast(t.Context(), m); n != 1 || err != nil {
				t.Errorf("Broadcast: %d, %v", n, err)
			}
			synctest.Wait()
		}
		if got != 2 {
			t.Errorf("%d messages arrived, want 2", got)
		}
	})
}

func TestGroupOfAnotherNodeIsAnother(t *testing.T) {
	one, two := open(t), open(t)
	g := group[job](t, one, "g")
	if err := g.Join(worker(t, two, nil)); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("Join from another node: %v, want Invalid", err)
	}
	if !actor.DropGroup(one, "g") || actor.DropGroup(one, "g") {
		t.Error("DropGroup: want true once")
	}
	if group[job](t, one, "g") == g {
		t.Error("a dropped group was found again")
	}
}

// Members come and go while others broadcast: each gets every message that was
// sent while it was a member, in order.
func TestGroupUnderChange(t *testing.T) {
	node := open(t)
	g := group[int](t, node, "")
	const stable, rounds = 50, 200
	var wg sync.WaitGroup
	wg.Add(stable * rounds)
	for range stable {
		last := 0
		r := spawn(t, node, func(_ *actor.Context[int], m int) error {
			if m != last+1 {
				t.Errorf("got %d after %d", m, last)
			}
			last = m
			wg.Done()
			return nil
		}, nil)
		if err := g.Join(r); err != nil {
			t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	var changers sync.WaitGroup
	for range 2 {
		changers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r := spawn(t, node, func(*actor.Context[int], int) error { return nil }, nil)
				if err := g.Join(r); err != nil {
					t.Error(err)
				}
				_ = g.Members()
				if !g.Leave(r) {
					t.Error("it was no member")
				}
				r.Stop()
			}
		})
	}
	for m := range rounds {
		if _, err := g.Broadcast(t.Context(), m+1); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	close(stop)
	changers.Wait()
	if n := g.Len(); n != stable {
		t.Errorf("%d members, want %d", n, stable)
	}
}
