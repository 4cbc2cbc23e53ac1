package cli

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
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitConflict    = 4
	ExitInterrupted = 130
	ExitBrokenPipe  = 141
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

// WrongUsage is the error of a command line of cmd that cannot be carried out because of err.
// The exit status is 2.
func WrongUsage(cmd *cobra.Command, err error) error { return usageError{cmd, err} }

// configError is a wrong setting, whether a flag, a variable or in a file.
type configError struct{ error }

func (e configError) Unwrap() error { return e.error }

// WrongConfig is the error of a wrong setting. The exit status is 2.
func WrongConfig(err error) error { return configError{err} }

// Resumable is an error that says how to go on after an interruption. [Main.Report] prints it
// as it is.
type Resumable interface {
	error
	Resumable()
}

// ErrFailed is an outcome that has been reported already, such as bad lines of an
// import: the exit status is 1, and nothing more is printed.
var ErrFailed = errors.New("failed")

// StatusError is an error with an exit status of its own, such as that of a command that was run.
// Without an Err nothing is printed.
type StatusError struct {
	Status int
	Err    error
}

// Error returns the text of Err, or the status.
func (e *StatusError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Status)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *StatusError) Unwrap() error { return e.Err }

// isSilent reports whether nothing is printed of err.
func isSilent(err error) bool {
	var own *StatusError
	return err == nil || errors.Is(err, ErrFailed) || errors.As(err, &own) && own.Err == nil
}

// Report writes err to standard error, unless it is nil, and returns the exit status.
func (m *Main) Report(err error) int {
	status := m.status(err)
	switch {
	case isSilent(err), status == ExitBrokenPipe:
	case m.Flags.JSON:
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
	var own *StatusError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &own):
		return own.Status
	case errors.Is(err, ErrFailed):
		return ExitFailed
	case readerHasGone(err):
		return ExitBrokenPipe
	case errors.As(err, &u), errors.As(err, &c):
		return ExitUsage
	case errors.Is(m.ctxErr, ErrInterrupted) && (errors.Is(err, mainstem.ErrCanceled) || errors.Is(err, ErrInterrupted)):
		return ExitInterrupted
	case errors.Is(err, mainstem.ErrNotFound):
		return ExitNotFound
	case errors.Is(err, mainstem.ErrConflict), errors.Is(err, mainstem.ErrExists):
		return ExitConflict
	}
	return ExitFailed
}

// readerHasGone reports whether the output could not be written because nobody reads it
// any more. A connection to a server that breaks fails with EPIPE, too.
func readerHasGone(err error) bool {
	var connection *net.OpError
	return errors.Is(err, syscall.EPIPE) && !errors.As(err, &connection)
}

// text returns what is said of err. Whatever command it comes from, it shows no
// credentials of addresses.
func (m *Main) text(err error) string { return redact.Error(m.said(err), m.Flags.Log).Error() }

func (m *Main) said(err error) error {
	var own Resumable
	switch {
	case !errors.Is(err, mainstem.ErrCanceled), errors.As(err, &own):
	case errors.Is(m.ctxErr, ErrInterrupted) && errors.Is(err, mainstem.ErrUnknownOutcome):
		return fmt.Errorf("%w (outcome unknown: it may have been written)", ErrInterrupted)
	case errors.Is(m.ctxErr, ErrInterrupted):
		return ErrInterrupted
	case m.Flags.Timeout > 0 && errors.Is(err, context.DeadlineExceeded):
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
	if status == ExitUsage {
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

// Hint returns err with a hint for the operator, if it is a *mainstem.Error without one.
func Hint(err error, text string) error {
	var e *mainstem.Error
	if !errors.As(err, &e) || e.Hint != "" {
		return err
	}
	c := *e
	c.Hint = text
	return &c
}

// UnlessInterrupted returns err, or nil if a signal has ended ctx: that is how a command ends
// which follows a log.
func UnlessInterrupted(ctx context.Context, err error) error {
	if errors.Is(err, mainstem.ErrCanceled) && errors.Is(context.Cause(ctx), ErrInterrupted) {
		return nil
	}
	return err
}
