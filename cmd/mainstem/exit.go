package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/redact"
)

// Exit statuses. They are part of the interface: scripts test them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitConflict    = 4
	exitInterrupted = 130
	exitBrokenPipe  = 141
)

// usageError is a command line that cannot be carried out.
type usageError struct {
	cmd *cobra.Command
	err error
}

func (e usageError) Error() string {
	path := strings.TrimPrefix(e.cmd.CommandPath(), "mainstem ")
	if !e.cmd.HasParent() {
		return fmt.Sprintf("%v (see mainstem help)", e.err)
	}
	return fmt.Sprintf("%s: %v (see mainstem help %s)", path, e.err, path)
}

func (e usageError) Unwrap() error { return e.err }

// configError is a wrong setting, whether a flag, a variable or in a file.
type configError struct{ error }

func (e configError) Unwrap() error { return e.error }

// failed is an outcome that has been reported already, such as bad lines of an
// import: it sets the exit status and prints nothing more.
type failed struct{ status int }

func (f failed) Error() string { return fmt.Sprintf("exit status %d", f.status) }

// finish reports err, if it is one, and returns the exit status.
func (m *Main) finish(err error) int {
	status := m.status(err)
	var f failed
	switch {
	case err == nil, errors.As(err, &f), status == exitBrokenPipe:
	case m.flags.json:
		m.printErrorJSON(err, status)
	default:
		for line := range strings.SplitSeq(m.text(err), "\n") {
			fmt.Fprintf(m.Stderr, "mainstem: %s\n", line)
		}
	}
	return status
}

func (m *Main) status(err error) int {
	var u usageError
	var c configError
	var f failed
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &f):
		return f.status
	case readerHasGone(err):
		return exitBrokenPipe
	case errors.As(err, &u), errors.As(err, &c):
		return exitUsage
	case errors.Is(m.ctxErr, errInterrupted) && (errors.Is(err, mainstem.ErrCanceled) || errors.Is(err, errInterrupted)):
		return exitInterrupted
	case errors.Is(err, mainstem.ErrNotFound):
		return exitNotFound
	case errors.Is(err, mainstem.ErrConflict), errors.Is(err, mainstem.ErrExists):
		return exitConflict
	}
	return exitFailed
}

// readerHasGone reports whether the output could not be written because nobody reads it
// any more. A connection to a server that breaks fails with EPIPE, too.
func readerHasGone(err error) bool {
	var connection *net.OpError
	return errors.Is(err, syscall.EPIPE) && !errors.As(err, &connection)
}

// text returns what is said of err. Whatever command it comes from, it shows no
// credentials of addresses.
func (m *Main) text(err error) string { return redact.Error(m.said(err), m.flags.log).Error() }

func (m *Main) said(err error) error {
	var stopped *stoppedError
	switch {
	case !errors.Is(err, mainstem.ErrCanceled), errors.As(err, &stopped):
	case errors.Is(m.ctxErr, errInterrupted):
		return errInterrupted
	case m.flags.timeout > 0 && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w (--timeout)", err)
	}
	return err
}

// errorLine is an error as --json shows it.
type errorLine struct {
	Error   string `json:"error"`
	Kind    string `json:"kind"` // the contract's kind, or "usage"
	Status  int    `json:"exit_status"`
	Space   string `json:"space,omitempty"`
	Key     string `json:"key,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Hint    string `json:"hint,omitempty"`
	Got     uint64 `json:"got_version,omitempty"` // of a conflict: the key's version
}

func (m *Main) printErrorJSON(err error, status int) {
	line := errorLine{Error: m.text(err), Kind: mainstem.KindOf(err).String(), Status: status}
	if status == exitUsage {
		line.Kind = "usage"
	}
	var e *mainstem.Error
	if errors.As(err, &e) {
		line.Space, line.Key, line.Outcome, line.Hint = e.Space, string(e.Key), e.Outcome.String(), e.Hint
		line.Got = uint64(e.Got)
	}
	enc := json.NewEncoder(m.Stderr)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(line) // there is nowhere left to report to
}

// hint adds to an error of the contract what can be done, unless it says so itself.
func hint(err error, text string) error {
	var e *mainstem.Error
	if !errors.As(err, &e) || e.Hint != "" {
		return err
	}
	c := *e
	c.Hint = text
	return &c
}
