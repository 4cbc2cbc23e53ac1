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
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// acceptAgain is the pause while the operating system has no file for a connection.
var acceptAgain = backoff.Policy{First: 5 * time.Millisecond, Max: time.Second}

// accept accepts connections until the listener is closed.
func (e *Endpoint) accept() {
	defer e.running.Done()
	failures := 0
	for {
		c, err := e.listener.Accept()
		switch {
		case err == nil:
			failures = 0
			if !e.enter(c) { // here, in the order of arrival: goroutines may overtake each other
				_ = c.Close()
				continue
			}
			e.running.Add(1)
			go e.welcome(c)
		case errors.Is(err, net.ErrClosed):
			return
		default: // no file, no memory: later there may be
			e.log.warn("cannot accept connections", "err", err)
			failures++
			if !acceptAgain.Wait(e.life, failures) {
				return
			}
		}
	}
}

// welcome is the life of an accepted connection until it carries a stream.
func (e *Endpoint) welcome(raw net.Conn) {
	defer e.running.Done()
	err := e.shakeHands(raw)
	e.leave(raw)
	if err == nil {
		return
	}
	defer raw.Close() // after the line in the log: who sees the end finds the reason there
	host, _, _ := net.SplitHostPort(raw.RemoteAddr().String())
	if !errors.Is(err, io.EOF) || errors.Is(err, ErrRefused) { // a probe of the port says nothing
		e.log.warnOf(host, "refused a connection", "from", raw.RemoteAddr(), "err", err)
	}
}

// enter counts a connection among those that have proven nothing; the oldest of too
// many goes. It returns false if the endpoint was closed.
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

func (e *Endpoint) leave(raw net.Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := slices.Index(e.shaking, raw); i >= 0 {
		e.shaking = slices.Delete(e.shaking, i, i+1)
	}
}

// shakeHands takes an accepted connection through its handshake.
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

// joined lets a connection carry a stream of a session that there is.
func (e *Endpoint) joined(h *shake, hello frame.Hello, t frame.Terms) error {
	e.mu.Lock()
	p := e.knows(hello.Name).session
	e.mu.Unlock()
	if p == nil || p.id != t.Session || p.start != hello.Start || p.hasEnded() || int(t.Stream) >= len(p.streams) {
		if err := h.welcome(frame.Unknown, frame.Terms{}); err != nil {
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

// found begins a session.
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
		p.notBegun(err) // the dialer may not know that there is a session
	}
	return err
}

// terms returns what this end states of a stream.
func (e *Endpoint) terms(p *Peer, s *stream) frame.Terms {
	t := e.offer()
	t.Session, t.Stream, t.Connections, t.Taken = p.id, s.index, uint16(len(p.streams)), s.taken.Load()
	return t
}

// offer returns what this end states of every session.
func (e *Endpoint) offer() frame.Terms {
	return frame.Terms{
		Connections: uint16(e.o.Connections), Window: uint64(e.o.Window), MaxMessage: uint64(e.o.MaxMessage),
		Advertised: e.o.Advertise,
	}
}

// admit decides whether there will be a session with a dialer. With Busy it returns
// the session that there is.
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

// tryAdmit is admit as long as there is no old session, which has to end before.
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
		return frame.Busy, nil, nil // of two that dial each other, the one with the lesser name goes on
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

// reachable returns an advertised address with the host that the peer comes from, if it
// has none of its own.
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
