// Package accept accepts connections, and tries again after errors that pass.
//
//	conn, err := accept.Next(ctx, listener.Accept, func(inARow int, err error) {
//		slog.Warn("connection not accepted: trying again", "failures in a row", inARow, "error", err)
//	})
//
// # Concurrency
//
// Next may be called by many goroutines at a time.
//
//snippet:var ctx context.Context
//snippet:var listener net.Listener
package accept

import (
	"context"
	"errors"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/mainstemdev/mainstem/internal/backoff"
)

// pause is the one of net/http.
var pause = backoff.Policy{First: 5 * time.Millisecond, Max: time.Second}

// Next calls accept until it returns a connection or an error that lasts, or until ctx has ended; then
// it returns any error. After an error that passes, such as too many open files, it calls failed, if that is not
// nil, with the number of failures of this call, and waits for 5 ms, twice as long after each
// further one, 1 s at most.
func Next(ctx context.Context, accept func() (net.Conn, error), failed func(inARow int, err error)) (net.Conn, error) {
	for failures := 1; ; failures++ {
		conn, err := accept()
		if err == nil || !passes(err) || ctx.Err() != nil {
			return conn, err
		}
		if failed != nil {
			failed(failures, err)
		}
		if !pause.Wait(ctx, failures) {
			return nil, err
		}
	}
}

// passing are errors that may be over soon, besides those that are Temporary: there is no memory,
// or they are of the one connection that was to be accepted. Linux returns its pending errors from
// accept, and a firewall may forbid it (accept(2), "Error handling" and "ERRORS").
var passing = []error{
	syscall.ENOBUFS, syscall.ENOMEM, syscall.EPERM, syscall.ECONNABORTED, syscall.ECONNRESET, syscall.EPROTO,
	syscall.ENOPROTOOPT, syscall.ENETDOWN, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.EHOSTUNREACH,
}

// passes reports whether accepting may work later. Too many open files are Temporary.
func passes(err error) bool {
	var t interface{ Temporary() bool } // of net.Error: package net defines its meaning for Accept
	return errors.As(err, &t) && t.Temporary() || slices.ContainsFunc(passing, func(p error) bool { return errors.Is(err, p) })
}
