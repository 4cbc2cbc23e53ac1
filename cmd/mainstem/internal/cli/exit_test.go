package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/mainstemdev/mainstem"
)

// A server that hangs up is no reader of the output that has gone.
func TestBrokenConnectionIsReported(t *testing.T) {
	m := &Main{}
	err := fmt.Errorf("put: %w", &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)})
	if got := m.status(err); got != ExitFailed {
		t.Errorf("status %d, want %d", got, ExitFailed)
	}
}

func TestExitStatusOfEveryKind(t *testing.T) {
	m := &Main{}
	for kind, want := range map[mainstem.Kind]int{
		mainstem.KindInternal: 1, mainstem.KindNotFound: 3, mainstem.KindExists: 4, mainstem.KindConflict: 4, mainstem.KindInvalid: 1,
		mainstem.KindDenied: 1, mainstem.KindCanceled: 1, mainstem.KindClosed: 1, mainstem.KindCorrupt: 1, mainstem.KindUnavailable: 1,
		mainstem.KindUnsupported: 1,
	} {
		err := fmt.Errorf("wrapped: %w", &mainstem.Error{Kind: kind})
		if got := m.status(err); got != want {
			t.Errorf("%v: exit status %d, want %d", kind, got, want)
		}
		if got := m.status(WrongConfig(err)); got != ExitUsage {
			t.Errorf("%v in the configuration: exit status %d, want %d", kind, got, ExitUsage)
		}
	}
	m.ctxErr = ErrInterrupted
	if got := m.status(&mainstem.Error{Kind: mainstem.KindCanceled}); got != ExitInterrupted {
		t.Errorf("interrupted: exit status %d", got)
	}
	if got := m.status(errors.New("anything")); got != ExitFailed {
		t.Errorf("a plain error: exit status %d", got)
	}
}

// TestInterruptedWriteSaysThatItsOutcomeIsUnknown, and only such a one.
func TestInterruptedWriteSaysThatItsOutcomeIsUnknown(t *testing.T) {
	for outcome, want := range map[mainstem.Outcome]string{
		mainstem.NoOutcome:  "mainstem: interrupted\n",
		mainstem.NotWritten: "mainstem: interrupted\n",
		mainstem.Unknown:    "mainstem: interrupted (outcome unknown: it may have been written)\n",
	} {
		var said strings.Builder
		m := &Main{Stderr: &said, ctxErr: ErrInterrupted}
		err := fmt.Errorf("increment: %w", &mainstem.Error{Kind: mainstem.KindCanceled, Outcome: outcome})
		if status := m.Report(err); status != ExitInterrupted || said.String() != want {
			t.Errorf("%q, status %d, want %q", said.String(), status, want)
		}
	}
}
