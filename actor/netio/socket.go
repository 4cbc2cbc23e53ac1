package netio

import (
	"bytes"
	"net"
	"net/netip"

	"github.com/mainstemdev/mainstem/actor"
)

// MaxDatagram is the greatest number of bytes of a datagram that are received.
const MaxDatagram = 64 << 10

// Datagram is the message type of a [Socket], which sends it, and of the receiver of a Socket. With
// a Where it is a question for the address of the Socket, and is not sent.
type Datagram struct {
	Peer  netip.AddrPort // the receiver of one that is sent, the sender of one that was received
	Bytes []byte
	// Where, if it is not zero, is answered with the socket's address.
	Where actor.Reply[net.Addr]

	// From the goroutine that reads: receiving from the socket from has ended with err.
	from *net.UDPConn
	err  error
}

// Socket is an actor that owns a UDP socket. A datagram that cannot be sent is logged and does not
// end the actor, since UDP may lose datagrams anyway. A received datagram for which the receiver
// has no room is treated as the overflow policy of the receiver says; with Block nothing is
// received meanwhile. The exit reason is the error of receiving. Set its exported fields and spawn
// it.
type Socket struct {
	// Address is the local address, host:port, as for net.ListenPacket. "" lets the system choose.
	Address string
	// To is the receiver of datagrams. It must be set.
	To actor.Ref[Datagram]

	conn *net.UDPConn
	done chan struct{} // closed when the goroutine that reads has ended; nil until Start opens the socket
}

// Start opens the socket. It fails with Invalid if To is not set, or with the error of opening it.
func (s *Socket) Start(c *actor.Context[Datagram]) error {
	if s.To.IsZero() {
		return invalidf("there is nobody to send datagrams to: To is not set")
	}
	var lc net.ListenConfig
	pc, err := lc.ListenPacket(c, "udp", s.Address)
	if err != nil {
		return err
	}
	conn := pc.(*net.UDPConn)
	s.conn, s.done = conn, make(chan struct{})
	ending, self, done := c.Done(), c.Self(), s.done
	go func() {
		<-ending
		_ = conn.Close()
	}()
	go func() {
		defer close(done)
		err := guard(func() error { return s.read(c, conn) })
		_ = self.SendPriority(c, actor.System, Datagram{from: conn, err: err}) // fails if it has ended
	}()
	return nil
}

// read receives datagrams and sends them to the receiver until receiving fails. It returns that
// error.
func (s *Socket) read(c *actor.Context[Datagram], conn *net.UDPConn) error {
	buf := make([]byte, MaxDatagram)
	for {
		n, peer, err := conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return err
		}
		peer = netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port())
		_ = s.To.Send(c, Datagram{Peer: peer, Bytes: bytes.Clone(buf[:n])}) // else it is a dead letter
	}
}

// Receive sends a datagram, answers the question for the address, or ends the actor if receiving
// has ended.
func (s *Socket) Receive(c *actor.Context[Datagram], m Datagram) error {
	switch {
	case m.from == s.conn:
		return m.err
	case m.from != nil:
		return nil // of an earlier incarnation
	case m.Where.Asked():
		_ = m.Where.Send(s.conn.LocalAddr()) // fails if nobody waits any more
		return nil
	}
	if _, err := s.conn.WriteToUDPAddrPort(m.Bytes, m.Peer); err != nil && c.Err() == nil {
		c.Log().Warn("a datagram is not sent", "peer", m.Peer.String(), "err", err)
	}
	return nil
}

// Stop closes the socket and waits for the goroutine that reads.
func (s *Socket) Stop(*actor.Context[Datagram], error) {
	if s.conn != nil {
		_ = s.conn.Close()
		<-s.done
	}
}
