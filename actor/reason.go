package actor

import (
	"errors"
	"fmt"
)

// Exit reasons of this package. An actor may also end for any error that its methods return. These
// keep their identity on the way to other nodes; see [ReasonName].
var (
	// Normal: the actor stopped itself and its work is done (normal).
	Normal error = &reason{"normal"}
	// Shutdown: its parent, its node or Stop of a reference ended it (shutdown).
	Shutdown error = &reason{"shutdown"}
	// Killed: it was ended without a call of its Stop method (killed).
	Killed error = &reason{"killed"}
	// Passivated: it had nothing to do for the time of [Options.Idle].
	Passivated error = &reason{"passivated"}
	// Missing: there is no such actor, or it had ended before (noproc). It is the reason that
	// monitors and links report then.
	Missing error = &reason{"no such actor"}
	// NodeDown: the node of the actor is lost or cannot be reached (noconnection).
	NodeDown error = &reason{"node down"}
	// Exceeded: a supervisor ended because its restart intensity was exceeded.
	Exceeded error = &reason{"restarts exceeded"}
	// Exited: runtime.Goexit ended the actor's goroutine.
	Exited error = &reason{"goroutine exited"}
)

var reasons = []error{Normal, Shutdown, Killed, Passivated, Missing, NodeDown, Exceeded, Exited}

type reason struct{ name string }

func (r *reason) Error() string { return r.name }

// ReasonName returns the name of the first of this package's exit reasons in the tree of err (see
// errors.As), and false if there is none. The names are part of the protocol between nodes and do
// not change.
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

// IsCrash reports whether an exit reason means that the actor failed: it is neither Normal,
// Shutdown nor Passivated, nor wraps one of them. A [Transient] child is restarted after a crash
// only.
func IsCrash(reason error) bool {
	return !errors.Is(reason, Normal) && !errors.Is(reason, Shutdown) && !errors.Is(reason, Passivated)
}

// PanicError is the exit reason of an actor that panicked, and the error of other functions of the
// program that panicked in a call of the runtime.
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
