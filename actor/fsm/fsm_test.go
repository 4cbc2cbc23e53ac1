package fsm_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/actortest"
	"github.com/mainstemdev/mainstem/actor/fsm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	table = map[string]fsm.State[string, string]
	state = fsm.State[string, string]
	self  = actor.Context[string]
)

// to returns a Receive that goes where the message says.
func to(_ *self, m string) (string, error) { return m, nil }

func TestStatesAreLeftAndEntered(t *testing.T) {
	actortest.Run(t, func(t *testing.T, node *actor.Node) {
		var got []string
		s := func(name string) state {
			return state{
				Enter:   func(_ *self, from string) error { got = append(got, name+" from "+from); return nil },
				Exit:    func(_ *self, to string) error { got = append(got, name+" to "+to); return nil },
				Receive: to,
			}
		}
		m := &fsm.Machine[string, string]{
			Initial: "a", States: table{"a": s("a"), "b": s("b")},
			Changed: func(_ *self, from, to string) { got = append(got, from+" -> "+to) },
			Stopped: func(_ *self, reason error) { got = append(got, reason.Error()) },
		}
		r := actortest.Spawn(t, node, m, nil)
		actortest.Send(t, r, "a", "b", "b", "a")
		synctest.Wait()
		if show := m.Inspect()["state"]; show != "a" || m.State() != "a" {
			t.Errorf("in state %s, shows %s, want a", m.State(), show)
		}
		r.Stop()
		actortest.ExpectEnd(t, r, actor.Shutdown)
		want := []string{"a from a", "a to b", "b from a", "a -> b", "b to a", "a from b", "b -> a", "shutdown"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

type ask struct {
	open  bool
	reply actor.Reply[string]
}

func TestDeferredQuestionsWaitForTheNextState(t *testing.T) {
	actortest.Run(t, func(t *testing.T, node *actor.Node) {
		m := &fsm.Machine[bool, ask]{States: map[bool]fsm.State[bool, ask]{
			false: {Receive: func(_ *actor.Context[ask], m ask) (bool, error) {
				if !m.open {
					return true, fmt.Errorf("not yet: %w", fsm.ErrDefer)
				}
				return true, nil
			}},
			true: {Receive: func(_ *actor.Context[ask], m ask) (bool, error) {
				return true, m.reply.Send("served")
			}},
		}}
		r := actortest.Spawn(t, node, m, nil)
		r.SendAfter(time.Hour, ask{open: true})
		begin := time.Now()
		got := actortest.Ask(t, r, func(p actor.Reply[string]) ask { return ask{false, p} })
		if took := time.Since(begin); got != "served" || took != time.Hour {
			t.Errorf("answer %q after %s, want served after an hour", got, took)
		}
	})
}

func TestDeferredMessagesKeepTheirOrder(t *testing.T) {
	actortest.Run(t, func(t *testing.T, node *actor.Node) {
		p := actortest.NewProbe[string](t, node)
		m := &fsm.Machine[string, string]{Initial: "closed", States: table{
			"closed": {Timeout: time.Minute, Expired: func(*self) (string, error) { return "open", nil }},
			"open": {Receive: func(c *self, m string) (string, error) {
				return "open", p.Ref().Send(c, m)
			}},
		}}
		r := actortest.Spawn(t, node, m, nil)
		actortest.Send(t, r, "1", "2", "3")
		p.ExpectNone(time.Minute - 1)
		p.Expect("1", "2", "3")
		actortest.Send(t, r, "4")
		p.Expect("4")
	})
}

func TestWhatEndsAMachine(t *testing.T) {
	boom := errors.New("boom")
	fail := func(*self, string) error { return boom }
	for name, c := range map[string]struct {
		next state
		want error
	}{
		"receive": {state{Receive: func(*self, string) (string, error) { return "", boom }}, boom},
		"enter":   {state{Enter: fail}, boom},
		"exit":    {state{Exit: fail, Receive: to}, boom},
		"unknown": {state{Receive: func(*self, string) (string, error) { return "?", nil }}, mainstem.ErrInvalid},
		"expired": {state{Timeout: 1, Expired: func(*self) (string, error) { return "", boom }}, boom},
	} {
		actortest.Run(t, func(t *testing.T, node *actor.Node) {
			m := &fsm.Machine[string, string]{Initial: "a", States: table{"a": {Receive: to}, "next": c.next}}
			r := actortest.Spawn(t, node, m, nil)
			down := actortest.Watch(t, node, r)
			actortest.Send(t, r, "next")
			if err := r.Send(t.Context(), "a"); err != nil && !errors.Is(err, actor.ErrStopped) {
				t.Errorf("%s: send: %v", name, err) // it may have ended on its way in
			}
			if d := down.Next(); !errors.Is(d.Reason, c.want) {
				t.Errorf("%s: ended for %v, want %v", name, d.Reason, c.want)
			}
		})
	}
}

func TestTablesThatCannotWork(t *testing.T) {
	node := actortest.Node(t)
	for name, states := range map[string]table{
		"no initial state":   {"b": {}},
		"nothing on timeout": {"a": {}, "b": {Timeout: 1}},
		"negative timeout":   {"a": {Timeout: -1, Expired: func(*self) (string, error) { return "", nil }}},
	} {
		m := &fsm.Machine[string, string]{Initial: "a", States: states}
		if _, err := actor.Spawn(node, m, nil); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%s: %v, want Invalid", name, err)
		}
	}
}

func TestSetTimeoutReplaces(t *testing.T) {
	actortest.Run(t, func(t *testing.T, node *actor.Node) {
		p := actortest.NewProbe[time.Duration](t, node)
		begin := time.Now()
		var m *fsm.Machine[string, string]
		m = &fsm.Machine[string, string]{Initial: "a", States: table{"a": {
			Timeout: time.Minute,
			Receive: func(c *self, s string) (string, error) {
				d, err := time.ParseDuration(s)
				m.SetTimeout(c, d)
				return "a", err
			},
			Expired: func(c *self) (string, error) { return "a", p.Ref().Send(c, time.Since(begin)) },
		}}}
		r := actortest.Spawn(t, node, m, nil)
		p.Expect(time.Minute)
		p.ExpectNone(time.Hour)
		begin = time.Now()
		actortest.Send(t, r, "3s", "5s")
		p.Expect(5 * time.Second)
		actortest.Send(t, r, "3s", "0s")
		p.ExpectNone(time.Hour)
	})
}

// A machine of three states with timeouts, moved at random: it is always where a
// model of it says, and each timeout comes from the stay that it belongs to.
func TestRandomWalkAgreesWithModel(t *testing.T) {
	limits := []time.Duration{0, 3 * time.Second, 7 * time.Second}
	for seed := range uint64(50) {
		actortest.Run(t, func(t *testing.T, node *actor.Node) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			states := make(map[int]fsm.State[int, int])
			for i, limit := range limits {
				s := fsm.State[int, int]{Receive: func(_ *actor.Context[int], m int) (int, error) { return m, nil }}
				if limit > 0 {
					s.Timeout = limit
					s.Expired = func(*actor.Context[int]) (int, error) { return i - 1, nil }
				}
				states[i] = s
			}
			m := &fsm.Machine[int, int]{States: states}
			r := actortest.Spawn(t, node, m, nil)
			model, entered := 0, time.Now()
			for step := range 100 {
				next := rnd.IntN(3)
				actortest.Send(t, r, next)
				if next != model {
					model, entered = next, time.Now()
				}
				actortest.Advance(time.Duration(rnd.IntN(5000))*time.Millisecond + time.Microsecond)
				for limits[model] > 0 && time.Since(entered) > limits[model] {
					entered = entered.Add(limits[model])
					model--
				}
				if m.State() != model {
					t.Fatalf("seed %d, step %d: in state %d, want %d", seed, step, m.State(), model)
				}
			}
		})
	}
}
