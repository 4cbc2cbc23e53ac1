package java

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
)

// Program is a JVM that runs a program of its own until it is stopped or killed. One
// goroutine at a time may use it.
type Program struct {
	cmd    *exec.Cmd
	output tail
}

// Start starts the class of a version. Its warnings and errors are in the output.
func Start(ctx context.Context, version, class string, args ...string) (*Program, error) {
	cmd, err := command(ctx, version, "warn", class, args...)
	if err != nil {
		return nil, err
	}
	p := &Program{cmd: cmd}
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start java %s: %w", class, err)
	}
	return p, nil
}

// Output is the end of what the program has written so far.
func (p *Program) Output() string { return p.output.String() }

// Kill ends the program as kill -9 does. A program that has ended is no error.
func (p *Program) Kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // reports the signal
}

// Stop asks the program to end and waits for it.
func (p *Program) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	err := p.cmd.Wait()
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.ExitCode() == 128+int(syscall.SIGTERM) {
		return nil // how a JVM ends by this signal
	}
	return err
}
