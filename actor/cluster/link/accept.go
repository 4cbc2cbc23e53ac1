package link

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem/actor/cluster/link/internal/frame"
	"github.com/mainstemdev/mainstem/internal/accept"
)

// accept accepts connections until the listener is closed.
func (e *Endpoint) accept() {
	defer e.running.Done()
	failed := func(_ int, err error) { e.log.warn("cannot accept connections: trying again", "err", err) }
	for {
		c, err := accept.Next(e.life, e.listener.Accept, failed)
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				e.log.warn("no more connections are accepted", "err", err)
			}
			return
		}
		if !e.enter(c) { // not in the goroutine: e.shaking is in the order of arrival
			_ = c.Close()
			continue
		}
		e.running.Add(1)
		go e.welcome(c)
	}
}

// welcome is the goroutine of an accepted connection. It ends when the connection carries a stream
// or was refused.
func (e *Endpoint) welcome(raw net.Conn) {
	defer e.running.Done()
	err := e.shakeHands(raw)
	e.leave(raw)
	if err == nil {
		return
	}
	defer raw.Close() // after the log line: the reason is in the log when the dialer sees the close
	host, _, _ := net.SplitHostPort(raw.RemoteAddr().String())
	if !errors.Is(err, io.EOF) || errors.Is(err, ErrRefused) { // not if it was a probe of the port
		e.log.warnOf(host, "refused a connection", "from", raw.RemoteAddr(), "err", err)
	}
}

// enter adds an accepted connection to those that have proven nothing. If there are
// Options.MaxHandshakes, it closes the oldest. It returns false if the endpoint was closed.
func (e *Endpoint) enter(raw net.Conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.life.done:
		return false
	default:
	}
	if len(e.shaking) >= e.o.MaxHandshakes {
		_ = e.shaking[0].Close()
		e.shaking = slices.Delete(e.shaking, 0, 1)
	}
	e.shaking = append(e.shaking, raw)
	return true
}

// leave removes a connection that has proven itself, or has ended. It may be called twice.
func (e *Endpoint) leave(raw net.Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := slices.Index(e.shaking, raw); i >= 0 {
		e.shaking = slices.Delete(e.shaking, i, i+1)
	}
}

// shakeHands is the acceptor's side of the handshake of a connection, which then carries a stream: of
// the session that the dialer names, or of a new one.
func (e *Endpoint) shakeHands(raw net.Conn) error {
	h, err := e.secure(raw, true)
	if err != nil {
		return err
	}
	hello, proof, err := h.challenge()
	if err != nil {
		return err
	}
	e.leave(raw)
	if proof.Session == (frame.Session{}) {
		return e.found(h, hello, proof.Terms)
	}
	return e.joined(h, hello, proof.Terms)
}

// joined makes a connection carry a stream of an existing session. If there is no such session, the
// dialer is told whether that is because the endpoint is being closed.
func (e *Endpoint) joined(h *shake, hello frame.Hello, t frame.Terms) error {
	e.mu.Lock()
	p, closing := e.knows(hello.Name).session, e.closing
	e.mu.Unlock()
	if p == nil || p.id != t.Session || p.start != hello.Start || p.hasEnded() || int(t.Stream) >= len(p.streams) {
		v := frame.Unknown
		if closing {
			v = frame.Closing
		}
		if err := h.welcome(v, frame.Terms{}); err != nil {
			return err
		}
		return fmt.Errorf("%s wants to join a session that is over", hello.Name)
	}
	s := p.streams[t.Stream]
	if err := h.welcome(frame.Joined, e.terms(p, s)); err != nil {
		return err
	}
	return h.carry(s, t.Taken)
}

// found begins a session, if admit allows it. If an error follows the Welcome, the session ends: it
// is not certain that the dialer has begun it.
func (e *Endpoint) found(h *shake, hello frame.Hello, t frame.Terms) error {
	v, p, other := e.admit(h, hello, t)
	if v != frame.Joined {
		if err := h.welcome(v, frame.Terms{Session: other}); err != nil || v == frame.Busy {
			return err
		}
		return fmt.Errorf("no session with %s, incarnation %d: %s", hello.Name, hello.Start, v)
	}
	err := h.welcome(frame.Joined, e.terms(p, p.streams[0]))
	p.begin()
	if err == nil {
		err = h.carry(p.streams[0], t.Taken)
	}
	if err != nil {
		p.notBegun(err)
	}
	return err
}

// terms returns this end's Terms for a stream of a session.
func (e *Endpoint) terms(p *Peer, s *stream) frame.Terms {
	t := e.offer()
	t.Session, t.Stream, t.Connections, t.Taken = p.id, s.index, uint16(len(p.streams)), s.taken.Load()
	return t
}

// offer returns this end's Terms without a session.
func (e *Endpoint) offer() frame.Terms {
	return frame.Terms{
		Connections: uint16(e.o.Connections), Window: uint64(e.o.Window), MaxMessage: uint64(e.o.MaxMessage),
		Advertised: e.o.Advertise,
	}
}

// admit decides whether a session with a dialer begins. It waits, for half the handshake timeout,
// until an old session has ended. With Busy it returns the session that is in the way, if one is.
func (e *Endpoint) admit(h *shake, hello frame.Hello, t frame.Terms) (frame.Admission, *Peer, frame.Session) {
	deadline := time.After(e.o.HandshakeTimeout / 2)
	for {
		v, p, old := e.tryAdmit(h, hello, t)
		if old == nil {
			return v, p, frame.Session{}
		}
		if v == frame.Busy {
			return v, nil, old.id
		}
		old.end(ErrRestarted)
		select {
		case <-old.gone:
		case <-deadline:
			return frame.Busy, nil, frame.Session{}
		case <-e.life.done:
			return frame.Closing, nil, frame.Session{}
		}
	}
}

// tryAdmit is admit without the wait: if it returns old, and not Busy, that session must end first.
// The cases, in this order:
//
//   - the endpoint is being closed: Closing;
//   - the dialer's incarnation is not the latest that was seen: Stale;
//   - there is a session with the same incarnation, and the dialer has not stated that it is over:
//     Busy. It may state that in its next try;
//   - any other session with that name must end first;
//   - both ends are dialing each other: the dial of the one with the lesser name goes on, the other
//     end's is Busy;
//   - there are too many sessions: Full;
//   - else a new session is installed: Joined.
func (e *Endpoint) tryAdmit(h *shake, hello frame.Hello, t frame.Terms) (v frame.Admission, p, old *Peer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.knows(hello.Name)
	old = k.session
	switch {
	case e.closing:
		return frame.Closing, nil, nil
	case hello.Start < k.highest:
		return frame.Stale, nil, nil
	case old != nil && old.start == hello.Start && old.id != t.Over && !old.hasEnded():
		return frame.Busy, nil, old
	case old != nil:
		return frame.Joined, nil, old
	case k.dial != nil && k.dial.shaking && e.o.Name < hello.Name:
		return frame.Busy, nil, nil
	case e.sessions >= e.o.MaxPeers:
		return frame.Full, nil, nil
	}
	a := agreed{
		name: hello.Name, start: hello.Start, advertised: reachable(t.Advertised, h.raw.RemoteAddr()),
		connections: int(max(1, min(t.Connections, uint16(e.o.Connections)))), window: t.Window, maxMessage: t.MaxMessage,
	}
	_, _ = rand.Read(a.id[:])
	p = newPeer(e, a)
	e.install(k, p)
	return frame.Joined, p, nil
}

// reachable returns an advertised address. If its host is empty or unspecified (0.0.0.0, ::), the
// host that the peer connects from takes its place. A malformed address becomes "".
func reachable(advertised string, from net.Addr) string {
	host, port, err := net.SplitHostPort(advertised)
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		if tcp, ok := from.(*net.TCPAddr); ok {
			return net.JoinHostPort(tcp.IP.String(), port)
		}
	}
	return advertised
}
