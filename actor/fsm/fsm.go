// Package fsm implements actors that are state machines, like gen_statem: the function that handles
// a message depends on the present state, and returns the next one.
//
// # Nouns
//
// A [Machine] is an actor that is in one state of type S at a time. Its table has a [State] for
// each: functions for messages, for entering and for leaving the state, and a timeout. The data of
// the machine are where the functions keep them, usually in the struct whose methods they are.
//
//	d := &door{}
//	machine := &fsm.Machine[state, message]{
//		Initial: locked,
//		States: map[state]fsm.State[state, message]{
//			locked: {Receive: d.whenLocked},
//			open:   {Receive: d.whenOpen, Timeout: 5 * time.Second, Expired: d.lock},
//		},
//	}
//	ref, err := actor.Spawn(node, machine, nil)
//
// # Guarantees
//
// All functions are called in the actor's turn, one at a time. When Receive or Expired returns
// another state than the present one, the steps are: the timeout of the old state ends, its Exit is
// called, deferred messages go back to the front of the mailbox, the timeout of the new state
// starts, its Enter is called, then Changed.
//
// A timeout belongs to one stay in a state, like state_timeout: once the state was left, it does
// not expire, even if it was due. Messages that were deferred with [ErrDefer] are handled in the
// next state, in the order in which they came, before all other messages of priority User; this is
// postpone of gen_statem.
//
// # Concurrency and ownership
//
// A Machine is the value of one actor: under a supervisor, each incarnation needs a new one. The
// table must not change once the actor was spawned. Machines may share a table if its functions
// allow that.
//
// # Limits
//
// [actor.MaxStash] deferred messages. A state that is not in the table ends the actor with an
// error.
//
// # Testing
//
// Timeouts are timers of the actor: they run in the virtual time of testing/synctest.
//
//snippet:type state int
//snippet:type message any
//snippet:const locked, open state = 0, 1
//snippet:type door struct{}
//snippet:func (*door) whenLocked(*actor.Context[message], message) (state, error) { return open, nil }
//snippet:func (*door) whenOpen(*actor.Context[message], message) (state, error) { return locked, nil }
//snippet:func (*door) lock(*actor.Context[message]) (state, error) { return locked, nil }
//snippet:var node *actor.Node
package fsm

import (
	"errors"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
)

// ErrDefer is the error that [State.Receive] returns to defer the message until the state changes.
// The question that the message asks stays open. The state that is returned with ErrDefer is
// ignored.
var ErrDefer = errors.New("deferred to the next state")

// State is the behaviour of a machine in one state. All functions may be nil; Expired must be set
// if Timeout is. An error of Enter, Exit or Expired ends the actor.
type State[S comparable, M any] struct {
	// Enter is called when the machine has entered the state, with the state before. At the start
	// of the actor it is called with the initial state itself.
	Enter func(c *actor.Context[M], from S) error
	// Receive handles a message and returns the next state; the present one means that the machine
	// stays. An error other than [ErrDefer] ends the actor. If Receive is nil, all messages are
	// deferred.
	Receive func(c *actor.Context[M], m M) (S, error)
	// Exit is called before the machine leaves the state, with the next state. It is not called
	// when the actor ends.
	Exit func(c *actor.Context[M], to S) error
	// Timeout is the time after entering the state at which Expired is called. Default 0: no
	// timeout.
	Timeout time.Duration
	// Expired is called once when the timeout has passed, and returns the next state. If the
	// machine stays in the state, the timeout does not start again; see [Machine.SetTimeout].
	Expired func(c *actor.Context[M]) (S, error)
}

// Machine is an [actor.Actor] that is a state machine. Set its exported fields and spawn it. Its
// methods are for the runtime and the actor's turn.
type Machine[S comparable, M any] struct {
	Initial S                 // the first state
	States  map[S]State[S, M] // the table
	// Changed, if set, is called after each change of state.
	Changed func(c *actor.Context[M], from, to S)
	// Stopped, if set, is called when the actor ends: it is the Stop method of [actor.Stopper].
	Stopped func(c *actor.Context[M], reason error)

	now   S            // the present state
	timer *actor.Timer // of the timeout of the present stay, or nil
}

// State returns the present state. It is for the actor's turn.
func (m *Machine[S, M]) State() S { return m.now }

// SetTimeout replaces the timeout of the present stay: it expires d from now. 0 means no timeout.
// If the state has no Expired function, nothing is called then. It is for the actor's turn.
func (m *Machine[S, M]) SetTimeout(c *actor.Context[M], d time.Duration) {
	if m.timer != nil {
		m.timer.Stop()
		m.timer = nil
	}
	if d <= 0 {
		return
	}
	m.timer = c.After(d, func() error {
		expired := m.States[m.now].Expired
		if expired == nil {
			return nil
		}
		next, err := expired(c)
		if err != nil {
			return err
		}
		return m.change(c, next)
	})
}

// Start enters the initial state. It fails with Invalid if the table does not have it, or has a
// state with a negative Timeout, or with a Timeout and no Expired.
func (m *Machine[S, M]) Start(c *actor.Context[M]) error {
	for name, s := range m.States {
		if s.Timeout < 0 || s.Timeout > 0 && s.Expired == nil {
			return mainstem.Errorf(mainstem.KindInvalid, "state machine", "state %v has a timeout of %s: want Expired to be set, and 0 or more", name, s.Timeout)
		}
	}
	if _, ok := m.States[m.Initial]; !ok {
		return mainstem.Errorf(mainstem.KindInvalid, "state machine", "the initial state %v is not in the table", m.Initial)
	}
	m.now = m.Initial
	return m.enter(c, m.Initial)
}

// Receive passes a message to the Receive function of the present state.
func (m *Machine[S, M]) Receive(c *actor.Context[M], msg M) error {
	receive := m.States[m.now].Receive
	if receive == nil {
		return c.Stash(msg)
	}
	next, err := receive(c, msg)
	switch {
	case err == nil:
		return m.change(c, next)
	case errors.Is(err, ErrDefer):
		return c.Stash(msg)
	}
	return err
}

// Stop calls Stopped.
func (m *Machine[S, M]) Stop(c *actor.Context[M], reason error) {
	if m.Stopped != nil {
		m.Stopped(c, reason)
	}
}

// Inspect shows the state.
func (m *Machine[S, M]) Inspect() map[string]string {
	return map[string]string{"state": fmt.Sprint(m.now)}
}

// change makes next the present state, if it is another one: the steps are in the package comment.
func (m *Machine[S, M]) change(c *actor.Context[M], next S) error {
	from := m.now
	if next == from {
		return nil
	}
	if _, ok := m.States[next]; !ok {
		return mainstem.Errorf(mainstem.KindInvalid, "state machine", "the next state after %v is %v, which is not in the table", from, next)
	}
	m.SetTimeout(c, 0)
	if exit := m.States[from].Exit; exit != nil {
		if err := exit(c, next); err != nil {
			return err
		}
	}
	m.now = next
	c.Unstash()
	if err := m.enter(c, from); err != nil {
		return err
	}
	if m.Changed != nil {
		m.Changed(c, from, next)
	}
	return nil
}

// enter begins the stay in the present state. The timeout runs when Enter is called, which may
// replace it.
func (m *Machine[S, M]) enter(c *actor.Context[M], from S) error {
	s := m.States[m.now]
	m.SetTimeout(c, s.Timeout)
	if s.Enter == nil {
		return nil
	}
	return s.Enter(c, from)
}
