package leasecmd

import (
	"errors"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/mainstemdev/mainstem/lease"
)

// Exit statuses of commands that could not be run, as shells have them.
const (
	cannotRun  = 126
	noCommand  = 127
	signalBase = 128 // and the number of the signal
)

// process is the command while it runs.
type process struct {
	cmd   *exec.Cmd
	group bool          // it leads a process group of its own
	done  chan struct{} // closed when it has ended
	err   error         // of Wait; set before done is closed
}

// start starts the command. A goroutine waits for its end.
func (h *hold) start(path string, argv []string, l *lease.Lease) (*process, error) {
	// At a terminal it stays in the group of this process, which is the one that may read there.
	p := &process{cmd: exec.Command(path, argv[1:]...), group: !h.Person, done: make(chan struct{})}
	p.cmd.Args[0] = argv[0]
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = h.Stdin, h.Stdout, h.Stderr
	p.cmd.Env = append(append([]string{}, h.Env...), "LEASE_NAME="+l.Key(), "LEASE_EPOCH="+strconv.FormatUint(l.Epoch(), 10))
	p.cmd.SysProcAttr = attributes(p.group)
	p.cmd.WaitDelay = time.Second // for pipes that a process of its own holds open
	started := make(chan error, 1)
	go func() {
		// The signal at the death of the parent, where there is one, is that of the thread that has
		// started the command: the thread must live as long.
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.done)
		}
	}()
	return p, <-started
}

// stop ends the command: SIGTERM, and SIGKILL if it has not ended within grace. Where it has a
// group, processes that it leaves behind are killed too.
func (p *process) stop(grace time.Duration) {
	p.signal(syscall.SIGTERM)
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
	}
	if p.group {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // mostly none is left; the number is not used again while one is
	} else {
		p.signal(syscall.SIGKILL)
	}
	<-p.done
}

func (p *process) signal(s syscall.Signal) {
	if p.group {
		_ = syscall.Kill(-p.cmd.Process.Pid, s) // it has ended already
		return
	}
	_ = p.cmd.Process.Signal(s) // it has ended already
}

// status returns the exit status of the command, which has ended.
func (p *process) status() int {
	var exit *exec.ExitError
	switch {
	case p.err == nil || errors.Is(p.err, exec.ErrWaitDelay):
		return p.cmd.ProcessState.ExitCode()
	case !errors.As(p.err, &exit):
		return cannotRun
	}
	if w, ok := exit.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return signalBase + int(w.Signal())
	}
	return exit.ExitCode()
}
