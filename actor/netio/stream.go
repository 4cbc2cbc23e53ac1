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
	MaxFrame     = 1 << 20  // bytes of a frame, if the Framing has no limit of its own
	largestFrame = 1 << 30  // what that limit can be
	chunk        = 32 << 10 // the most that is read at once without frames
)

// Kind says what an [Event] is about.
type Kind uint8

// The kinds.
const (
	Opened    Kind = iota // the connection stands, the program runs
	Data                  // something was read
	ErrorData             // something was read from the standard error of a program
	Closed                // nothing more will be read: the last event
)

// String returns the kind's name in lower case.
func (k Kind) String() string {
	if k > Closed {
		return "unknown kind"
	}
	return [...]string{"opened", "data", "error data", "closed"}[k]
}

// Event is what a [Conn] or a [Process] sends to its receiver.
type Event struct {
	Kind  Kind
	From  actor.Ref[Command] // the actor that owns the connection or process: to write to it
	Peer  string             // the remote address, or the program
	Bytes []byte             // of Data and ErrorData: a frame, without what ends it
	Err   error              // of Closed: nil if the peer closed, or the program ended well
}

// Command is what a [Conn] or a [Process] does: it writes Bytes, then closes what it
// writes to, then sends a signal, as far as that is asked for.
type Command struct {
	Bytes []byte
	// Close closes the sending side of a connection or the standard input of a process.
	Close bool
	// Signal is for a process.
	Signal os.Signal
	// Done, if asked for, is answered when all that has happened: the bytes are
	// with the operating system.
	Done actor.Reply[struct{}]

	over *stream // reading has ended, for reason
	err  error
}

// Framing says how a stream of bytes is cut into frames. The zero Framing does not
// cut: an Event has whatever was there.
type Framing struct {
	// Split cuts, like that of a bufio.Scanner.
	Split bufio.SplitFunc
	// Max is how many bytes a frame may have, up to 1 GiB; a longer one ends the actor.
	// Default [MaxFrame].
	Max int
}

// Lines cuts at line ends, which are not part of the frames.
func Lines() Framing { return Framing{Split: bufio.ScanLines} }

// stream reads for one incarnation of an actor.
type stream struct {
	ctx     context.Context // of the incarnation
	self    actor.Ref[Command]
	to      actor.Ref[Event]
	peer    string
	framing Framing
	done    chan struct{} // closed when all goroutines of the stream have ended
}

// check returns an Invalid error if events would go nowhere or frames have no room.
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

// guard calls f, which runs code of the user in a goroutine of ours, and turns a
// panic into an error: it ends the actor, not the program.
func guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &actor.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}

func (s *stream) tell(kind Kind, data []byte, err error) error {
	return s.to.Send(s.ctx, Event{Kind: kind, From: s.self, Peer: s.peer, Bytes: data, Err: err})
}

// open sends the first event.
func (s *stream) open() error {
	return guard(func() error { return s.tell(Opened, nil, nil) })
}

// read sends what r yields as events until it ends. The error of a clean end is nil.
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
	// A Scanner needs room for what ends a frame too, and never reads beyond it.
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

// finish sends the last event and lets the actor end.
func (s *stream) finish(err error) {
	if s.ctx.Err() != nil {
		err = nil // it was closed because the actor ends
	}
	if failed := guard(func() error { return s.tell(Closed, nil, err) }); err == nil {
		err = failed
	}
	close(s.done)
	_ = s.self.SendPriority(s.ctx, actor.System, Command{over: s, err: err}) // it may have ended
}

// ended returns the reason for which an actor whose reading has ended ends.
func (m Command) ended(now *stream) (reason error, is bool) {
	switch {
	case m.over == nil:
		return nil, false
	case m.over != now:
		return nil, true // of an incarnation before
	case m.err == nil:
		return actor.Normal, true
	}
	return m.err, true
}
