package netio

import (
	"context"
	"net"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
)

// Conn is an actor that owns a connection. Its exit reason is Normal when the peer has closed the
// connection, or the error of reading or writing. Set its exported fields and spawn it. The value
// is for one incarnation.
type Conn struct {
	// Dial makes the connection, in the Start method of the actor. It must be set. Its ctx ends
	// when the actor is asked to end.
	Dial func(ctx context.Context) (net.Conn, error)
	// To is the receiver of the events. It must be set.
	To actor.Ref[Event]
	// Framing says how the received bytes are cut into events. Default: not at all.
	Framing Framing
	// WriteTimeout is the time limit of a write; to exceed it is an error of writing. Default 0: no
	// limit.
	WriteTimeout time.Duration

	conn   net.Conn // nil until Start has dialled
	stream *stream  // nil until Start has dialled
}

// Dial returns a function for [Conn.Dial] that dials an address as net.Dial does.
func Dial(network, address string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}
}

// Start dials and begins to read. It fails with Invalid if a field is wrong, or with the error of
// Dial.
func (a *Conn) Start(c *actor.Context[Command]) error {
	if a.Dial == nil {
		return invalidf("Conn.Dial is not set")
	}
	s := &stream{ctx: c, self: c.Self(), to: a.To, framing: a.Framing, done: make(chan struct{})}
	if err := s.check(); err != nil {
		return err
	}
	conn, err := a.Dial(c)
	if err != nil {
		return err
	}
	s.peer = conn.RemoteAddr().String()
	a.conn, a.stream = conn, s
	ending := c.Done()
	go func() {
		<-ending
		_ = guard(conn.Close) // the bytes that were written are with the operating system
	}()
	go func() {
		err := s.open()
		if err == nil {
			err = s.read(conn, Data)
		}
		s.finish(err)
	}()
	return nil
}

// Receive runs a command. If it fails because the actor is asked to end meanwhile, Done gets Closed.
func (a *Conn) Receive(c *actor.Context[Command], m Command) error {
	if reason, is := m.ended(a.stream); is {
		if reason != nil {
			c.Stop(reason)
		}
		return nil
	}
	if err := a.do(m); err != nil {
		if c.Err() == nil {
			return err
		}
		// conn was closed because the actor is asked to end; the signal is handled next.
		_ = m.Done.Fail(&mainstem.Error{Kind: mainstem.KindClosed, Op: "write to " + a.stream.peer, Err: err})
		return nil
	}
	if m.Signal != nil {
		_ = m.Done.Fail(invalidf("a connection takes no signal: %s", m.Signal))
		return nil
	}
	_ = m.Done.Send(struct{}{}) // fails if nobody waits any more
	return nil
}

// do writes and closes the sending side, in this order, up to the first error.
func (a *Conn) do(m Command) error {
	if a.WriteTimeout > 0 {
		if err := a.conn.SetWriteDeadline(time.Now().Add(a.WriteTimeout)); err != nil {
			return err
		}
	}
	if _, err := a.conn.Write(m.Bytes); err != nil {
		return err
	}
	if m.Close {
		half, ok := a.conn.(interface{ CloseWrite() error })
		if !ok {
			return invalidf("a %T cannot close one side", a.conn)
		}
		return half.CloseWrite()
	}
	return nil
}

// Stop closes the connection and waits for the goroutine that reads.
func (a *Conn) Stop(*actor.Context[Command], error) {
	if a.conn != nil {
		_ = a.conn.Close()
		<-a.stream.done
	}
}
