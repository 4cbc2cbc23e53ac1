package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
)

// gate is an actor that records messages and blocks in the first one until the test lets it go on.
type gate struct {
	ref  actor.Ref[int]
	let  chan struct{}
	got  []int
	node *actor.Node
}

func newGate(t testing.TB, node *actor.Node, o *actor.Options) *gate {
	t.Helper()
	g := &gate{let: make(chan struct{}), node: node}
	in := make(chan struct{}, 1)
	g.ref = spawn(t, node, func(_ *actor.Context[int], m int) error {
		if m == 0 {
			in <- struct{}{}
			<-g.let
			return nil
		}
		g.got = append(g.got, m)
		return nil
	}, o)
	send(t, g.ref, 0)
	<-in
	return g
}

func (g *gate) open(t testing.TB) []int {
	t.Helper()
	close(g.let)
	g.ref.Drain()
	wait(t, g.ref)
	return g.got
}

func TestOverflow(t *testing.T) {
	for _, c := range []struct {
		policy actor.Overflow
		got    []int
		other  []int
		dead   uint64
		err    error
	}{
		{actor.Reject, []int{1, 2}, nil, 2, actor.ErrMailboxFull},
		{actor.DropNewest, []int{1, 2}, nil, 2, nil},
		{actor.DropOldest, []int{3, 4}, nil, 2, nil},
		{actor.Divert, []int{1, 2}, []int{3, 4}, 0, nil},
	} {
		t.Run(fmt.Sprint(c.policy), func(t *testing.T) {
			node := open(t)
			var other []int
			fallback := spawn(t, node, func(_ *actor.Context[int], m int) error {
				other = append(other, m)
				return nil
			}, nil)
			g := newGate(t, node, &actor.Options{Mailbox: 2, Overflow: c.policy, Fallback: fallback})
			send(t, g.ref, 1, 2)
			for _, m := range []int{3, 4} {
				if err := g.ref.Send(t.Context(), m); !errors.Is(err, c.err) || err != nil && !errors.Is(err, mainstem.ErrUnavailable) {
					t.Errorf("Send: %v, want %v", err, c.err)
				}
			}
			if got := g.open(t); !slices.Equal(got, c.got) {
				t.Errorf("got %v, want %v", got, c.got)
			}
			fallback.Drain()
			wait(t, fallback)
			if !slices.Equal(other, c.other) || node.DeadLetters() != c.dead {
				t.Errorf("fallback got %v, %d dead letters: want %v, %d", other, node.DeadLetters(), c.other, c.dead)
			}
		})
	}
}

// DropOldest drops messages only: not the call of a timer, an answer, or the end of a Drain.
func TestDropOldestKeepsTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		other := spawn(t, node, func(_ *actor.Context[task], m task) error { return m.reply.Send(m.n) }, nil)
		r := worker(t, node, &actor.Options{Mailbox: 2, Overflow: actor.DropOldest})
		hold := make(chan struct{})
		var notes []string
		note := func(s string) job {
			return func(*actor.Context[job]) error { notes = append(notes, s); return nil }
		}
		send(t, r, func(c *actor.Context[job]) error {
			c.After(time.Second, func() error { notes = append(notes, "timer"); return nil })
			actor.AskThen(c, other, 0, func(r actor.Reply[int]) task { return task{7, r} }, func(int, error) error {
				notes = append(notes, "answer")
				return nil
			})
			<-hold
			return nil
		})
		time.Sleep(2 * time.Second)
		send(t, r, note("1"), note("2"))
		r.Drain()
		send(t, r, note("3"))
		close(hold)
		wait(t, r)
		if want := []string{"answer", "timer"}; !slices.Equal(notes, want) {
			t.Errorf("handled %v before the end of the Drain, want %v", notes, want)
		}
		if n := node.DeadLetters(); n != 3 {
			t.Errorf("%d dead letters, want those of 1, 2 and 3", n)
		}
	})
}

func TestSpawnRefusesOptionsThatCannotBe(t *testing.T) {
	node := open(t)
	stranger := spawn(t, node, func(*actor.Context[string], string) error { return nil }, nil)
	for _, o := range []actor.Options{
		{Mailbox: -1}, {Overflow: 9}, {Idle: -1}, {Name: "#1"}, {Name: string(make([]byte, 256))},
		{Mailbox: 1, Overflow: actor.Divert}, {Mailbox: 1, Overflow: actor.Divert, Fallback: stranger},
	} {
		_, err := actor.Spawn(node, actor.Func[int](func(*actor.Context[int], int) error { return nil }), &o)
		if !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%+v: %v, want Invalid", o, err)
		}
	}
	if _, err := actor.Spawn[int](node, nil, nil); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("nil actor: %v, want Invalid", err)
	}
}

func TestBlockedSendersWaitInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		g := newGate(t, node, &actor.Options{Mailbox: 1, Overflow: actor.Block})
		send(t, g.ref, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.ref.Send(ctx, 99); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Send: %v, want DeadlineExceeded", err)
		}
		var wg sync.WaitGroup
		for m := 2; m < 6; m++ {
			wg.Go(func() {
				if err := g.ref.Send(t.Context(), m); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		close(g.let)
		wg.Wait()
		g.ref.Drain()
		wait(t, g.ref)
		if !slices.Equal(g.got, []int{1, 2, 3, 4, 5}) {
			t.Errorf("got %v", g.got)
		}
	})
}

func TestBlockedSendFailsWhenTheActorEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t)
		g := newGate(t, node, &actor.Options{Mailbox: 1, Overflow: actor.Block})
		send(t, g.ref, 1)
		errs := make(chan error, 1)
		go func() { errs <- g.ref.Send(t.Context(), 2) }()
		synctest.Wait()
		g.ref.Stop()
		close(g.let)
		if err := <-errs; !errors.Is(err, actor.ErrStopped) {
			t.Errorf("Send: %v, want ErrStopped", err)
		}
		synctest.Wait()
		if n := node.DeadLetters(); n != 2 {
			t.Errorf("%d dead letters, want the message that waited and the one outside", n)
		}
	})
}

// An actor whose own mailbox is full cannot wait for itself.
func TestSendToSelfNeverBlocks(t *testing.T) {
	node := open(t)
	errs := make(chan error, 1)
	r := spawn(t, node, func(c *actor.Context[int], m int) error {
		if m == 0 {
			errs <- errors.Join(c.Self().Send(c, 1), c.Self().Send(c, 2))
		}
		return nil
	}, &actor.Options{Mailbox: 1, Overflow: actor.Block})
	send(t, r, 0)
	if err := <-errs; !errors.Is(err, actor.ErrMailboxFull) {
		t.Errorf("Send: %v, want ErrMailboxFull", err)
	}
}

// A message above User that comes while its actor becomes idle still wakes it.
func TestExpressMessagesAreNotForgotten(t *testing.T) {
	node := open(t)
	done := make(chan struct{})
	r := spawn(t, node, func(_ *actor.Context[bool], last bool) error {
		if last {
			done <- struct{}{}
		}
		return nil
	}, nil)
	for range 20_000 {
		send(t, r, false)
		if err := r.SendPriority(t.Context(), actor.System, true); err != nil {
			t.Fatal(err)
		}
		<-done
	}
}

// TestMailboxModel sends random messages at random priorities to an actor that is blocked, with a
// mailbox of a random kind, lets it go on, and compares the messages that it handles with a model.
func TestMailboxModel(t *testing.T) {
	node := open(t)
	rapid.Check(t, func(rt *rapid.T) {
		o := actor.Options{
			Mailbox:  rapid.SampledFrom([]int{0, 0, 1, 2, 5, 9}).Draw(rt, "mailbox"),
			Overflow: rapid.SampledFrom([]actor.Overflow{actor.Reject, actor.DropNewest, actor.DropOldest}).Draw(rt, "overflow"),
		}
		g := newGate(t, node, &o)
		var want [3][]int
		sends := rapid.IntRange(1, 700).Draw(rt, "sends")
		for m := 1; m <= sends; m++ {
			p := actor.User
			if m%7 == 0 {
				p = rapid.SampledFrom([]actor.Priority{actor.System, actor.Urgent}).Draw(rt, "priority")
			}
			err := g.ref.SendPriority(t.Context(), p, m)
			full := p == actor.User && o.Mailbox > 0 && len(want[actor.User]) == o.Mailbox
			if refused := full && o.Overflow == actor.Reject; refused != (err != nil) {
				rt.Fatalf("send %d: %v, want refused: %t", m, err, refused)
			}
			switch {
			case !full:
				want[p] = append(want[p], m)
			case o.Overflow == actor.DropOldest:
				want[p] = append(want[p][1:], m)
			}
		}
		if n := waiting(t, node, g.ref); n != len(slices.Concat(want[:]...)) {
			rt.Fatalf("%d messages wait, want %d", n, len(slices.Concat(want[:]...)))
		}
		got := g.open(t)
		if w := slices.Concat(want[actor.Urgent], want[actor.System], want[actor.User]); !slices.Equal(got, w) {
			rt.Fatalf("got %v, want %v", got, w)
		}
	})
}
