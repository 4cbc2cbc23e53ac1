package actor

import (
	"time"
)

// Limits.
const (
	MaxName      = 255     // bytes of the name of a node, actor, event or group
	MaxStash     = 100_000 // messages that an actor can have stashed
	DefaultGrace = 5 * time.Second
)

// Priority is the priority of a message: all waiting messages of a higher priority are handled
// before those of a lower one. Messages of the same priority from one sender to one receiver keep
// their order.
type Priority uint8

// The priorities, from the lowest.
const (
	User   Priority = iota // the priority of Send
	System                 // before User messages. Calls of monitors have it
	Urgent                 // before System messages, after exits and requests to end
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

// Overflow says what happens to a User message that finds a bounded mailbox full.
type Overflow uint8

// The policies.
const (
	Reject     Overflow = iota // Send fails with ErrMailboxFull, and the message becomes a dead letter
	Block                      // Send waits for room, as long as its context allows
	DropNewest                 // the message becomes a dead letter; Send returns nil
	DropOldest                 // the oldest message that waits becomes a dead letter; Send returns nil
	Divert                     // the message goes to Options.Fallback; Send returns its error
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
	// Mailbox is how many User messages may wait, besides the one that is being handled.
	// Default 0: no limit. Urgent and System messages are not limited. Functions of
	// [Context.After] and [AskThen] count too, but find room in a full mailbox. Stashed messages
	// do not count: [MaxStash] is their limit.
	Mailbox int
	// Overflow says what happens to User messages beyond Mailbox. Default Reject.
	Overflow Overflow
	// Fallback gets the messages that Divert diverts. It must be a Ref of the message type of
	// the actor. Default: none, which is Invalid with Divert.
	Fallback AnyRef
	// Idle passivates the actor: it ends with [Passivated] when it has had no message and no
	// call for this long. Default 0: never. A [Permanent] child of a supervisor is restarted
	// then, which counts as a restart.
	Idle time.Duration
	// Grace is how long the parent waits for this actor to end when it stops it: the shutdown
	// time of a child spec. Then it leaves the actor behind, still running, and logs that; a
	// goroutine cannot be killed. Default [DefaultGrace]; negative means no limit (infinity).
	Grace time.Duration
	// DropMailbox makes the waiting messages dead letters when a supervisor restarts the actor,
	// as a restart in OTP loses the mailbox. Default: they are kept, all but the one during
	// which the actor failed.
	DropMailbox bool
}

// settings are Options with the defaults filled in. All actors of one child spec share them, and
// nothing writes to them after newSettings.
type settings struct {
	Options
}

// defaults are the settings of all actors without options.
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
