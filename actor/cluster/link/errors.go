package link

import (
	"errors"

	"github.com/mainstemdev/mainstem"
)

// Reasons. Errors of this package that have one match it with errors.Is.
var (
	// ErrWindow: there is no credit to send, and the call does not wait for it, or not any longer.
	ErrWindow = errors.New("the peer's window is full")
	// ErrLeft: the peer closed its endpoint.
	ErrLeft = errors.New("the peer left")
	// ErrLost: the session could not be resumed in time.
	ErrLost = errors.New("the peer was not reached in time")
	// ErrRestarted: another incarnation of the peer lives, or the peer has given the session up.
	ErrRestarted = errors.New("the peer does not know the session any more")
	// ErrProtocol: the peer sent what it must not.
	ErrProtocol = errors.New("the peer broke the protocol")
	// ErrRefused: one end of a connection did not accept the other.
	ErrRefused = errors.New("the connection was refused")
	// ErrClosed: the endpoint was closed.
	ErrClosed = errors.New("the endpoint is closed")
)

// errOutdated: the peer resumes from where it was before; a later connection has been made.
var errOutdated = errors.New("the connection comes too late")

func fault(kind mainstem.Kind, op string, err error) error {
	return &mainstem.Error{Kind: kind, Op: op, Err: err}
}
