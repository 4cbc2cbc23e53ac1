package leasecmd

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/lease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestStatusOfACommand is that of the command, or says which signal has ended it.
func TestStatusOfACommand(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -9 $$": 137, "exec sleep 1000": 143} {
		h := &hold{commands: commands{&cli.Main{Stdin: strings.NewReader(""), Stdout: new(testkit.Lines), Stderr: new(testkit.Lines)}}}
		p, err := h.start("/bin/sh", []string{"sh", "-c", script}, new(lease.Lease))
		if err != nil {
			t.Fatal(err)
		}
		if want == 143 {
			p.stop(time.Minute)
		}
		<-p.done
		if got := p.status(); got != want {
			t.Errorf("%s: status %d, want %d", script, got, want)
		}
	}
}

func TestCommandThatCannotBeStarted(t *testing.T) {
	h := &hold{commands: commands{&cli.Main{}}}
	if _, err := h.start(t.TempDir(), []string{"x"}, new(lease.Lease)); err == nil {
		t.Error("a directory is run")
	}
}
