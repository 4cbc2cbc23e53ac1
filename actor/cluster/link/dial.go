package link

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor/cluster/link/internal/frame"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// dial is one attempt of this endpoint to begin a session with a node. All callers of Endpoint.Peer
// for that node wait for the same dial.
type dial struct {
	done chan struct{} // closed when the attempt is over
	err  error         // set before done is closed; nil: there is a session

	// The endpoint's lock guards these.
	shaking bool // it has a connection, and may have sent its Hello (see tryAdmit)
}

// Peer returns the session with a node. If there is none it dials; calls at the same time share the
// attempt. It returns when Handler.Up has returned. It fails with Invalid for a name that no other
// node can have, Unavailable if the node is not reached, Denied if one end refuses the other,
// Canceled when ctx ends first, and Closed if the endpoint is closed, before or meanwhile. After a
// failed attempt it fails at once, with the same kind, until the backoff is over. The end of ctx does
// not end the attempt.
func (e *Endpoint) Peer(ctx context.Context, name string) (*Peer, error) {
	if err := validName(name); err != nil {
		return nil, fault(mainstem.KindInvalid, "connect", err)
	}
	op := "connect to " + name
	if name == e.o.Name {
		return nil, fault(mainstem.KindInvalid, op, errMyself)
	}
	for {
		p, d, err := e.find(name)
		if err != nil {
			return nil, err
		}
		if p != nil {
			ready := p.up
			if p.hasEnded() {
				ready = p.gone
			}
			if err := await(ctx, op, ready); err != nil {
				return nil, err
			}
			if !p.hasEnded() {
				return p, nil
			}
			continue
		}
		if err := await(ctx, op, d.done); err != nil {
			return nil, err
		}
		if d.err != nil {
			return nil, d.err
		}
	}
}

// await waits until ready is closed, as long as ctx allows.
func await(ctx context.Context, op string, ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	default:
	}
	began := time.Now()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return mainstem.Ended(ctx, op, began, "the link to be ready")
	}
}

// find returns the session with a node, which may be beginning or ending, or else the dial under
// way, which it starts if there is none and no backoff.
func (e *Endpoint) find(name string) (*Peer, *dial, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	op := "connect to " + name
	if e.closing {
		return nil, nil, fault(mainstem.KindClosed, op, ErrClosed)
	}
	k := e.knows(name)
	if k.session != nil || k.dial != nil {
		return k.session, k.dial, nil
	}
	if pause := time.Until(k.retry); pause > 0 && k.failure != nil {
		return nil, nil, fault(mainstem.KindOf(k.failure), op,
			fmt.Errorf("it failed, and is tried again in %s: %w", pause.Round(time.Millisecond), errors.Unwrap(k.failure)))
	}
	k.dial = &dial{done: make(chan struct{})}
	e.running.Add(1)
	go e.dial(name, k, k.dial)
	return nil, k.dial, nil
}

// dial is the goroutine of a dial. It notes the result, with the backoff after a failure.
func (e *Endpoint) dial(name string, k *known, d *dial) {
	defer e.running.Done()
	err := e.connect(name, k, d)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		kind := mainstem.KindUnavailable
		switch {
		case e.closing:
			kind, err = mainstem.KindClosed, ErrClosed
		case errors.Is(err, ErrRefused):
			kind = mainstem.KindDenied
		}
		d.err = fault(kind, "connect to "+name, err)
		k.failures++
		k.failure, k.retry = d.err, time.Now().Add(e.pause(k.failures))
	}
	k.dial = nil
	close(d.done)
}

// pause returns the backoff after n failures in a row: it doubles, and a random part of up to a half
// is subtracted.
func (e *Endpoint) pause(n int) time.Duration {
	return backoff.Policy{First: e.o.MinBackoff, Max: e.o.MaxBackoff, Jitter: 0.5}.Delay(n)
}

// connect tries until there is a session or it is certain that this dial makes none. The acceptor
// may be Busy for two reasons. If it has a session that this end does not have, its Welcome names
// the session, and the next try states that it is over (Terms.Over). Otherwise it is dialing too or
// ending a session: connect waits a moment, and tries again for at most Options.HandshakeTimeout.
func (e *Endpoint) connect(name string, k *known, d *dial) error {
	deadline := time.Now().Add(e.o.HandshakeTimeout)
	e.mu.Lock()
	over := k.past
	e.mu.Unlock()
	for {
		w, err := e.tryConnect(name, k, d, over)
		e.mu.Lock()
		d.shaking = false
		there := k.session != nil
		e.mu.Unlock()
		switch {
		case there || err == nil && w.Admission == frame.Joined:
			return nil
		case err != nil:
			return err
		case w.Admission != frame.Busy:
			return fmt.Errorf("%w by %s: %s", ErrRefused, name, w.Admission)
		case time.Now().After(deadline):
			return fmt.Errorf("%s: %s", name, w.Admission)
		}
		if w.Session != (frame.Session{}) && w.Session != over {
			over = w.Session
			continue
		}
		if !backoff.Sleep(e.life, e.o.MinBackoff/2+rand.N(e.o.MinBackoff)) {
			return ErrClosed
		}
	}
}

// tryConnect makes one connection and its handshake. It returns Busy without a handshake if the peer
// has begun a session meanwhile.
func (e *Endpoint) tryConnect(name string, k *known, d *dial, over frame.Session) (frame.Welcome, error) {
	h, err := e.reach(e.life, name)
	if err != nil {
		return frame.Welcome{}, err
	}
	e.mu.Lock()
	d.shaking = k.session == nil
	goOn := d.shaking && !e.closing
	e.mu.Unlock()
	if !goOn { // the peer was faster
		h.close()
		return frame.Welcome{Admission: frame.Busy}, nil
	}
	t := e.offer()
	t.Over = over
	c, w, err := h.call(name, t)
	if err == nil && w.Admission == frame.Joined {
		err = e.establish(h, k, c, w)
	}
	if err != nil || w.Admission != frame.Joined {
		h.close()
	}
	return w, err
}

// reach makes a connection to a node, with TLS if that is configured. The connection is closed when
// owner ends, until shake.done or shake.close. Options.HandshakeTimeout bounds the call.
func (e *Endpoint) reach(owner *life, name string) (*shake, error) {
	ctx, cancel := context.WithTimeout(owner, e.o.HandshakeTimeout)
	defer cancel()
	addr, err := e.resolve(ctx, name)
	if err != nil {
		return nil, err
	}
	raw, err := e.dialer(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(owner, func() { _ = raw.Close() })
	h, err := e.secure(raw, false)
	if err != nil {
		stop()
		_ = raw.Close()
		return nil, err
	}
	h.stop = stop
	return h, nil
}

// errNoAddress means that neither Resolve nor an earlier session has given the address of a node.
var errNoAddress = errors.New("its address is not known")

// resolve returns the address of a node from Options.Resolve or, if that fails or returns none, the
// one that the node advertised last.
func (e *Endpoint) resolve(ctx context.Context, name string) (string, error) {
	err := errNoAddress
	if e.o.Resolve != nil {
		addr, failed := e.o.Resolve(ctx, name)
		if failed == nil && addr != "" {
			return addr, nil
		}
		if failed != nil {
			err = failed
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if k := e.known[name]; k != nil && k.advertised != "" {
		return k.advertised, nil
	}
	return "", err
}

// establish begins the session of an acceptor's Welcome. The connection carries its first stream; the
// other streams dial.
func (e *Endpoint) establish(h *shake, k *known, c frame.Challenge, w frame.Welcome) error {
	if w.Connections < 1 || int(w.Connections) > e.o.Connections || w.Session == (frame.Session{}) {
		return fmt.Errorf("%w: a session of %d connections, at most %d were offered", ErrProtocol, w.Connections, e.o.Connections)
	}
	a := agreed{
		id: w.Session, name: c.Name, start: c.Start, advertised: reachable(w.Advertised, h.raw.RemoteAddr()),
		connections: int(w.Connections), window: w.Window, maxMessage: w.MaxMessage, dials: true,
	}
	p, err := e.put(k, a)
	if err != nil {
		return err
	}
	p.begin()
	if err := h.carry(p.streams[0], w.Taken); err != nil {
		p.notBegun(err)
		return err
	}
	for _, s := range p.streams[1:] {
		s.lost <- struct{}{}
	}
	return nil
}

// put installs the session that was agreed on. If there is another one with that node, put ends it
// and waits for that: the acceptor does not have it any more, or it would not have agreed.
func (e *Endpoint) put(k *known, a agreed) (*Peer, error) {
	for {
		e.mu.Lock()
		old := k.session
		switch {
		case e.closing:
			e.mu.Unlock()
			return nil, ErrClosed
		case a.start < k.highest:
			e.mu.Unlock()
			return nil, fmt.Errorf("%w: incarnation %d of %s, after %d", ErrRefused, a.start, a.name, k.highest)
		case old == nil:
			p := newPeer(e, a)
			e.install(k, p)
			e.mu.Unlock()
			return p, nil
		}
		e.mu.Unlock()
		old.end(ErrRestarted)
		select {
		case <-old.gone:
		case <-e.life.done:
			return nil, ErrClosed
		}
	}
}

// patientShare divides Options.Resume: the acceptor of a session waits that long before it dials.
const patientShare = 8

// steady is the life of a connection after which the next one is made without a pause.
const steady = time.Second

// keep is a goroutine of each stream at both ends. As long as the session lives, it makes a new
// connection when the stream has lost its own. The end that dialed the session does so at once. The
// other end waits a part of Options.Resume first. It must try too: perhaps only it can reach the
// other, or the other has ended the session and its answer says so.
func (p *Peer) keep(s *stream) {
	defer p.running.Done()
	failures := 0
	for {
		select {
		case <-s.lost:
		case <-p.done:
			return
		}
		if time.Since(s.attached()) > steady {
			failures = 0
		}
		for !p.rejoin(s, failures) {
			if p.hasEnded() {
				return
			}
			failures++
		}
		failures++
	}
}

// rejoin makes a connection for a stream, after the backoff of so many failures. It reports whether
// the stream has one now. It ends the session if the peer does not have it any more.
func (p *Peer) rejoin(s *stream, failures int) bool {
	pause := p.e.pause(failures)
	if !p.dials {
		pause += p.e.o.Resume / patientShare
	}
	if (failures > 0 || !p.dials) && !backoff.Sleep(p.life, pause) {
		return false
	}
	if s.connected() {
		return true
	}
	h, err := p.e.reach(p.life, p.name)
	if err != nil {
		p.e.log.warnOf(p.name, "cannot connect again", "peer", p.name, "err", err)
		return false
	}
	c, w, err := h.call(p.name, p.e.terms(p, s))
	switch {
	case err != nil:
	case w.Admission == frame.Closing && c.Start == p.start:
		p.end(ErrLeft)
		err = ErrLeft
	case w.Admission != frame.Joined || w.Session != p.id || c.Start != p.start:
		p.end(fmt.Errorf("%w: %s", ErrRestarted, w.Admission))
		err = ErrRestarted
	default:
		err = h.carry(s, w.Taken)
	}
	if err != nil {
		h.close()
		p.e.log.warnOf(p.name, "cannot resume", "peer", p.name, "stream", s.index, "err", err)
	}
	return err == nil
}
