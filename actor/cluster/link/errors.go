package link

import (
	"errors"

	"github.com/mainstemdev/mainstem"
)

// Causes of the errors of this package, and of the ends of sessions, for errors.Is.
var (
	// ErrWindow means that Send found no credit, or waited for it until its ctx ended.
	ErrWindow = errors.New("the peer's window is full")
	// ErrLeft means that the peer closed its endpoint.
	ErrLeft = errors.New("the peer left")
	// ErrLost means that a stream had no connection for Options.Resume, or that the first connection
	// of the session failed.
	ErrLost = errors.New("the peer was not reached in time")
	// ErrRestarted means that the peer was started again, or has ended the session.
	ErrRestarted = errors.New("the peer does not know the session any more")
	// ErrProtocol means that the peer sent a frame that the protocol does not allow.
	ErrProtocol = errors.New("the peer broke the protocol")
	// ErrRefused means that one end of a connection refused the other in the handshake.
	ErrRefused = errors.New("the connection was refused")
	// ErrClosed means that the endpoint was closed.
	ErrClosed = errors.New("the endpoint is closed")
)

// errOutdated means that a connection asks for frames that were acknowledged over a later one.
var errOutdated = errors.New("the connection comes too late")

func fault(kind mainstem.Kind, op string, err error) error {
	return &mainstem.Error{Kind: kind, Op: op, Err: err}
}
