package testkit

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"
)

// Processes lets processes of a test run, one after another, and kills each. A process is the
// test binary with a variable in its environment: TestMain looks for that, works, and
// returns from [UntilParentEnds].
type Processes struct {
	Env     string             // NAME=value
	Lives   int                // how many processes; 0: until the context ends
	Longest time.Duration      // of what each lives after Begun, at most, but for a tenth
	Begun   func(pid int) bool // reports whether a process is at work; nil: it is killed at any moment
}

// Run returns how many processes it has killed, when they were as many as Lives or until ended.
func (p *Processes) Run(t testing.TB, until context.Context) (killed int) {
	for ; (p.Lives == 0 || killed < p.Lives) && until.Err() == nil; killed++ {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), p.Env)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Error(err)
			return killed
		}
		p.await(t, cmd.Process.Pid)
		Pause(until, p.Longest/10+rand.N(p.Longest))
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it was killed
		_ = in.Close()
	}
	return killed
}

// await waits until a process has begun. It fails the test in any goroutine.
func (p *Processes) await(t testing.TB, pid int) {
	if p.Begun == nil || poll(func() bool { return p.Begun(pid) || t.Context().Err() != nil }) {
		return
	}
	t.Errorf("not after %v: process %d at work", Patience, pid)
}

// UntilParentEnds returns when the test that has started this process ends, however it does.
func UntilParentEnds() { _, _ = io.Copy(io.Discard, os.Stdin) }

// Pause waits between the steps of what runs beside a test, but not after ctx has ended.
func Pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}
