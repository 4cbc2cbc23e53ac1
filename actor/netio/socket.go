package netio

import (
	"bytes"
	"net"
	"net/netip"

	"github.com/mainstemdev/mainstem/actor"
)

// MaxDatagram is how many bytes of a datagram are read.
const MaxDatagram = 64 << 10

// Datagram is what a [Socket] receives and sends. As a question for an [Address], it is
// not sent.
type Datagram struct {
	Peer  netip.AddrPort // who sent it, or gets it
	Bytes []byte
	// Where, if asked for, is answered with the socket's address instead of sending.
	Where actor.Reply[net.Addr]

	from *net.UDPConn // the socket's end, for err
	err  error
}

// Socket is an actor that owns a UDP socket. A datagram that cannot be sent is
// logged, as one that is lost on the way would be nobody's fault. A datagram that the receiver cannot
// take is a dead letter. The actor ends when it cannot receive any more.
type Socket struct {
	// Address is where it listens, like that of net.ListenUDP. "" lets the system choose.
	Address string
	// To gets what is received.
	To actor.Ref[Datagram]

	conn *net.UDPConn
	done chan struct{}
}

// Start opens the socket. It fails if that fails.
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
		_ = self.SendPriority(c, actor.System, Datagram{from: conn, err: err}) // it may have ended
	}()
	return nil
}

func (s *Socket) read(c *actor.Context[Datagram], conn *net.UDPConn) error {
	buf := make([]byte, MaxDatagram)
	for {
		n, peer, err := conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return err
		}
		peer = netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port())
		_ = s.To.Send(c, Datagram{Peer: peer, Bytes: bytes.Clone(buf[:n])}) // a dead letter then
	}
}

// Receive sends a datagram.
func (s *Socket) Receive(c *actor.Context[Datagram], m Datagram) error {
	switch {
	case m.from == s.conn:
		return m.err
	case m.from != nil:
		return nil // of an incarnation before
	case m.Where.Asked():
		_ = m.Where.Send(s.conn.LocalAddr()) // whether anybody waits is not our business
		return nil
	}
	if _, err := s.conn.WriteToUDPAddrPort(m.Bytes, m.Peer); err != nil && c.Err() == nil {
		c.Log().Warn("a datagram is not sent", "peer", m.Peer.String(), "err", err)
	}
	return nil
}

// Stop closes the socket.
func (s *Socket) Stop(*actor.Context[Datagram], error) {
	if s.conn != nil {
		_ = s.conn.Close()
		<-s.done
	}
}
