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

// DefaultGrace is how long a program may take to end after it was interrupted.
const DefaultGrace = 3 * time.Second

// Process is an actor that owns a process of the operating system. It ends when the
// process has: for the reason Normal if that succeeded, else for an *exec.ExitError. When the
// actor is asked to end, the process gets an interrupt, and is killed after its Grace;
// processes that it has started itself are its own business.
type Process struct {
	// Path is the program, Args its arguments, without its name.
	Path string
	Args []string
	// Dir and Env are the folder and environment; defaults: those of this program.
	Dir string
	Env []string
	// To gets the events: what the process writes to its standard output as Data, to its
	// standard error as ErrorData.
	To actor.Ref[Event]
	// Framing cuts both. Usually [Lines].
	Framing Framing
	// Grace is how long it may take to end after an interrupt. Default [DefaultGrace]. The
	// actor's own Grace should be longer.
	Grace time.Duration

	cmd    *exec.Cmd
	input  io.WriteCloser
	stream *stream
}

// Start starts the program. It fails if that fails.
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
			_ = cmd.Process.Kill() // nobody reads what it writes
		}
		exit := cmd.Wait()
		if err == nil {
			err = exit
		}
		s.finish(err)
	}()
	return nil
}

// end ends the process when the actor is asked to end.
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
		_ = pipe.Close() // processes that it has started may still have the other end
	}
}

// Receive writes to the standard input, and signals.
func (p *Process) Receive(c *actor.Context[Command], m Command) error {
	if reason, is := m.ended(p.stream); is {
		if reason != nil {
			c.Stop(reason)
		}
		return nil
	}
	if err := p.do(m); err != nil {
		_ = m.Done.Fail(err) // a process that has ended says so itself
		return nil
	}
	_ = m.Done.Send(struct{}{}) // whether anybody waits is not our business
	return nil
}

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
