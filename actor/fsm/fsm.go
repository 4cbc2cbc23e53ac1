// Package fsm makes actors of state machines: what an actor does with a message
// depends on the state that it is in, and says which is next.
//
// # Nouns
//
// A [Machine] is an actor that is in one state of type S at a time. A table gives
// the [State] for each: a function for messages, one for coming and one for going, and
// how long it may stay. The data of the machine are wherever the functions keep them,
// usually in the struct whose methods they are.
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
// All functions are called in the actor's turn, one at a time. When a function returns
// another state than the present, Exit of the old state is called, the new state's timeout
// starts, then its Enter is called. A timeout belongs to one stay: once the
// state was left, it does not expire, even if it was due. Messages put aside with [ErrDefer] are
// handled in the next state, in the order in which they came, before all later ones.
//
// # Concurrency and ownership
//
// A Machine is one actor's: a supervised one is made anew for each incarnation. Its
// table must not change once it was spawned. Tables may be shared if their functions may.
//
// # Limits
//
// [actor.MaxStash] deferred messages. A state that is not in the table ends the actor.
//
// # Testing
//
// Timeouts are timers of the actor: in virtual time of testing/synctest they cost nothing.
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

// ErrDefer is the error that [State.Receive] returns to put the message aside until the
// state changes. A question that it asks stays open. The state that is returned with it
// does not matter.
var ErrDefer = errors.New("deferred to the next state")

// State is what a machine does in one state. All functions may be nil.
type State[S comparable, M any] struct {
	// Enter is called when the machine comes into the state, with the state that it
	// comes from; first, when it starts, with the initial state itself.
	Enter func(c *actor.Context[M], from S) error
	// Receive handles a message and returns the next state, which is the present one to
	// stay. An error other than [ErrDefer] ends the actor. If it is nil, messages are deferred.
	Receive func(c *actor.Context[M], m M) (S, error)
	// Exit is called when the machine leaves the state, with the state that it goes
	// to. It is not called when the actor ends.
	Exit func(c *actor.Context[M], to S) error
	// Timeout is how long the machine may stay. Default 0: as long as it likes.
	Timeout time.Duration
	// Expired is called when it stayed for so long, and returns the next state. If it
	// stays, the timeout does not start again by itself.
	Expired func(c *actor.Context[M]) (S, error)
}

// Machine is an [actor.Actor] that is a state machine. Set its exported fields and
// spawn it.
type Machine[S comparable, M any] struct {
	Initial S                 // the first state
	States  map[S]State[S, M] // the table
	// Changed, if set, is called after each change of state.
	Changed func(c *actor.Context[M], from, to S)
	// Stopped, if set, is called when the actor ends, like [actor.Stopper].
	Stopped func(c *actor.Context[M], reason error)

	now   S
	timer *actor.Timer
}

// State returns the present state. It is for the actor's turn.
func (m *Machine[S, M]) State() S { return m.now }

// SetTimeout lets the present stay last until d from now, instead of what was
// set before; 0 lets it last as long as it likes. It is for the actor's turn.
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

// Start enters the initial state. It fails with Invalid if the table does not have it,
// or has a state with a timeout and nothing to do then.
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

// Receive gives a message to the function of the present state.
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

// change goes to the next state, if it is another.
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

// enter starts the stay in the present state. Its timeout is running when Enter is
// called, which may set another.
func (m *Machine[S, M]) enter(c *actor.Context[M], from S) error {
	s := m.States[m.now]
	m.SetTimeout(c, s.Timeout)
	if s.Enter == nil {
		return nil
	}
	return s.Enter(c, from)
}
