package netio

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"runtime/debug"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
)

// Limits.
const (
	MaxFrame     = 1 << 20  // default of Framing.Max, in bytes
	largestFrame = 1 << 30  // the greatest Framing.Max, in bytes
	chunk        = 32 << 10 // bytes that are read at once without frames, at most
)

// Kind is the kind of an [Event].
type Kind uint8

// The kinds.
const (
	Opened    Kind = iota // the connection is made, or the program is started: the first event
	Data                  // bytes were read
	ErrorData             // bytes were read from the standard error of a program
	Closed                // nothing more will be read: the last event
)

// String returns the kind's name in lower case.
func (k Kind) String() string {
	if k > Closed {
		return "unknown kind"
	}
	return [...]string{"opened", "data", "error data", "closed"}[k]
}

// Event is the message that a [Conn] or a [Process] sends to its receiver.
type Event struct {
	Kind  Kind
	From  actor.Ref[Command] // the actor that sends the event; commands to it write to the same peer
	Peer  string             // the remote address, or the path of the program
	Bytes []byte             // of Data and ErrorData: a frame, without its end, or bytes as they came
	Err   error              // of Closed: nil if the peer closed, the program succeeded, or the actor ends
}

// Command is the message type of a [Conn] and a [Process]. It writes Bytes, then closes, then sends
// a signal, as far as the fields ask for that.
type Command struct {
	Bytes []byte
	// Close closes the sending side of a connection, or the standard input of a process. A
	// connection that cannot close one side ends with Invalid.
	Close bool
	// Signal is sent to the process. A Conn answers Done with Invalid.
	Signal os.Signal
	// Done, if it is not zero, is answered when all this has been done; the bytes are with the
	// operating system then.
	Done actor.Reply[struct{}]

	// From stream.finish: reading from the stream over has ended, with err.
	over *stream
	err  error
}

// Framing says how a stream of bytes is cut into frames, each of which is an [Event]. The zero
// Framing does not cut: an Event has the bytes of one read.
type Framing struct {
	// Split finds the frames, as for a bufio.Scanner.
	Split bufio.SplitFunc
	// Max is the greatest number of bytes of a frame, up to 1 GiB; a longer one ends the actor with
	// bufio.ErrTooLong. Default [MaxFrame].
	Max int
}

// Lines is the framing by lines. The frames have no line ends.
func Lines() Framing { return Framing{Split: bufio.ScanLines} }

// stream is the reading side of one incarnation of a Conn or Process. Its goroutines send Opened
// (open), then data (read), then Closed, and at last the message that ends the actor (finish).
type stream struct {
	ctx     context.Context    // the Context of the actor
	self    actor.Ref[Command] // the actor
	to      actor.Ref[Event]   // the receiver
	peer    string             // Event.Peer
	framing Framing
	done    chan struct{} // closed when the goroutines of the stream send no more events
}

// check returns an Invalid error if there is no receiver or the limit of frames is wrong.
func (s *stream) check() error {
	switch {
	case s.to.IsZero():
		return invalidf("there is nobody to send events to: To is not set")
	case s.framing.Max < 0 || s.framing.Max > largestFrame:
		return invalidf("Framing.Max is %d: want 0 (the default) to %d", s.framing.Max, largestFrame)
	}
	return nil
}

func invalidf(format string, args ...any) error {
	return mainstem.Errorf(mainstem.KindInvalid, "input and output", format, args...)
}

// guard calls f, which may call functions of the program, in a goroutine of this package. It
// returns a panic as an error, which ends the actor instead of the program.
func guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &actor.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}

// tell sends an event to the receiver.
func (s *stream) tell(kind Kind, data []byte, err error) error {
	return s.to.Send(s.ctx, Event{Kind: kind, From: s.self, Peer: s.peer, Bytes: data, Err: err})
}

// open sends the first event.
func (s *stream) open() error {
	return guard(func() error { return s.tell(Opened, nil, nil) })
}

// read reads from r and sends the bytes as events. It returns nil at io.EOF, or the error of
// reading or of the receiver.
func (s *stream) read(r io.Reader, kind Kind) error {
	return guard(func() error {
		if s.framing.Split != nil {
			return s.readFrames(r, kind)
		}
		return s.readChunks(r, kind)
	})
}

func (s *stream) readChunks(r io.Reader, kind Kind) error {
	buf := make([]byte, chunk)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if err := s.tell(kind, bytes.Clone(buf[:n]), nil); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

func (s *stream) readFrames(r io.Reader, kind Kind) error {
	limit := s.framing.Max
	if limit == 0 {
		limit = MaxFrame
	}
	frames := bufio.NewScanner(r)
	// The buffer of a Scanner must also have room for the end of a line, "\r\n".
	frames.Buffer(nil, limit+2)
	frames.Split(s.framing.Split)
	for frames.Scan() {
		frame := frames.Bytes()
		if len(frame) > limit {
			return bufio.ErrTooLong
		}
		if err := s.tell(kind, append([]byte{}, frame...), nil); err != nil {
			return err
		}
	}
	return frames.Err()
}

// finish sends the last event, closes done, and sends the actor the message that ends it.
func (s *stream) finish(err error) {
	if s.ctx.Err() != nil {
		err = nil // reading has ended because the actor is asked to end
	}
	if failed := guard(func() error { return s.tell(Closed, nil, err) }); err == nil {
		err = failed
	}
	close(s.done)
	_ = s.self.SendPriority(s.ctx, actor.System, Command{over: s, err: err}) // fails if it has ended
}

// ended reports whether m is the message of finish, and returns the exit reason, which is nil if m
// is of an earlier incarnation. now is the stream of the present one.
func (m Command) ended(now *stream) (reason error, is bool) {
	switch {
	case m.over == nil:
		return nil, false
	case m.over != now:
		return nil, true // of an earlier incarnation
	case m.err == nil:
		return actor.Normal, true
	}
	return m.err, true
}
