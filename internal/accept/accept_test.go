package accept_test

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem/internal/accept"
)

func refused(err error) error {
	return &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
}

// scripted returns one error after another, and then a connection.
func scripted(calls *int, errs ...error) func() (net.Conn, error) {
	conn, _ := net.Pipe()
	return func() (net.Conn, error) {
		if *calls++; *calls <= len(errs) {
			return nil, errs[*calls-1]
		}
		return conn, nil
	}
}

func TestNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passing := []error{
			refused(syscall.EMFILE), refused(syscall.ENFILE), refused(syscall.ECONNABORTED), refused(syscall.EPERM),
			refused(syscall.EPROTO), refused(syscall.EHOSTUNREACH), refused(syscall.ENOBUFS), refused(syscall.ECONNRESET), os.ErrDeadlineExceeded,
		}
		calls, reported, began := 0, 0, time.Now()
		conn, err := accept.Next(t.Context(), scripted(&calls, passing...), func(inARow int, err error) {
			if reported++; inARow != reported || err != passing[reported-1] { //nolint:errorlint // it is passed on as it is
				t.Errorf("failure %d is reported as %d: %v", reported, inARow, err)
			}
		})
		const pauses = (5+10+20+40+80+160+320+640)*time.Millisecond + time.Second
		if took := time.Since(began); conn == nil || err != nil || reported != len(passing) || took != pauses {
			t.Errorf("%v, %v after %v, %d failures reported", conn, err, took, reported)
		}
		for _, lasting := range []error{net.ErrClosed, refused(syscall.EINVAL), refused(syscall.EBADF)} {
			calls = 0
			if conn, err := accept.Next(t.Context(), scripted(&calls, refused(syscall.EMFILE), lasting), nil); conn != nil || !errors.Is(err, lasting) || calls != 2 {
				t.Errorf("%v: %v, %v after %d calls", lasting, conn, err, calls)
			}
		}
	})
}

// Next ends with the context, even in a pause. A connection that was accepted is never lost.
func TestNextEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		full := refused(syscall.EMFILE)
		calls, began := 0, time.Now()
		_, err := accept.Next(ctx, scripted(&calls, full, full, full, full), func(int, error) { cancel() })
		if !errors.Is(err, full) || calls != 1 || time.Since(began) != 0 {
			t.Errorf("%v after %d calls and %v", err, calls, time.Since(began))
		}
		calls = 0
		if conn, err := accept.Next(ctx, scripted(&calls), nil); conn == nil || err != nil {
			t.Errorf("a connection after the context has ended: %v, %v", conn, err)
		}
	})
}
