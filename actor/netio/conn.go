package netio

import (
	"context"
	"net"
	"time"

	"github.com/mainstemdev/mainstem/actor"
)

// Conn is an actor that owns a connection. It ends for the reason Normal when the
// peer closes the connection, for the error when reading or writing fails.
type Conn struct {
	// Dial makes the connection when the actor starts.
	Dial func(ctx context.Context) (net.Conn, error)
	// To gets the events.
	To actor.Ref[Event]
	// Framing cuts what is read.
	Framing Framing
	// WriteTimeout is how long a write may take. Default 0: as long as it likes.
	WriteTimeout time.Duration

	conn   net.Conn
	stream *stream
}

// Dial returns a function for [Conn.Dial].
func Dial(network, address string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}
}

// Start dials and begins to read. It fails with the error of Dial.
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
		_ = guard(conn.Close) // what was written is with the operating system
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

// Receive writes.
func (a *Conn) Receive(c *actor.Context[Command], m Command) error {
	if reason, is := m.ended(a.stream); is {
		if reason != nil {
			c.Stop(reason)
		}
		return nil
	}
	if a.WriteTimeout > 0 {
		if err := a.conn.SetWriteDeadline(time.Now().Add(a.WriteTimeout)); err != nil {
			return err
		}
	}
	if _, err := a.conn.Write(m.Bytes); err != nil {
		if c.Err() != nil {
			return nil // it was closed because the actor is asked to end, which comes next
		}
		return err
	}
	if m.Close {
		half, ok := a.conn.(interface{ CloseWrite() error })
		if !ok {
			return invalidf("a %T cannot close one side", a.conn)
		}
		if err := half.CloseWrite(); err != nil {
			return err
		}
	}
	if m.Signal != nil {
		_ = m.Done.Fail(invalidf("a connection takes no signal: %s", m.Signal))
		return nil
	}
	_ = m.Done.Send(struct{}{}) // whether anybody waits is not our business
	return nil
}

// Stop closes the connection.
func (a *Conn) Stop(*actor.Context[Command], error) {
	if a.conn != nil {
		_ = a.conn.Close()
		<-a.stream.done
	}
}
