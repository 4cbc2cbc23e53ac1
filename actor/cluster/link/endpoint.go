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

// Handler is called for each event of an endpoint. Of one session, Up is called first,
// then Message and nothing else until the session has ended, then Undelivered, then
// Down. Sessions with one name follow each other: Up of the next is called when Down
// of the last has returned.
type Handler interface {
	// Message takes a message. It is called by one goroutine per connection, so
	// messages of one lane arrive one after another, in their order; those of
	// different lanes may arrive at the same time. The body is valid until Message returns.
	// While it has not returned, its connection stands still and its sender gets no
	// credit. A Message that waits should give up when p.Done() is closed; it must not
	// wait without limit for credit to send to that peer, who may do the same.
	Message(p *Peer, lane uint32, body []byte)
	// Up says that there is a session with an incarnation of a peer. It may send, but
	// must not wait for messages of that peer.
	Up(p *Peer)
	// Down says that the session is over for good: errors.Is finds [ErrLeft], [ErrLost],
	// [ErrRestarted], [ErrProtocol] or [ErrClosed] in the reason. It is called once. It
	// must not wait for another session with that peer.
	Down(p *Peer, reason error)
	// Undelivered returns a message that Send took and that the peer had not
	// acknowledged when the session ended: it may have arrived, or not. The body is
	// valid until Undelivered returns.
	Undelivered(p *Peer, body []byte, reason error)
}

// Endpoint is a node's end of all its sessions. Its methods may be called by many
// goroutines.
type Endpoint struct {
	o         *Options
	handler   Handler
	key       []byte
	serverTLS *tls.Config
	clientTLS *tls.Config
	listener  net.Listener
	dialer    func(ctx context.Context, network, address string) (net.Conn, error) // net.Dialer's
	log       *limitedLog
	running   sync.WaitGroup // all goroutines but those of sessions; and one per session
	life      *life          // ends when nothing is to be delivered any more
	closed    chan struct{}  // closed when Close has done everything

	mu       sync.Mutex // guards the fields below
	known    map[string]*known
	sessions int
	closing  bool
	shaking  []net.Conn // accepted and not proven, oldest first
}

// known is what an endpoint knows of a name.
type known struct {
	session    *Peer  // until Down has returned
	highest    uint64 // the latest incarnation that has proven itself
	advertised string
	past       frame.Session // the last session that ended
	dial       *dial         // under way
	failures   int           // of the dials since the last session
	retry      time.Time     // not before then
	failure    error         // of the last dial
}

// Open opens an endpoint and, if the options say so, listens. It fails with Invalid
// for options that are wrong, Unavailable if it cannot listen. Methods of the handler
// may be called before Open returns.
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

// Addr returns where the endpoint listens, nil if it does not.
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

// Peers returns the sessions there are, in the order of the names.
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

// all returns the sessions there are, with those that begin or end just now.
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

// Close closes the endpoint: nothing more is taken, what was taken is delivered until
// ctx is done, sessions end with [ErrClosed]. It returns nil if all was acknowledged.
// When it returns, no method of the handler is running or will be called. No method
// of the handler must call it.
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

// drain lets all sessions finish what they have taken.
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

// hangUp ends the handshakes of accepted connections.
func (e *Endpoint) hangUp() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.shaking {
		_ = c.Close()
	}
}

// knows returns what is known of a name. The caller has the lock.
func (e *Endpoint) knows(name string) *known {
	k := e.known[name]
	if k == nil {
		e.sweep()
		k = new(known)
		e.known[name] = k
	}
	return k
}

// sweep forgets names that nothing is known of, when there are many.
func (e *Endpoint) sweep() {
	if len(e.known) < 4*e.o.MaxPeers {
		return
	}
	now := time.Now()
	for name, k := range e.known {
		if k.session == nil && k.dial == nil && k.highest == 0 && now.After(k.retry) {
			delete(e.known, name)
		}
	}
}

// install makes p the session with its name. The caller has the lock.
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

// forget is called when the session has ended and the handler has been called for that.
func (e *Endpoint) forget(p *Peer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.known[p.name]
	k.session, k.past = nil, p.id
	e.sessions--
}

// life is a context that ends with what it belongs to.
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
