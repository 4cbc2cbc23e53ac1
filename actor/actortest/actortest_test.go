package actortest_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/actortest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo passes its messages on, each after a second, and ends at "end".
type echo struct {
	to actor.Ref[string]
}

func (e *echo) Receive(c *actor.Context[string], m string) error {
	if m == "end" {
		return errors.New("ended")
	}
	c.After(time.Second, func() error { return e.to.Send(c, m) })
	return nil
}

func TestProbeKeepsMessagesInOrder(t *testing.T) {
	actortest.Run(t, func(t *testing.T, node *actor.Node) {
		p := actortest.NewProbe[string](t, node)
		e := actortest.Spawn(t, node, &echo{p.Ref()}, nil)
		begin := time.Now()
		say := func(ms ...string) {
			for _, m := range ms {
				actortest.Send(t, e, m)
				actortest.Advance(time.Millisecond)
			}
		}
		say("a", "b", "c", "d")
		p.ExpectNone(995 * time.Millisecond)
		p.Expect("a", "b")
		if got := p.Find(func(s string) bool { return s > "c" }); got != "d" {
			t.Errorf("found %q, want d", got)
		}
		say("e", "f", "g")
		p.ExpectSet("f", "e")
		if got := p.Next(); got != "g" {
			t.Errorf("next is %q, want g", got)
		}
		if took := time.Since(begin); took != 2*time.Second+5*time.Millisecond {
			t.Errorf("it took %s of virtual time, want 2.005s", took)
		}
		say("h", "i")
		actortest.Advance(time.Minute)
		if got := p.All(); !slices.Equal(got, []string{"h", "i"}) {
			t.Errorf("all are %q", got)
		}
	})
}

func TestEndsAndDeadLettersAreSeen(t *testing.T) {
	actortest.Run(t, func(t *testing.T, node *actor.Node) {
		letters := actortest.DeadLetters(t, node)
		p := actortest.NewProbe[string](t, node)
		e := actortest.Spawn(t, node, &echo{p.Ref()}, nil)
		down := actortest.Watch(t, node, e)
		actortest.Send(t, e, "end")
		if d := down.Next(); d.Reason.Error() != "ended" || d.Ref != actor.AnyRef(e) {
			t.Errorf("down %+v", d)
		}
		if err := e.Send(t.Context(), "late"); !errors.Is(err, actor.ErrStopped) {
			t.Errorf("Send: %v, want ErrStopped", err)
		}
		if l := letters.Next(); l.Message != "late" {
			t.Errorf("dead letter %+v", l)
		}
		actortest.ExpectEnd(t, e, actor.Normal) // long ago: for whatever reason
		p.Ref().Stop()
		actortest.ExpectEnd(t, p.Ref(), actor.Shutdown)
		gone := actortest.Watch(t, node, e)
		if d := gone.Next(); d.Reason != actor.Missing {
			t.Errorf("down %+v, want missing", d)
		}
	})
}

type question struct{ reply actor.Reply[int] }

func TestAskAnswers(t *testing.T) {
	node := actortest.Node(t)
	r := actortest.Spawn(t, node, actor.Func[question](func(_ *actor.Context[question], m question) error {
		return m.reply.Send(42)
	}), nil)
	if v := actortest.Ask(t, r, func(r actor.Reply[int]) question { return question{r} }); v != 42 {
		t.Errorf("answer %d", v)
	}
}

// judge is a testing.TB that records the failure of a test instead of failing.
type judge struct {
	testing.TB
	failed string
}

func (j *judge) Helper() {}

func (j *judge) Fatalf(format string, args ...any) {
	j.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failure runs an assertion that must fail and returns its text.
func failure(t *testing.T, f func(t testing.TB)) string {
	j := &judge{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(j)
	}()
	<-done
	return j.failed
}

func TestAssertionsFail(t *testing.T) {
	actortest.Run(t, func(t *testing.T, node *actor.Node) {
		stopped := actortest.Spawn(t, node, actor.Func[string](func(*actor.Context[string], string) error { return nil }), nil)
		stopped.Stop()
		actortest.ExpectEnd(t, stopped, actor.Shutdown)
		alive := actortest.Spawn(t, node, actor.Func[string](func(*actor.Context[string], string) error { return errors.New("own") }), nil)
		for _, c := range []struct {
			name string
			want string
			f    func(t testing.TB, p *actortest.Probe[string])
		}{
			{"next", "nothing came", func(_ testing.TB, p *actortest.Probe[string]) { p.Next(); p.Next(); p.Next() }},
			{"other", "got string a, want string b, number 1 of 2", func(_ testing.TB, p *actortest.Probe[string]) { p.Expect("b", "a") }},
			{"more", "nothing came within 168h0m0s, want string c, number 3 of 3", func(_ testing.TB, p *actortest.Probe[string]) { p.Expect("a", "b", "c") }},
			{"set", "got string b, want one of [string c]", func(_ testing.TB, p *actortest.Probe[string]) { p.ExpectSet("c", "a") }},
			{"larger set", "want also [string c]", func(_ testing.TB, p *actortest.Probe[string]) { p.ExpectSet("c", "b", "a") }},
			{"find", "only [string a, string b]", func(_ testing.TB, p *actortest.Probe[string]) { p.Find(func(s string) bool { return s == "c" }) }},
			{"none", "got [string a", func(_ testing.TB, p *actortest.Probe[string]) { p.ExpectNone(time.Second) }},
			{"send", "send x", func(t testing.TB, _ *actortest.Probe[string]) { actortest.Send(t, stopped, "x") }},
			{"spawn", "nil", func(t testing.TB, _ *actortest.Probe[string]) { actortest.Spawn[string](t, node, nil, nil) }},
			{"end", `"own", want "killed"`, func(t testing.TB, _ *actortest.Probe[string]) {
				_ = alive.SendAfter(time.Second, "go")
				actortest.ExpectEnd(t, alive, actor.Killed)
			}},
		} {
			got := failure(t, func(t testing.TB) {
				p := actortest.NewProbe[string](t, node)
				actortest.Send(t, p.Ref(), "a", "b")
				synctest.Wait()
				c.f(t, p)
			})
			if !strings.Contains(got, c.want) {
				t.Errorf("%s: failed with %q, want %q", c.name, got, c.want)
			}
		}
	})
}
