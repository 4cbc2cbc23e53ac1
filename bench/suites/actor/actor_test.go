package actor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
	"github.com/mainstemdev/mainstem/bench/suites/actor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a contender that delivers at once, but for what its fields do to it.
type fake struct {
	sinks  []*actor.Sink
	send   func(s *actor.Sink, n int) // a burst to one sink
	answer func(v int) int
	poke   func(n int, receive func(int))
	say    func(a *actor.Audience, text string)

	audience *actor.Audience
	n        int
	receive  func(int)
}

func (f *fake) Burst(_ context.Context, counts []int) error {
	for i, n := range counts {
		f.send(f.sinks[i], n)
	}
	return nil
}

func (f *fake) Ask(_ context.Context, v int) (int, error) { return f.answer(v), nil }

func (f *fake) Spawn(_ context.Context, n int, receive func(int)) error {
	f.n, f.receive = n, receive
	return nil
}

func (f *fake) Poke(context.Context) error { f.poke(f.n, f.receive); return nil }

func (f *fake) Publish(_ context.Context, text string) error { f.say(f.audience, text); return nil }

func (f *fake) Close() error { return nil }

// factory returns a contender that works, but for what change does to it.
func factory(change func(*fake)) actor.Factory {
	open := func() *fake {
		f := &fake{send: burst, answer: func(v int) int { return v + 1 }, poke: poke, say: say}
		change(f)
		return f
	}
	return actor.Factory{
		Name: "fake",
		Ping: func(_ context.Context, _ bool, sinks []*actor.Sink) (actor.Pinger, error) {
			f := open()
			f.sinks = sinks
			return f, nil
		},
		Ask:   func(context.Context, bool) (actor.Asker, error) { return open(), nil },
		Spawn: func(context.Context) (actor.Population, error) { return open(), nil },
		Publish: func(_ context.Context, a *actor.Audience) (actor.Publisher, error) {
			f := open()
			f.audience = a
			return f, nil
		},
	}
}

func burst(s *actor.Sink, n int) {
	for i := range n {
		s.Receive(actor.Message(i))
	}
}

func poke(n int, receive func(int)) {
	for i := range n {
		receive(i)
	}
}

func say(a *actor.Audience, text string) {
	for i := range a.Nodes {
		for j := range a.Each {
			a.Receive(i, j, text)
		}
	}
}

// run runs what belongs to one workload, a small round of each case, and returns the
// first error.
func run(t *testing.T, f actor.Factory, workload string) error {
	t.Helper()
	cases := 0
	for _, e := range actor.Entries(f) {
		if e.Scale || !strings.HasPrefix(e.Case, workload) {
			continue
		}
		cases++
		if err := runnertest.Try(t, &e, 1, 300); err != nil {
			return err
		}
	}
	if cases == 0 {
		t.Fatal("no case of", workload)
	}
	return nil
}

func TestCheats(t *testing.T) {
	defer actor.SetPatience(20 * time.Millisecond)()
	for _, c := range []struct {
		name, workload string
		change         func(*fake)
	}{
		{"sends nothing", "ping", func(f *fake) { f.send = func(*actor.Sink, int) {} }},
		{"loses one", "ping", func(f *fake) { f.send = func(s *actor.Sink, n int) { burst(s, n-1) } }},
		{"sends one twice", "ping", func(f *fake) { f.send = func(s *actor.Sink, n int) { burst(s, n); s.Receive(0) } }},
		{"sends one twice and loses one", "ping", func(f *fake) { f.send = func(s *actor.Sink, n int) { s.Receive(0); burst(s, n-1) } }},
		{"turns the order round", "ping", func(f *fake) {
			f.send = func(s *actor.Sink, n int) {
				for i := range n {
					s.Receive(actor.Message(n - 1 - i))
				}
			}
		}},
		{"answers without asking", "ask", func(f *fake) { f.answer = func(int) int { return 1 } }},
		{"starts nothing", "memory", func(f *fake) { f.poke = func(int, func(int)) {} }},
		{"starts one for all", "memory", func(f *fake) {
			f.poke = func(n int, receive func(int)) {
				for range n {
					receive(0)
				}
			}
		}},
		{"publishes nothing", "publish", func(f *fake) { f.say = func(*actor.Audience, string) {} }},
		{"publishes what is old", "publish", func(f *fake) { f.say = func(a *actor.Audience, _ string) { say(a, "old") } }},
		{"publishes to one for all", "publish", func(f *fake) {
			f.say = func(a *actor.Audience, text string) {
				for range a.Nodes * a.Each {
					a.Receive(0, 0, text)
				}
			}
		}},
		{"publishes twice", "publish", func(f *fake) { f.say = func(a *actor.Audience, text string) { say(a, text); say(a, text) } }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := run(t, factory(c.change), c.workload); err == nil {
				t.Fatal("was not caught")
			}
		})
	}
}

func TestHonest(t *testing.T) {
	for _, workload := range []string{"ping/local", "ping/network", "ask", "memory", "publish/local", "publish/network"} {
		if err := run(t, factory(func(*fake) {}), workload); err != nil {
			t.Error(workload, err)
		}
	}
}

// A contender takes part where it says, and nowhere else.
func TestPlaces(t *testing.T) {
	f := factory(func(*fake) {})
	f.LocalOnly = true
	for _, e := range actor.Entries(f) {
		if strings.Contains(e.Case, "network") {
			t.Error(e.Case)
		}
	}
	f.LocalOnly, f.NetworkOnly, f.Spawn = false, true, nil
	for _, e := range actor.Entries(f) {
		if strings.Contains(e.Case, "local") {
			t.Error(e.Case)
		}
	}
}
