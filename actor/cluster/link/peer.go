package link

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor/cluster/link/internal/frame"
	"github.com/mainstemdev/mainstem/internal/wake"
)

// Mode is the delivery guarantee of a message.
type Mode uint8

// The modes.
const (
	// ExactlyOnce messages are kept until they are acknowledged, and sent again over the next
	// connection when one breaks. While the session lives each is handled exactly once.
	ExactlyOnce Mode = iota
	// AtMostOnce messages are dropped when they have been written, so they may be lost when a
	// connection breaks. None arrives twice, or before an earlier message of its lane.
	AtMostOnce
)

var modeNames = [...]string{"exactly once", "at most once"}

// String returns "exactly once" or "at most once".
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return "unknown mode"
}

// Peer is a session with one incarnation of another node. When it has ended,
// [Endpoint.Peer] returns another. Its methods may be called by many goroutines.
//
// The life of a session:
//
//	install -> begin (Up) -> messages -> end -> finish (Undelivered, Down) -> forget
//
// Endpoint.install runs under the endpoint's lock, after the handshake. No message is read before Up
// has returned: the readers wait for up. end only sets the reason and starts finish, which closes the
// connections, waits for all goroutines of the session, and then calls the handler for the last
// time. The endpoint begins no other session with that name before Endpoint.forget.
//
// A session ends when this endpoint or the peer's is closed, when a stream had no connection for
// Options.Resume, when the peer was restarted or does not have the session any more, or when the
// peer breaks the protocol.
//
// Closing: drain waits until all streams are acknowledged, then each connection writes a farewell
// and waits for the peer to close it. The receiver ends the session when every stream that has a
// connection has brought its farewell, since the farewell of a stream carries its last
// acknowledgement.
type Peer struct {
	e          *Endpoint
	id         frame.Session
	name       string
	start      uint64 // incarnation
	advertised string
	dials      bool // this end made the first connection, and replaces those that break
	maxMessage int  // bytes: the smaller limit of both ends
	streams    []*stream
	since      time.Time // when the handshake was done

	up      chan struct{}         // closed when Handler.Up has returned
	life    *life                 // ends with the session
	done    chan struct{}         // of life
	gone    chan struct{}         // closed after Handler.Down and Endpoint.forget
	reason  atomic.Pointer[error] // why the session has ended; nil: it has not. Set once
	leaving atomic.Bool           // this endpoint is closed, and everything was acknowledged or ctx was done
	parting atomic.Pointer[error] // the reason of the peer's first farewell; nil: none has come. Set once
	running sync.WaitGroup        // readers and writers of connections, and keep of each stream
}

// agreed is the result of a handshake.
type agreed struct {
	id          frame.Session
	name        string
	start       uint64
	advertised  string
	connections int
	window      uint64
	maxMessage  uint64
	dials       bool
}

// smallestShare is the least window of a stream, in bytes.
const smallestShare = SmallestWindow / 4

func newPeer(e *Endpoint, a agreed) *Peer {
	p := &Peer{
		e: e, id: a.id, name: a.name, start: a.start, advertised: a.advertised, dials: a.dials,
		maxMessage: int(min(uint64(e.o.MaxMessage), a.maxMessage)),
		since:      time.Now(),
		life:       newLife(),
		up:         make(chan struct{}), gone: make(chan struct{}),
	}
	p.done = p.life.done
	window := int(min(uint64(e.o.Window), a.window))
	for i := range a.connections {
		s := newStream(p, uint16(i), max(window/a.connections, smallestShare))
		p.streams = append(p.streams, s)
	}
	return p
}

// launch starts the timers that end the session when a stream gets no connection, and the
// goroutines that dial. It is called once, by install.
func (p *Peer) launch() {
	for _, s := range p.streams {
		s.giveUp.Reset(p.e.o.Resume)
		p.running.Add(1)
		go p.keep(s)
	}
}

// Name returns the name of the node.
func (p *Peer) Name() string { return p.name }

// Start returns the incarnation of the node.
func (p *Peer) Start() uint64 { return p.start }

// Advertised returns the address at which the node can be dialed, "" if it has none.
func (p *Peer) Advertised() string { return p.advertised }

// MaxMessage returns the limit of a message in bytes: the smaller one of both ends.
func (p *Peer) MaxMessage() int { return p.maxMessage }

// Done is closed when the session has ended.
func (p *Peer) Done() <-chan struct{} { return p.done }

// Send accepts a message: it waits for credit, calls appendBody, which appends the message to dst
// and returns the result as append does, and returns when the message is queued to be written.
// appendBody is called at most once, under a lock of the stream, so it must neither block nor send.
// Messages of one lane arrive in the order in which Send accepted them. With a nil ctx Send does not
// wait. It fails with
//
//   - [ErrWindow], of kind Unavailable if ctx is nil and there is no credit, Canceled if ctx ends
//     first;
//   - Closed, with the reason, if the session has ended or the endpoint is being closed;
//   - Invalid if the message is longer than MaxMessage of either end;
//   - the error of appendBody, as it is.
//
// A message for which Send returned an error does not arrive, and is not given to Undelivered.
// Messages too large for a frame (64 KiB) are sent in parts, one after another; they are kept
// until they are acknowledged, whatever the mode.
func (p *Peer) Send(ctx context.Context, lane uint32, mode Mode, appendBody func(dst []byte) ([]byte, error)) error {
	return p.streams[lane%uint32(len(p.streams))].send(ctx, lane, mode, appendBody)
}

// hasEnded reports whether the session has ended.
func (p *Peer) hasEnded() bool { return p.reason.Load() != nil }

// over returns the Closed error of calls that use an ended session.
func (p *Peer) over() error {
	reason := ErrClosed
	if r := p.reason.Load(); r != nil {
		reason = *r
	}
	return fault(mainstem.KindClosed, "session with "+p.name, reason)
}

// end ends the session. Only the first call has an effect. It does not wait for finish.
func (p *Peer) end(reason error) {
	if p.reason.CompareAndSwap(nil, &reason) {
		p.life.end()
		go p.finish(reason)
	}
}

// finish stops the streams, waits for all goroutines of the session, and calls Undelivered and Down
// of the handler.
func (p *Peer) finish(reason error) {
	defer p.e.running.Done()
	for _, s := range p.streams {
		s.stop(reason)
	}
	<-p.up
	p.running.Wait()
	for _, s := range p.streams {
		s.leftovers(func(body []byte) { p.e.handler.Undelivered(p, body, reason) })
	}
	p.e.o.Log.Info("session ended", "peer", p.name, "start", p.start, "reason", reason)
	p.e.handler.Down(p, reason)
	p.e.forget(p)
	close(p.gone)
}

// begin calls Up of the handler, and lets the readers go on.
func (p *Peer) begin() {
	p.e.o.Log.Info("session began", "peer", p.name, "start", p.start, "connections", len(p.streams))
	p.e.handler.Up(p)
	close(p.up)
}

// notBegun ends a session whose first connection failed before it carried a stream.
func (p *Peer) notBegun(err error) {
	if p.leaving.Load() {
		p.end(ErrClosed)
		return
	}
	p.end(fmt.Errorf("%w: %w", ErrLost, err))
}

// lostConnection is called when the connection of a stream has failed, with the reason. Unless one
// of the ends is leaving, keep makes another.
func (p *Peer) lostConnection(s *stream, err error) {
	if p.leaving.Load() {
		return
	}
	if p.parting.Load() != nil {
		p.endParted()
		return
	}
	p.e.log.warnOf(p.name, "connection lost", "peer", p.name, "stream", s.index, "err", err)
	wake.Signal(s.lost)
}

// violation ends the session because the peer has broken the protocol. Another connection would not
// help: the peer would send the same frame again.
func (p *Peer) violation(err error) error {
	p.e.log.warnOf(p.name, "session ended: the peer broke the protocol", "peer", p.name, "err", err)
	p.end(fmt.Errorf("%w: %w", ErrProtocol, err))
	return p.over()
}

// dismissed is called when the peer's farewell has come over a stream. It ends the session when the
// farewells of all connected streams have come, or after the farewell time. It returns the reason
// with which the connection ends.
func (p *Peer) dismissed(s *stream, f frame.Farewell) error {
	reason := ErrLeft
	if f.Reason != "" {
		reason = fmt.Errorf("%w: %q", ErrLeft, f.Reason)
	}
	if p.parting.CompareAndSwap(nil, &reason) {
		time.AfterFunc(farewell, func() { p.end(reason) })
	}
	s.parted.Store(true)
	p.endParted()
	return reason
}

// endParted ends the session if no stream has a connection over which a farewell may still come.
func (p *Peer) endParted() {
	for _, s := range p.streams {
		if !s.parted.Load() && s.connected() {
			return
		}
	}
	p.end(*p.parting.Load())
}

// drain makes Sends fail, waits until all accepted messages are acknowledged or ctx is done, and
// writes the farewells. Then it waits for the peer to close the connections, at most for the
// farewell time. It returns nil if everything was acknowledged.
func (p *Peer) drain(ctx context.Context) error {
	var failed error
	for _, s := range p.streams {
		s.stopAdmission()
	}
	for _, s := range p.streams {
		if err := s.drain(ctx); err != nil {
			failed = err
			break
		}
	}
	p.leaving.Store(true)
	var last []*conn
	for _, s := range p.streams {
		if c := s.sayBye(); c != nil {
			last = append(last, c)
		}
	}
	patience := time.NewTimer(farewell)
	defer patience.Stop()
	for _, c := range last {
		select {
		case <-c.failed:
		case <-patience.C:
			return failed
		}
	}
	return failed
}
