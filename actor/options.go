package actor

import (
	"time"
)

// Limits.
const (
	MaxName      = 255     // bytes of the name of a node or an actor
	MaxStash     = 100_000 // messages that an actor can put aside
	DefaultGrace = 5 * time.Second
)

// Priority says before what a message is handled. Messages of the same priority
// from one sender to one receiver keep their order.
type Priority uint8

// The priorities.
const (
	User   Priority = iota // what Send uses
	System                 // before user messages: notices of monitors are here
	Urgent                 // before all else but exits
)

// String returns the priority's name in lower case.
func (p Priority) String() string {
	switch p {
	case User:
		return "user"
	case System:
		return "system"
	case Urgent:
		return "urgent"
	}
	return "unknown priority"
}

// Overflow says what happens to a user message that finds a bounded mailbox full.
type Overflow uint8

// The policies.
const (
	Reject     Overflow = iota // Send fails with ErrMailboxFull
	Block                      // Send waits for room, as long as its context allows
	DropNewest                 // the message becomes a dead letter
	DropOldest                 // the oldest waiting message becomes a dead letter
	Divert                     // the message goes to Options.Fallback
)

var overflowNames = [...]string{"reject", "block", "drop newest", "drop oldest", "divert"}

// String returns "reject", "block", "drop newest", "drop oldest" or "divert".
func (o Overflow) String() string {
	if int(o) < len(overflowNames) {
		return overflowNames[o]
	}
	return "unknown overflow policy"
}

// Options say how an actor runs; nil means the defaults. They are copied.
type Options struct {
	// Name registers the actor under a name that is unique on its node. Default: none.
	Name string
	// Mailbox is how many user messages may wait, besides the one being handled.
	// Default 0: no limit. Urgent and system messages are not limited.
	Mailbox int
	// Overflow says what happens to user messages beyond Mailbox. Default Reject.
	Overflow Overflow
	// Fallback receives what Divert diverts: a Ref of the actor's own message type.
	Fallback AnyRef
	// Idle passivates the actor: it ends with [Passivated] when it has had nothing to
	// do for this long. Default 0: never.
	Idle time.Duration
	// Grace is how long a parent waits for this actor to stop before it leaves it
	// behind, still running, and reports it. Default [DefaultGrace]; negative means without limit.
	Grace time.Duration
	// DropMailbox makes waiting messages dead letters when a supervisor restarts the
	// actor. Default: they are kept, all but the one that was being handled.
	DropMailbox bool
}

// settings are Options with the defaults filled in, shared by the actors of one child spec.
type settings struct {
	Options
}

var defaults = &settings{Options{Grace: DefaultGrace}}

func newSettings(o *Options) (*settings, error) {
	if o == nil || *o == (Options{}) {
		return defaults, nil
	}
	s := &settings{*o}
	if s.Grace == 0 {
		s.Grace = DefaultGrace
	}
	return s, s.validate()
}

func (s *settings) validate() error {
	if s.Name != "" {
		if err := validName("an actor", s.Name); err != nil {
			return err
		}
	}
	switch {
	case s.Mailbox < 0:
		return invalidf("Options.Mailbox is %d: want 0 (no limit) or more", s.Mailbox)
	case s.Overflow > Divert:
		return invalidf("Options.Overflow is %d: there is no such policy", s.Overflow)
	case s.Idle < 0:
		return invalidf("Options.Idle is %s: want 0 (never) or more", s.Idle)
	case s.Overflow == Divert && s.Fallback == nil:
		return invalidf("Options.Overflow is Divert without a Fallback")
	}
	return nil
}
