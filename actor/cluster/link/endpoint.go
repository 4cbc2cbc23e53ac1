package link

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor/cluster/link/internal/frame"
)

// Handler receives the messages and the events of an endpoint's sessions. For each session, Up is
// called once, first. Message is called after Up has returned, until the session has ended. Then
// Undelivered is called for each undelivered message, and Down once, last. Sessions with one node
// follow each other: Up of the next is called after Down of the last has returned.
type Handler interface {
	// Message handles a message. Each stream calls it from one goroutine at a time, so the messages
	// of one lane come one after another, in their order; those of different lanes may come at the
	// same time. The body is valid until Message returns. Until then nothing else of its connection
	// is read, and the sender gets no credit back. A Message that waits should give up when p.Done()
	// is closed. It must not wait without limit for credit to send to the same peer: the peer may
	// be doing the same.
	Message(p *Peer, lane uint32, body []byte)
	// Up is called when a session has begun. It may send, but must not wait for messages of that
	// peer.
	Up(p *Peer)
	// Down is called when the session has ended. errors.Is finds [ErrLeft], [ErrLost],
	// [ErrRestarted], [ErrProtocol] or [ErrClosed] in the reason. It must not wait for another
	// session with that peer.
	Down(p *Peer, reason error)
	// Undelivered is called for each message that Send accepted and that the peer had not
	// acknowledged when the session ended. The peer may have handled it. AtMostOnce messages that
	// were written are not among them. The body is valid until Undelivered returns.
	Undelivered(p *Peer, body []byte, reason error)
}

// Endpoint is one node's side of all its sessions. Its methods may be called by many goroutines.
type Endpoint struct {
	o         *Options
	handler   Handler
	key       []byte // of proofs, derived from Options.Secret
	serverTLS *tls.Config
	clientTLS *tls.Config
	listener  net.Listener                                                         // nil: none
	dialer    func(ctx context.Context, network, address string) (net.Conn, error) // net.Dialer's
	log       *limitedLog
	running   sync.WaitGroup // accept, handshakes and dials; and one for each session until forget
	life      *life          // ends in Close, after drain
	closed    chan struct{}  // closed when the first Close returns

	mu       sync.Mutex // guards the fields below, and those of all known
	known    map[string]*known
	sweepAt  int        // number of known at which sweep does something
	sessions int        // those in known
	closing  bool       // Close was called: no dial and no session begins
	shaking  []net.Conn // accepted, and nothing proven yet, oldest first
}

// known is the state of one node, by name. The endpoint's lock guards it.
type known struct {
	session    *Peer         // set by install, nil again after Down has returned
	highest    uint64        // the latest incarnation of a session; earlier ones are refused
	advertised string        // the address of the last session that advertised one
	past       frame.Session // the last session that ended
	ended      time.Time     // when that was
	dial       *dial         // under way, else nil
	failures   int           // dials that failed since the last session
	retry      time.Time     // no dial before, if failure is set
	failure    error         // of the last dial; nil after a session
}

// Open opens an endpoint and listens at Options.Listen, if that is set. It fails with Invalid for
// wrong options and Unavailable if it cannot listen. Methods of the handler may be called before
// Open returns. The caller must close the endpoint.
func Open(o *Options, h Handler) (*Endpoint, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Endpoint{
		o: o, handler: h, log: &limitedLog{log: o.Log}, life: newLife(), dialer: new(net.Dialer).DialContext,
		closed: make(chan struct{}), known: make(map[string]*known),
	}
	if e.key, err = deriveKey(o.Secret); err != nil {
		return nil, fault(mainstem.KindInternal, "open link", err)
	}
	if o.TLS != nil {
		e.serverTLS, e.clientTLS = o.TLS.serverTLS(), o.TLS.clientTLS()
	}
	if o.Listen == "" {
		return e, nil
	}
	var lc net.ListenConfig
	if e.listener, err = lc.Listen(e.life, "tcp", o.Listen); err != nil {
		return nil, fault(mainstem.KindUnavailable, "open link", err)
	}
	if o.Advertise == "" {
		o.Advertise = e.listener.Addr().String()
	}
	e.running.Add(1)
	go e.accept()
	return e, nil
}

// Addr returns the address at which the endpoint listens, nil if it does not.
func (e *Endpoint) Addr() net.Addr {
	if e.listener == nil {
		return nil
	}
	return e.listener.Addr()
}

// Name returns the name of this node.
func (e *Endpoint) Name() string { return e.o.Name }

// Start returns the incarnation of this node.
func (e *Endpoint) Start() uint64 { return e.o.Start }

// Peers returns the sessions for which Up has returned and that have not ended, by name.
func (e *Endpoint) Peers() []*Peer {
	var peers []*Peer
	for _, p := range e.all() {
		select {
		case <-p.up:
			if !p.hasEnded() {
				peers = append(peers, p)
			}
		default:
		}
	}
	slices.SortFunc(peers, func(a, b *Peer) int { return cmp.Compare(a.name, b.name) })
	return peers
}

// all returns all sessions, also those that are beginning or ending.
func (e *Endpoint) all() []*Peer {
	e.mu.Lock()
	defer e.mu.Unlock()
	var peers []*Peer
	for _, k := range e.known {
		if k.session != nil {
			peers = append(peers, k.session)
		}
	}
	return peers
}

// Close closes the endpoint. Sends and dials fail from now on. Close waits until all accepted
// messages are acknowledged, as long as ctx allows, sends farewells, and ends all sessions with
// [ErrClosed]. It fails with Canceled if a message was not acknowledged. When it returns, no method
// of the handler is running or will be called; so no method of the handler may call it. A second
// Close waits for the first and returns nil.
func (e *Endpoint) Close(ctx context.Context) error {
	e.mu.Lock()
	first := !e.closing
	e.closing = true
	e.mu.Unlock()
	if !first {
		<-e.closed
		return nil
	}
	defer close(e.closed)
	left := e.drain(ctx)
	e.life.end()
	if e.listener != nil {
		_ = e.listener.Close()
	}
	e.hangUp()
	for _, p := range e.all() {
		p.end(ErrClosed)
	}
	e.running.Wait()
	if left != nil {
		return fault(mainstem.KindCanceled, "close link", fmt.Errorf("not everything was delivered: %w", left))
	}
	return nil
}

// drain drains all sessions at the same time. It returns the error of one that failed.
func (e *Endpoint) drain(ctx context.Context) error {
	peers := e.all()
	results := make(chan error, len(peers))
	for _, p := range peers {
		go func() { results <- p.drain(ctx) }()
	}
	var failed error
	for range peers {
		if err := <-results; err != nil {
			failed = err
		}
	}
	return failed
}

// hangUp closes the accepted connections that have proven nothing.
func (e *Endpoint) hangUp() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.shaking {
		_ = c.Close()
	}
}

// knows returns the state of a node, which it makes if there is none. The caller has the lock.
func (e *Endpoint) knows(name string) *known {
	k := e.known[name]
	if k == nil {
		e.sweep()
		k = new(known)
		e.known[name] = k
	}
	return k
}

// sweep removes nodes without a session, a dial or a backoff, when there are many: those of which no
// incarnation was seen, and all others but the 2*MaxPeers whose sessions ended last. It does nothing
// until the number of nodes has doubled, so that its cost is small for each new name.
func (e *Endpoint) sweep() {
	if len(e.known) < max(e.sweepAt, 4*e.o.MaxPeers) {
		return
	}
	now := time.Now()
	var past []string
	for name, k := range e.known {
		switch {
		case k.session != nil || k.dial != nil || now.Before(k.retry):
		case k.highest == 0:
			delete(e.known, name)
		default:
			past = append(past, name)
		}
	}
	if n := len(past) - 2*e.o.MaxPeers; n > 0 {
		slices.SortFunc(past, func(a, b string) int { return e.known[a].ended.Compare(e.known[b].ended) })
		for _, name := range past[:n] {
			delete(e.known, name)
		}
	}
	e.sweepAt = 2 * len(e.known)
}

// install makes p the session with its node and starts its goroutines. The caller has the lock.
func (e *Endpoint) install(k *known, p *Peer) {
	k.session, k.highest = p, p.start
	k.failures, k.failure = 0, nil
	if p.advertised != "" {
		k.advertised = p.advertised
	}
	e.sessions++
	e.running.Add(1)
	p.launch()
}

// forget removes a session after Down has returned.
func (e *Endpoint) forget(p *Peer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.known[p.name]
	k.session, k.past, k.ended = nil, p.id, time.Now()
	e.sessions--
}

// life is a context that ends with an endpoint or a session. It has no deadline and no values.
type life struct {
	done chan struct{}
	once sync.Once
}

func newLife() *life { return &life{done: make(chan struct{})} }

func (l *life) end() { l.once.Do(func() { close(l.done) }) }

// Deadline implements context.Context.
func (*life) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (l *life) Done() <-chan struct{} { return l.done }

// Value implements context.Context.
func (*life) Value(any) any { return nil }

// Err implements context.Context.
func (l *life) Err() error {
	select {
	case <-l.done:
		return context.Canceled
	default:
		return nil
	}
}
