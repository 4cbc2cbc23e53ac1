package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
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
