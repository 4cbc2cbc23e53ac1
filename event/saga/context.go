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

// Context is a saga during one call of a handler. The changes that are made through it take effect
// when the handler returns nil, in the commit that also marks the event or timeout as handled. If
// the commit fails with a conflict, the handler is called again, with the present state. A Context
// belongs to the goroutine of the handler, and must not be used after the call.
type Context[S any] struct {
	// State is the state of the saga. The handler changes it in place.
	State S

	s *step
}

// step is one call of a handler, without the type of the state. The methods of [Context] fill it
// in.
type step struct {
	saga  *Saga
	in    *instance // read only: [instance.handle] changes it after the call
	now   time.Time
	ev    event.Recorded  // zero for a timeout
	err   error           // the first fault of a call of a method of Context: the step fails with it
	state json.RawMessage // after the call, encoded

	sends    []message
	undo     []message                // compensations
	timeouts map[string]time.Duration // by name, from now; negative: cancelled
	complete bool
	failed   error // the argument of Fail; nil: not called
}

// call calls a typed handler with the state of the saga, and records its effects in s.
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

// fault makes the step fail with err, unless it fails already.
func (s *step) fault(err error) {
	if s.err == nil {
		s.err = err
	}
}

// ID returns the ID of the saga: its type, a hyphen, its key.
func (c *Context[S]) ID() string { return c.s.in.id }

// Key returns the key of the saga: the correlation.
func (c *Context[S]) Key() string { return c.s.in.row.Key }

// Event returns the event that is handled, as recorded; the zero value in the handler of a timeout.
func (c *Context[S]) Event() event.Recorded { return c.s.ev }

// Now returns the time of the step, from which [Context.Timeout] counts. It may be long after that
// of the event.
func (c *Context[S]) Now() time.Time { return c.s.now }

// Dispatch sends a command to the bus. It is carried out after the commit, once, after the commands
// that the saga has sent before. A command that is refused fails the saga; see the package comment.
// A command that the saga does not declare with [Sends], or that cannot be encoded, fails the step.
//
// The ID of the command is the type, the key and a number: "fulfilment/42/3". If the command embeds
// [command.Base], empty fields are filled in: CommandID with that ID, CorrelationID with that of
// the event or else of the saga, and CausationID with the ID of the event, if there is one.
func (c *Context[S]) Dispatch(cmd command.Command) { c.s.send(cmd, &c.s.sends) }

// Compensate pushes a command that compensates a step. If the saga fails, in this step or later,
// its compensations are carried out, the one that was pushed last first.
func (c *Context[S]) Compensate(cmd command.Command) { c.s.send(cmd, &c.s.undo) }

// send encodes cmd and appends the message to *to.
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

// Timeout sets a timeout: the handler of [OnTimeout] with that name is called after d, unless the
// saga has ended by then. It replaces a pending timeout of the same name. It takes effect once, and
// all events that are in the store when it is due are handled before it. One that is due after
// 2262-04-11 comes on that day. A negative d, or a name without handler, fails the step.
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

// CancelTimeout removes a pending timeout. It is no error if there is none.
func (c *Context[S]) CancelTimeout(name string) { c.s.setTimeout(name, -1) }

// setTimeout records the last call for a name; it replaces earlier ones.
func (s *step) setTimeout(name string, d time.Duration) {
	if s.timeouts == nil {
		s.timeouts = make(map[string]time.Duration)
	}
	s.timeouts[name] = d
}

// Complete ends the saga: no further events are handled, and its timeouts, with those of this step,
// are cancelled. Commands that it has sent, in this step or before, are still carried out; if one
// is refused, the saga fails after all.
func (c *Context[S]) Complete() { c.s.complete = true }

// Fail ends the saga with a failure. Commands that are not carried out yet are withdrawn, and those
// of this step are not sent. Timeouts are cancelled. The compensations, with those of this step,
// are carried out. The state is stored as the handler leaves it. The handler must then return nil:
// an error would undo the step, and the event would be tried again. Fail has precedence over
// [Context.Complete].
func (c *Context[S]) Fail(err error) {
	if err == nil {
		err = errors.New("the saga gave no reason")
	}
	c.s.failed = err
}
