package netio

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/internal/accept"
)

// Address is the question to a [Listener] or a [Server] for the address on which it listens. A
// [Socket] has a field of [Datagram] for it.
type Address struct {
	Reply actor.Reply[net.Addr]

	// From a goroutine of a Listener or a Server: the listener of its incarnation, with a connection
	// and the reply that lets the acceptor accept the next one, or with the error with which
	// accepting or serving has ended.
	from     net.Listener
	accepted net.Conn
	taken    actor.Reply[struct{}]
	err      error
}

// Listener is an actor that accepts connections. The actor of each one, a [Conn], is a child of it,
// which it does not restart. Its only message is the question for its [Address]. Its exit reason is
// the error of accepting if that fails; its connections end with it. Set its exported fields and
// spawn it.
//
// A goroutine, the acceptor, accepts a connection, sends it to the actor, and waits for the answer
// before it accepts the next one. While there are Max connections, the actor does not answer.
type Listener struct {
	// Network and Address are the arguments of net.Listen. Default of Network: tcp.
	Network, Address string
	// TLS, if set, makes the connections those of TLS. The handshake is made by the first read.
	TLS *tls.Config
	// Accept returns the receiver of the events of a connection. It is called in the listener's
	// turn. After an error the connection is closed, and the error logged. It must be set.
	Accept func(c *actor.Context[Address], remote net.Addr) (actor.Ref[Event], error)
	// Framing and WriteTimeout are those of the connections; see [Conn].
	Framing      Framing
	WriteTimeout time.Duration
	// Conn are the options of the connections' actors. Name must be empty, since names are unique.
	Conn *actor.Options
	// Max is the greatest number of connections; further ones wait in the queue of the operating
	// system. Default 0: no limit.
	Max int

	listener net.Listener
	done     chan struct{}         // closed when the acceptor has ended; nil until Start listens
	conns    int                   // connections whose actors have not ended
	held     actor.Reply[struct{}] // if holds: the answer for which the acceptor waits
	holds    bool
}

// Start listens. It fails with Invalid if Accept is not set, or with the error of listening.
func (l *Listener) Start(c *actor.Context[Address]) error {
	if l.Accept == nil {
		return invalidf("Listener.Accept is not set")
	}
	listener, err := listen(c, l.Network, l.Address, l.TLS)
	if err != nil {
		return err
	}
	l.listener, l.done = listener, make(chan struct{})
	ending := c.Done()
	go func() {
		<-ending
		_ = listener.Close()
	}()
	go func() {
		defer close(l.done)
		acceptAll(c, c.Self(), listener)
	}()
	return nil
}

// listen returns a listener, of TLS if config is not nil.
func listen(ctx context.Context, network, address string, config *tls.Config) (net.Listener, error) {
	if network == "" {
		network = "tcp"
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, network, address)
	if err == nil && config != nil {
		listener = tls.NewListener(listener, config)
	}
	return listener, err
}

// acceptAll is the acceptor: it passes connections to the actor, one by one, until the listener is
// closed.
func acceptAll(ctx context.Context, self actor.Ref[Address], listener net.Listener) {
	for {
		conn, err := accept.Next(ctx, listener.Accept, nil)
		if err != nil {
			if ctx.Err() == nil {
				_ = self.SendPriority(ctx, actor.System, Address{from: listener, err: err})
			}
			return
		}
		_, err = actor.Ask(ctx, self, func(r actor.Reply[struct{}]) Address {
			return Address{from: listener, accepted: conn, taken: r}
		})
		if err != nil {
			_ = conn.Close() // the actor has refused it, or is ending
		}
	}
}

// Receive answers the question for the address, takes a connection from the acceptor, or ends the
// actor if accepting has failed.
func (l *Listener) Receive(c *actor.Context[Address], m Address) error {
	switch {
	case m.from == nil:
		_ = m.Reply.Send(l.listener.Addr()) // fails if nobody waits any more
		return nil
	case m.from != l.listener:
		return nil // of an earlier incarnation, whose acceptor has ended and closed the connection
	case m.accepted == nil:
		return m.err
	}
	if err := l.adopt(c, m.accepted); err != nil {
		c.Log().Warn("a connection is refused", "remote", m.accepted.RemoteAddr().String(), "err", err)
		_ = m.taken.Fail(err)
		return nil
	}
	if l.Max > 0 && l.conns >= l.Max {
		l.held, l.holds = m.taken, true
		return nil
	}
	_ = m.taken.Send(struct{}{})
	return nil
}

// adopt spawns the actor of a connection and monitors it.
func (l *Listener) adopt(c *actor.Context[Address], conn net.Conn) error {
	to, err := l.Accept(c, conn.RemoteAddr())
	if err != nil {
		return err
	}
	ref, err := actor.Spawn(c, &Conn{
		Dial: func(context.Context) (net.Conn, error) { return conn, nil },
		To:   to, Framing: l.Framing, WriteTimeout: l.WriteTimeout,
	}, l.Conn)
	if err != nil {
		return err
	}
	l.conns++
	c.Monitor(ref, func(actor.Down) error {
		l.conns--
		if l.holds {
			l.holds = false
			_ = l.held.Send(struct{}{})
		}
		return nil
	})
	return nil
}

// Stop stops listening and waits for the acceptor.
func (l *Listener) Stop(*actor.Context[Address], error) {
	if l.listener != nil {
		_ = l.listener.Close()
		<-l.done
	}
}
