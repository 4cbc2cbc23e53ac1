//go:build unix

package session

import (
	"errors"
	"net"
	"syscall"
)

// attempt writes to a socket without waiting. One goroutine at a time uses it.
type attempt struct {
	raw  syscall.RawConn
	f    func(uintptr) bool // write, bound once
	b    []byte
	n    int
	fail error
}

// newAttempt returns nil for a connection that cannot do it: one of TLS, or a test's.
func newAttempt(c net.Conn) *attempt {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return nil
	}
	a := &attempt{raw: raw}
	a.f = a.write
	return a
}

// try writes as much of b as the socket takes now.
func (a *attempt) try(b []byte) (int, error) {
	a.b, a.n, a.fail = b, 0, nil
	err := a.raw.Write(a.f)
	a.b = nil
	return a.n, errors.Join(err, a.fail)
}

func (a *attempt) write(fd uintptr) bool {
	for a.n < len(a.b) {
		n, err := syscall.Write(int(fd), a.b[a.n:])
		switch {
		case n > 0:
			a.n += n
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			return true
		default:
			a.fail = err
			return true
		}
	}
	return true
}
