package actor_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// numbered is a message with its number among those of one of several senders.
type numbered struct {
	from, n int
	fatal   bool
}

// victim fails on fatal messages, by an error or a panic.
type victim struct {
	seen    *[4]int // the number of each sender's last message, over all incarnations
	handled *atomic.Int64
	t       *testing.T
}

func (v *victim) Receive(_ *actor.Context[numbered], m numbered) error {
	if m.n != v.seen[m.from]+1 {
		v.t.Errorf("sender %d: message %d after %d", m.from, m.n, v.seen[m.from])
	}
	v.seen[m.from] = m.n
	v.handled.Add(1)
	switch {
	case m.fatal && m.n%2 == 0:
		panic("fatal")
	case m.fatal:
		return errCrash
	}
	return nil
}

// TestOrderHoldsOverRandomCrashes lets several senders write to a supervised actor
// that fails at random: each sender's messages are handled in order, each once,
// over all incarnations.
func TestOrderHoldsOverRandomCrashes(t *testing.T) {
	for _, mailbox := range []int{0, 16} {
		node := open(t)
		var seen [4]int
		var handled atomic.Int64
		o := &actor.ChildOptions{Options: actor.Options{Mailbox: mailbox, Overflow: actor.Block}}
		s := supervise(t, node, &actor.SupervisorOptions{Limit: actor.Limit{Intensity: 1 << 20}},
			actor.NewChild("victim", func() *victim { return &victim{seen: &seen, handled: &handled, t: t} }, o))
		r, err := actor.ChildRef[numbered](t.Context(), s, "victim")
		if err != nil {
			t.Fatal(err)
		}
		const each = 3000
		var wg sync.WaitGroup
		for from := range len(seen) {
			rnd := rand.New(rand.NewPCG(uint64(from), uint64(mailbox)))
			wg.Go(func() {
				for n := 1; n <= each; n++ {
					if err := r.Send(t.Context(), numbered{from, n, rnd.IntN(50) == 0}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		testkit.Eventually(t, "all messages to be handled", func() bool { return handled.Load() == each*int64(len(seen)) })
		if n := node.DeadLetters(); n != 0 {
			t.Errorf("mailbox %d: %d dead letters", mailbox, n)
		}
	}
}

// TestCrowdUnderRandomEnds lets actors start, link, monitor, ask, crash and stop at random, all at
// once. No call hangs, every question is answered, every monitor is called, and at the end no actor
// is left.
func TestCrowdUnderRandomEnds(t *testing.T) {
	node, err := actor.Open("crowd", nil)
	if err != nil {
		t.Fatal(err)
	}
	const crowds, rounds = 8, 150
	var wg sync.WaitGroup
	for crowd := range crowds {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(crowd), 1))
			watcher := worker(t, node, nil)
			defer watcher.Drain()
			var reported atomic.Int64
			for range rounds {
				a, b := worker(t, node, nil), worker(t, node, nil)
				send(t, watcher, func(c *actor.Context[job]) error {
					for _, r := range []actor.Ref[job]{a, b} {
						c.Monitor(r, func(actor.Down) error { reported.Add(1); return nil })
					}
					return nil
				})
				_ = a.Send(t.Context(), func(c *actor.Context[job]) error {
					c.Link(b)
					_, err := actor.Spawn(c, actor.Func[job](do), nil)
					return err
				})
				switch rnd.IntN(5) {
				case 0:
					_ = b.Send(t.Context(), crash)
				case 1:
					a.Stop()
				case 2:
					b.Kill()
				case 3:
					a.Drain()
				case 4:
					_ = a.Send(t.Context(), func(*actor.Context[job]) error { panic("random") })
				}
				_, err := actor.Ask(t.Context(), a, func(r actor.Reply[int]) job {
					return func(*actor.Context[job]) error { return r.Send(1) }
				})
				if err != nil && !errors.Is(err, actor.ErrNoReply) && !errors.Is(err, actor.ErrStopped) {
					t.Error(err)
				}
				a.Kill()
				b.Kill()
			}
			testkit.Eventually(t, "all ends to be reported", func() bool { return reported.Load() == 2*rounds })
		})
	}
	wg.Wait()
	stop(t, node)
	if n := node.Len(); n != 0 {
		t.Errorf("%d actors left", n)
	}
}
