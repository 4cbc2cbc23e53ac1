package netio

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem/actor"
)

// DefaultGrace is the default of [Process.Grace] and [Server.Grace].
const DefaultGrace = 3 * time.Second

// Process is an actor that owns a process of the operating system, like a port of Erlang. It ends
// when the process has ended and its outputs are closed, for which a process that it has started,
// and that still has them open, must end, too. Its exit reason is Normal if the process has
// succeeded, else an *exec.ExitError, or the error of reading or of the receiver, after which the
// process is killed.
//
// When the actor is asked to end, the process gets an interrupt, and is killed after Grace.
// Processes that it has started itself are not ended. Set its exported fields and spawn it.
type Process struct {
	// Path is the program, Args are its arguments, without its name; see exec.Command.
	Path string
	Args []string
	// Dir and Env are the directory and the environment. Default: those of this program.
	Dir string
	Env []string
	// To is the receiver of the events: bytes of the standard output are Data, those of the
	// standard error ErrorData. The two have no order among them. It must be set.
	To actor.Ref[Event]
	// Framing says how both outputs are cut into events, usually [Lines]. Default: not at all.
	Framing Framing
	// Grace is the time from the interrupt to the kill. Default [DefaultGrace]. Options.Grace of
	// the actor should be longer.
	Grace time.Duration

	cmd    *exec.Cmd      // nil until Start has started the program; so are the others
	input  io.WriteCloser // its standard input
	stream *stream
}

// Start starts the program. It fails with Invalid if a field is wrong, or with the error of
// starting it.
func (p *Process) Start(c *actor.Context[Command]) error {
	s := &stream{ctx: c, self: c.Self(), to: p.To, peer: p.Path, framing: p.Framing, done: make(chan struct{})}
	if err := s.check(); err != nil {
		return err
	}
	cmd := exec.Command(p.Path, p.Args...)
	cmd.Dir, cmd.Env = p.Dir, p.Env
	input, err1 := cmd.StdinPipe()
	output, err2 := cmd.StdoutPipe()
	errput, err3 := cmd.StderrPipe()
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.input, p.stream = cmd, input, s
	go p.end(c.Done(), s.done, output, errput)
	go func() {
		err := s.open()
		var outErr, errErr error
		if err == nil {
			var readers sync.WaitGroup
			readers.Go(func() { outErr = s.read(output, Data) })
			readers.Go(func() { errErr = s.read(errput, ErrorData) })
			readers.Wait()
		}
		if err = errors.Join(err, outErr, errErr); err != nil {
			_ = cmd.Process.Kill() // nobody reads its output any more
		}
		exit := cmd.Wait()
		if err == nil {
			err = exit
		}
		s.finish(err)
	}()
	return nil
}

// end ends the process when the actor is asked to end: by an interrupt, and after Grace by a kill.
// It returns when the process has ended by itself.
func (p *Process) end(ending, done <-chan struct{}, pipes ...io.Closer) {
	grace := p.Grace
	if grace == 0 {
		grace = DefaultGrace
	}
	select {
	case <-ending:
	case <-done:
		return
	}
	_ = p.cmd.Process.Signal(os.Interrupt)
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-t.C:
	case <-done:
		return
	}
	_ = p.cmd.Process.Kill()
	for _, pipe := range pipes {
		_ = pipe.Close() // else the readers would wait for processes that have the other end open
	}
}

// Receive runs a command. An error of it is an answer to Done and does not end the actor.
func (p *Process) Receive(c *actor.Context[Command], m Command) error {
	if reason, is := m.ended(p.stream); is {
		if reason != nil {
			c.Stop(reason)
		}
		return nil
	}
	if err := p.do(m); err != nil {
		_ = m.Done.Fail(err) // fails if nobody waits any more
		return nil
	}
	_ = m.Done.Send(struct{}{}) // fails if nobody waits any more
	return nil
}

// do writes, closes and signals, in this order, up to the first error.
func (p *Process) do(m Command) error {
	if len(m.Bytes) > 0 {
		if _, err := p.input.Write(m.Bytes); err != nil {
			return err
		}
	}
	if m.Close {
		if err := p.input.Close(); err != nil {
			return err
		}
	}
	if m.Signal != nil {
		return p.cmd.Process.Signal(m.Signal)
	}
	return nil
}

// Stop waits until the process has ended.
func (p *Process) Stop(*actor.Context[Command], error) {
	if p.stream != nil {
		<-p.stream.done
	}
}
