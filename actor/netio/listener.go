package netio

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// Address asks a [Listener], a [Socket] or a [Server] where it listens.
type Address struct {
	Reply actor.Reply[net.Addr]

	accepted net.Conn
	taken    actor.Reply[struct{}]
	err      error
	over     bool
}

// Listener is an actor that accepts connections, each of which becomes a child of it, a
// [Conn]. It takes the question for its [Address]. It ends with the error for which it
// cannot accept any more; its connections end with it.
type Listener struct {
	// Network and Address are where it listens: those of net.Listen. Default tcp.
	Network, Address string
	// TLS, if set, makes the connections those of TLS.
	TLS *tls.Config
	// Accept says who gets the events of a connection. It is called in the listener's
	// turn. With an error, the connection is closed.
	Accept func(c *actor.Context[Address], remote net.Addr) (actor.Ref[Event], error)
	// Framing and WriteTimeout are those of the connections.
	Framing      Framing
	WriteTimeout time.Duration
	// Conn are the options of the connections' actors.
	Conn *actor.Options
	// Max is how many connections there may be; more wait with the operating system.
	// Default 0: no limit.
	Max int

	listener net.Listener
	done     chan struct{}
	conns    int
	held     actor.Reply[struct{}] // the acceptor waits for it: there are Max connections
	holds    bool
}

// Start listens. It fails if that fails.
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
		accept(c, c.Self(), listener)
	}()
	return nil
}

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

// accept hands connections over to the actor, one by one.
func accept(ctx context.Context, self actor.Ref[Address], listener net.Listener) {
	for {
		conn, err := acceptOne(ctx, listener)
		if err != nil {
			if ctx.Err() == nil {
				_ = self.SendPriority(ctx, actor.System, Address{err: err, over: true})
			}
			return
		}
		_, err = actor.Ask(ctx, self, func(r actor.Reply[struct{}]) Address { return Address{accepted: conn, taken: r} })
		if err != nil {
			_ = conn.Close() // the actor does not want it, or ends
		}
	}
}

// acceptAgain is the pause while the operating system has no file for a connection.
var acceptAgain = backoff.Policy{First: 5 * time.Millisecond, Max: time.Second}

// acceptOne waits while the operating system has no file for a connection.
func acceptOne(ctx context.Context, listener net.Listener) (net.Conn, error) {
	for failures := 1; ; failures++ {
		conn, err := listener.Accept()
		if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) && !errors.Is(err, syscall.ECONNABORTED) {
			return conn, err
		}
		if !acceptAgain.Wait(ctx, failures) {
			return nil, err
		}
	}
}

// Receive takes a connection over.
func (l *Listener) Receive(c *actor.Context[Address], m Address) error {
	switch {
	case m.over:
		return m.err
	case m.accepted == nil:
		_ = m.Reply.Send(l.listener.Addr()) // whether anybody waits is not our business
		return nil
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

// adopt spawns the actor of a connection.
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

// Stop stops listening.
func (l *Listener) Stop(*actor.Context[Address], error) {
	if l.listener != nil {
		_ = l.listener.Close()
		<-l.done
	}
}
