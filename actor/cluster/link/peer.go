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

// Mode says what a message is worth.
type Mode uint8

// The modes.
const (
	// ExactlyOnce messages are kept until they are acknowledged, and sent again over the
	// next connection when one breaks: between two living nodes they arrive exactly once.
	ExactlyOnce Mode = iota
	// AtMostOnce messages are forgotten when they have been written: when the
	// connection breaks they may be lost. None arrives twice, or before an earlier one
	// of its lane.
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
type Peer struct {
	e          *Endpoint
	id         frame.Session
	name       string
	start      uint64
	advertised string
	dials      bool // this end makes the connections
	maxMessage int
	streams    []*stream
	since      time.Time

	up      chan struct{} // closed when Handler.Up has returned
	life    *life
	done    chan struct{} // of life: closed when the session has ended
	gone    chan struct{} // closed when Handler.Down has returned
	reason  atomic.Pointer[error]
	leaving atomic.Bool           // this end says goodbye
	parting atomic.Pointer[error] // why the session ends when all streams have had the peer's farewell; nil: it has said none
	running sync.WaitGroup        // goroutines of connections, and those that make them
}

// agreed is the result of the handshake, the same at both ends.
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

// launch lets the streams look for connections, and the session end when they find none.
// It is called once, when all streams are there and the endpoint counts the session.
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

// Done is closed when the session has ended.
func (p *Peer) Done() <-chan struct{} { return p.done }

// Send takes a message: appendBody appends it to dst and returns that, as append
// does. It is called once at most, under a lock of the connection, so it must neither
// block nor send. Messages of one lane arrive in the order in which Send took
// them. Send returns when the message waits to be written; without credit it waits
// for it. It fails with
//
//   - [ErrWindow] (Unavailable, or Canceled) if there is no credit and ctx is nil, or done before there is;
//   - Closed when the session has ended, with the reason;
//   - Invalid if the message is longer than MaxMessage of either end;
//   - the error of appendBody, as it is.
//
// A message for which it returned an error does not arrive, and is not given to Undelivered.
// Messages too large for a frame (64 KiB) are sent in parts, one after another; they
// are kept until they are acknowledged, whatever the mode.
func (p *Peer) Send(ctx context.Context, lane uint32, mode Mode, appendBody func(dst []byte) ([]byte, error)) error {
	return p.streams[lane%uint32(len(p.streams))].send(ctx, lane, mode, appendBody)
}

// hasEnded reports whether the session has ended.
func (p *Peer) hasEnded() bool { return p.reason.Load() != nil }

// over returns the error of those who still want something of the session.
func (p *Peer) over() error {
	reason := ErrClosed
	if r := p.reason.Load(); r != nil {
		reason = *r
	}
	return fault(mainstem.KindClosed, "session with "+p.name, reason)
}

// end ends the session for good; only the first reason counts. It does not wait.
func (p *Peer) end(reason error) {
	if p.reason.CompareAndSwap(nil, &reason) {
		p.life.end()
		go p.finish(reason)
	}
}

// finish calls Undelivered and Down of the handler when nothing of the session runs any more.
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

// begin calls Up of the handler, and lets messages in.
func (p *Peer) begin() {
	p.e.o.Log.Info("session began", "peer", p.name, "start", p.start, "connections", len(p.streams))
	p.e.handler.Up(p)
	close(p.up)
}

// notBegun ends a session whose first connection failed before it carried anything.
func (p *Peer) notBegun(err error) {
	if p.leaving.Load() {
		p.end(ErrClosed)
		return
	}
	p.end(fmt.Errorf("%w: %w", ErrLost, err))
}

// lostConnection is called with the reason when a stream has lost its connection.
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

// violation ends the session because of what the peer sent: it would send it again.
func (p *Peer) violation(err error) error {
	p.e.log.warnOf(p.name, "session ended: the peer broke the protocol", "peer", p.name, "err", err)
	p.end(fmt.Errorf("%w: %w", ErrProtocol, err))
	return p.over()
}

// dismissed ends the session because the peer does, when every stream has had the peer's
// farewell: it has the last acknowledgements of its stream, which may have come later than
// that of another. It returns why the connection ends.
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

// endParted ends the session if no stream has a connection any more that a farewell may
// come on.
func (p *Peer) endParted() {
	for _, s := range p.streams {
		if !s.parted.Load() && s.connected() {
			return
		}
	}
	p.end(*p.parting.Load())
}

// drain waits until everything that was taken is acknowledged, then says goodbye.
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
