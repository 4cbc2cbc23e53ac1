package actor

import (
	"errors"
	"fmt"
)

// Reasons for which an actor ends, besides the errors that its methods return.
// They keep their identity on the way to other nodes; see [ReasonName].
var (
	// Normal: the actor stopped itself, its work done.
	Normal error = &reason{"normal"}
	// Shutdown: its parent or its node stopped it.
	Shutdown error = &reason{"shutdown"}
	// Killed: it was ended at once; its Stop method was not called.
	Killed error = &reason{"killed"}
	// Passivated: it had nothing to do for the time of [Options.Idle].
	Passivated error = &reason{"passivated"}
	// Missing: there is no such actor. Monitors and links of an actor that is gone report it.
	Missing error = &reason{"no such actor"}
	// NodeDown: the node of the actor is gone or cannot be reached.
	NodeDown error = &reason{"node down"}
	// Exceeded: a supervisor gave up because its children failed too often.
	Exceeded error = &reason{"restarts exceeded"}
	// Exited: the actor's goroutine ended by runtime.Goexit.
	Exited error = &reason{"goroutine exited"}
)

var reasons = []error{Normal, Shutdown, Killed, Passivated, Missing, NodeDown, Exceeded, Exited}

type reason struct{ name string }

func (r *reason) Error() string { return r.name }

// ReasonName returns the name of the first of this package's reasons in the
// chain of err, and false if there is none. The names cross the wire: they do not change.
func ReasonName(err error) (string, bool) {
	var r *reason
	if errors.As(err, &r) {
		return r.name, true
	}
	return "", false
}

// ParseReason is the inverse of [ReasonName].
func ParseReason(name string) (error, bool) {
	for _, r := range reasons {
		if r.Error() == name {
			return r, true
		}
	}
	return nil, false
}

// IsCrash reports whether an actor that ended for this reason failed: anything but
// Normal, Shutdown and Passivated. It is what a transient child is restarted for.
func IsCrash(reason error) bool {
	return !errors.Is(reason, Normal) && !errors.Is(reason, Shutdown) && !errors.Is(reason, Passivated)
}

// PanicError is the reason of an actor that panicked.
type PanicError struct {
	Value any    // what was passed to panic
	Stack []byte // the stack at the panic, as of runtime/debug.Stack
}

// Error returns the panic's value without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the panic's value if it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
