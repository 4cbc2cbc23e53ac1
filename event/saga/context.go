package saga

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/command"
)

// Context is a saga for which something is being handled. Changes made through it become true when
// the handler has returned without an error, in one commit with the event's or the timeout's being
// handled; a handler that is called again begins with the state as it was. It belongs to the handler's
// goroutine, and ends with the call.
type Context[S any] struct {
	// State is the state of the saga. The handler changes it in place.
	State S

	s *step
}

// step is one call of a handler, without the type of the state.
type step struct {
	saga  *Saga
	in    *instance
	now   time.Time
	ev    event.Recorded // zero for a timeout
	err   error          // of a call of a method of Context: the step fails
	state json.RawMessage

	sends    []message
	undo     []message
	timeouts map[string]time.Duration // negative: cancelled
	complete bool
	failed   error
}

// call calls a typed handler.
func call[S any](s *step, do func(*Context[S]) error) error {
	c := &Context[S]{s: s}
	if s.in.row.State != nil {
		if err := json.Unmarshal(s.in.row.State, &c.State); err != nil {
			return mainstem.Errorf(mainstem.KindCorrupt, "saga", "%s: its state cannot be read: %w", s.in.id, err)
		}
	}
	if err := do(c); err != nil {
		return err
	}
	var err error
	if s.state, err = json.Marshal(c.State); err != nil {
		return fmt.Errorf("the state cannot be stored: %w", err)
	}
	return s.err
}

func (s *step) fault(err error) {
	if s.err == nil {
		s.err = err
	}
}

// ID returns the ID of the saga: its type, a hyphen, its key.
func (c *Context[S]) ID() string { return c.s.in.id }

// Key returns the key of the saga: the correlation.
func (c *Context[S]) Key() string { return c.s.in.row.Key }

// Event returns the event that is being handled, as it was recorded; the zero value in the handler of a timeout.
func (c *Context[S]) Event() event.Recorded { return c.s.ev }

// Now returns the time from which [Context.Timeout] counts: when the step is handled, which may be
// long after the event.
func (c *Context[S]) Now() time.Time { return c.s.now }

// Dispatch sends a command to the bus. It is carried out after the commit, once, after the
// commands that the saga has sent before. Its ID is the saga's type and key and a number, "fulfilment/42/3"; a
// command that embeds [command.Base] gets it as its CommandID, with the CorrelationID of the event and the event as
// CausationID, unless it has its own. A command that is refused fails the saga; see the package comment.
func (c *Context[S]) Dispatch(cmd command.Command) { c.s.send(cmd, &c.s.sends) }

// Compensate pushes a command that undoes something. If the saga fails, in this step or in a later one, its
// compensations are carried out, the one that was pushed last first.
func (c *Context[S]) Compensate(cmd command.Command) { c.s.send(cmd, &c.s.undo) }

func (s *step) send(cmd command.Command, to *[]message) {
	m, err := s.saga.encode(cmd)
	if err != nil {
		s.fault(err)
		return
	}
	m.Correlation, m.Tenant = s.ev.Metadata.CorrelationID, s.ev.Metadata.TenantID
	if m.Correlation == "" {
		m.Correlation = s.in.row.Correlation
	}
	if m.Tenant == "" {
		m.Tenant = s.in.row.Tenant
	}
	if !s.ev.ID.IsZero() {
		m.Causation = s.ev.ID.String()
	}
	*to = append(*to, m)
}

// Timeout has the handler of [OnTimeout] with that name called after d, unless the saga has ended until
// then. A timeout of the same name that is pending is replaced. It comes once, and not
// before the events that were in the store when it was due are handled.
func (c *Context[S]) Timeout(name string, d time.Duration) {
	switch {
	case c.s.saga.timeouts[name] == nil:
		c.s.fault(mainstem.Refusef(mainstem.KindInvalid, "saga", "%s: timeout %.60q has no handler: add one with saga.OnTimeout", c.s.saga.name, name))
	case d < 0:
		c.s.fault(mainstem.Refusef(mainstem.KindInvalid, "saga", "%s: timeout %s after %v: want 0 or more", c.s.saga.name, name, d))
	default:
		c.s.setTimeout(name, d)
	}
}

// CancelTimeout takes a timeout back. One that is not pending is no error.
func (c *Context[S]) CancelTimeout(name string) { c.s.setTimeout(name, -1) }

func (s *step) setTimeout(name string, d time.Duration) {
	if s.timeouts == nil {
		s.timeouts = make(map[string]time.Duration)
	}
	s.timeouts[name] = d
}

// Complete ends the saga: nothing is handled any more, and its timeouts are cancelled. Commands that it
// has sent, in this step or before, are still carried out; if one is refused, the saga fails after all.
func (c *Context[S]) Complete() { c.s.complete = true }

// Fail ends the saga: the commands that it has sent and that are not carried out are withdrawn, those of
// this step are not sent, timeouts are cancelled, and the compensations, with those of this step, are carried out. The
// handler should return nil then: with an error nothing happens, and it is tried again.
func (c *Context[S]) Fail(err error) {
	if err == nil {
		err = errors.New("the saga gave no reason")
	}
	c.s.failed = err
}
