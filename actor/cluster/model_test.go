package cluster_test

import (
	"errors"
	"flag"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

var soak = flag.Duration("soak", time.Second, "how long the random program runs")

// Mark is the n-th message of a sender to a receiver.
type Mark struct {
	From, N int
	Reply   actor.Reply[int]
}

// receiver checks that the messages of each sender come once and in order.
type receiver struct {
	t    testing.TB
	last map[int]int
	got  *atomic.Int64
}

func (r *receiver) Receive(_ *actor.Context[Mark], m Mark) error {
	if want := r.last[m.From] + 1; m.N != want {
		r.t.Errorf("message %d of sender %d: want %d", m.N, m.From, want)
	}
	r.last[m.From] = m.N
	r.got.Add(1)
	return m.Reply.Send(m.N)
}

// A random program of sends, questions, monitors and ends, while connections are cut
// again and again: each message arrives once and in order, each question is
// answered, each monitor reports once.
func TestRandomProgramWithCutConnections(t *testing.T) {
	for name, secure := range map[string]bool{"plain": false, "tls": true} {
		t.Run(name, func(t *testing.T) {
			o := plain(t)
			o.Plain = !secure
			if secure {
				o.Secret = nil
			}
			o.Connections = 2
			b := join(t, "b", o)
			p := newProxy(t, b.Addr())
			a := join(t, "a", hidden(o))
			a.peers["b"] = p.addr()
			for _, m := range []*member{a, b} {
				if err := m.Register("mark", Mark{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := a.Connect(t.Context(), "b"); err != nil {
				t.Fatal(err)
			}
			randomProgram(t, a, b, p)
			if n := a.Malformed() + b.Malformed(); n != 0 {
				t.Errorf("%d frames were refused", n)
			}
		})
	}
}

func randomProgram(t *testing.T, a, b *member, p *proxy) {
	const senders, receivers = 4, 3
	end := time.Now().Add(*soak)
	var got, sent atomic.Int64
	var far []actor.Ref[Mark]
	for range receivers {
		r, err := actor.Spawn(b.node, &receiver{t, map[int]int{}, &got}, nil)
		if err != nil {
			t.Fatal(err)
		}
		far = append(far, seen(t, a, r))
	}
	var running sync.WaitGroup
	for from := range senders {
		running.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(from), 1))
			w := worker(t, a, nil)
			n := make([]int, receivers)
			for time.Now().Before(end) {
				do(t, w, func(c *actor.Context[job]) error {
					for range rnd.IntN(200) {
						to := rnd.IntN(receivers)
						n[to]++
						sent.Add(1)
						if rnd.IntN(50) > 0 {
							if err := far[to].Send(c, Mark{From: from, N: n[to]}); err != nil {
								t.Error(err)
							}
							continue
						}
						v, err := actor.Ask(c, far[to], func(r actor.Reply[int]) Mark { return Mark{from, n[to], r} })
						if v != n[to] || err != nil {
							t.Errorf("answer %d, %v: want %d", v, err, n[to])
						}
					}
					return nil
				})
			}
		})
	}
	running.Go(func() { endings(t, a, b, end) })
	for rnd := rand.New(rand.NewPCG(7, 7)); time.Now().Before(end); {
		select {
		case <-time.After(time.Duration(rnd.IntN(60)) * time.Millisecond):
			p.cut(false)
		case <-t.Context().Done():
		}
	}
	running.Wait()
	testkit.Eventually(t, "all messages to arrive", func() bool { return got.Load() == sent.Load() })
	t.Logf("%d messages", got.Load())
}

// endings spawns actors, monitors and links them from the other node, and ends them
// in one way or another.
func endings(t *testing.T, a, b *member, end time.Time) {
	rnd := rand.New(rand.NewPCG(9, 9))
	var reported []*reasons
	var want []error
	for time.Now().Before(end) {
		here := worker(t, b, nil)
		far := seen(t, a, here)
		w, r := watching(t, a, far)
		var exits reasons
		do(t, w, func(c *actor.Context[job]) error {
			c.TrapExit(func(e actor.Exit) error { exits.add(e.Reason); return nil })
			c.Link(far)
			return nil
		})
		reason := actor.Shutdown
		switch rnd.IntN(3) {
		case 0:
			far.Stop()
		case 1:
			far.Kill()
			reason = actor.Killed
		case 2:
			far.Drain()
		}
		reported, want = append(reported, r, &exits), append(want, reason, reason)
	}
	for i, r := range reported {
		testkit.Eventually(t, "a reason", func() bool { return len(r.get()) > 0 })
		// A second report would come soon after the first.
		if all := r.get(); len(all) != 1 || !errors.Is(all[0], want[i]) && !errors.Is(all[0], actor.Missing) {
			t.Errorf("told %v, want %v once", all, want[i])
		}
	}
	for _, r := range reported {
		if all := r.get(); len(all) != 1 {
			t.Errorf("told %v", all)
		}
	}
	t.Logf("%d ends", len(reported)/2)
}
