package rpc

import (
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/internal/message"
	wire "github.com/mainstemdev/mainstem/internal/session"
)

// What is remembered of the commits of one client.
const (
	maxOutcomes = 1024      // commits
	maxBodies   = 128 << 10 // bytes of answers that do not fit in outcome.small
	outcomeSize = 80        // bytes of an outcome in memory
	maxLost     = 1024      // clients without a session
)

// resumeFor is how long a client without a session is remembered.
const resumeFor = time.Minute

// Causes of the end of calls, and errors of commits that are sent again.
var (
	errForgotten = errors.New("the client did not come back")
	errTooLate   = errors.New("the server does not remember the outcome of the commit any more")
)

// outcomes are what the commits of one client became that have no ID, so that a client whose
// connection broke can send such a commit again, with its number, in another session.
//
// A log remembers commits by their IDs, at the price of a key for each; here a commit costs
// a few bytes of memory that are copied. The price is that nothing survives the handler: its
// clients learn from another key (see [wire.Key]) that the outcome stays unknown, unless they
// have given their batches IDs themselves, see docs/sessions.md.
//
// To answer a commit that is sent again, three cases must be told apart. It was served: it is
// in the ring. It was served so long ago that it is not there any more: its number is not above
// floor. It never came, and cannot come any more: all sessions of the client that began before
// have ended. So these are closed, and waited for. A lost connection therefore does not cancel
// a commit that the log has got, see [session.spares]. Commits that were certainly not written
// are not in the ring: they may be tried anew.
type outcomes struct {
	key wire.Key

	// The fields of Handler.mu.

	sessions  []*session // that have not ended, in the order in which they began
	connected int        // of these, with a connection
	timer     *time.Timer
	hold      budget.Hold // of the ring while nothing is connected

	mu struct {
		sync.Mutex
		ring   []outcome // at most maxOutcomes
		next   int       // when the ring is full: the oldest, which is replaced next
		bodies int       // bytes of bodies that are not small; at most maxBodies
		floor  uint64    // no number above it was forgotten
	}
}

// outcome is what became of one commit: the one answer, or an error that says Unknown.
type outcome struct {
	number uint64
	kind   wire.Type // TypeData, TypeError; 0: nothing any more
	size   uint8     // of small; Invariant: 0 if body is set
	small  [46]byte  // the payload of the answer to a commit of a few writes
	body   []byte    // a larger payload
}

// record notes the answer to a commit, before it is sent.
func (o *outcomes) record(number uint64, kind wire.Type, payload []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := o.mu.next
	if len(o.mu.ring) < maxOutcomes {
		at = len(o.mu.ring)
		o.mu.ring = append(o.mu.ring, outcome{})
	} else {
		o.mu.next = (at + 1) % maxOutcomes
	}
	e := &o.mu.ring[at]
	o.forgetLocked(e)
	e.number, e.kind = number, kind
	if len(payload) <= len(e.small) {
		e.size = uint8(copy(e.small[:], payload)) //nolint:gosec // of that length
		return
	}
	if o.mu.bodies+len(payload) > maxBodies {
		o.dropBodiesLocked()
	}
	if len(payload) > maxBodies {
		o.forgetLocked(e)
		return
	}
	e.body = slices.Clone(payload)
	o.mu.bodies += len(payload)
}

// dropBodiesLocked makes room: large answers are rare, and those before were most likely received.
func (o *outcomes) dropBodiesLocked() {
	for i := range o.mu.ring {
		if o.mu.ring[i].body != nil {
			o.forgetLocked(&o.mu.ring[i])
		}
	}
}

func (o *outcomes) forgetLocked(e *outcome) {
	if e.kind != 0 {
		o.mu.floor = max(o.mu.floor, e.number)
	}
	o.mu.bodies -= len(e.body)
	*e = outcome{}
}

// find returns the answer to a commit: a copy. Without one, late says that there may have been.
func (o *outcomes) find(number uint64) (kind wire.Type, payload []byte, late bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.mu.ring {
		if e := &o.mu.ring[i]; e.kind != 0 && e.number == number {
			return e.kind, append(slices.Clone(e.small[:e.size]), e.body...), false
		}
	}
	return 0, nil, number <= o.mu.floor
}

// size returns the bytes of memory.
func (o *outcomes) size() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	const rest = 256
	return rest + int64(cap(o.mu.ring))*outcomeSize + int64(o.mu.bodies)
}

// answerAgain answers a commit that an earlier session of the client carried, if it was served. If
// it was not, and cannot be any more, it returns false.
func (c *sessionCall) answerAgain() (answered bool, _ error) {
	o := c.s.outcomes
	if o == nil {
		return false, mainstem.Errorf(mainstem.KindUnavailable, "rpc", "%w", errTooLate).WithOutcome(mainstem.Unknown)
	}
	for _, earlier := range c.s.h.sessionsBefore(o, c.s) {
		earlier.conn.Close(errGone)
		select {
		case <-earlier.over:
		case <-c.Done():
			return false, canceled(c.Err())
		}
	}
	kind, payload, late := o.find(c.number)
	switch {
	case kind == wire.TypeError:
		c.post(wire.AppendFrame(nil, wire.TypeError, 0, c.number, payload))
		return true, nil
	case kind == wire.TypeData:
		return true, c.replyFrame(append(wire.BeginFrame(nil, wire.TypeData, wire.First|wire.Last|wire.End, c.number), payload...))
	case late:
		return false, mainstem.Errorf(mainstem.KindUnavailable, "rpc", "%w", errTooLate).WithOutcome(mainstem.Unknown)
	}
	return false, nil
}

// remembers reports whether the outcome of the call is recorded: it is a commit without an ID.
func (c *sessionCall) remembers() bool { return c.unnamed && !c.recorded }

// recordAnswer notes that the commit was carried out.
func (c *sessionCall) recordAnswer(payload []byte) {
	if c.remembers() {
		c.s.outcomes.record(c.number, wire.TypeData, payload)
		c.recorded = true
	}
}

// recordError notes an error, unless it says that nothing was written.
func (c *sessionCall) recordError(payload []byte) {
	if !c.remembers() {
		return
	}
	if e, err := message.ParseError(payload); err != nil || e.Outcome != mainstem.NotWritten {
		c.s.outcomes.record(c.number, wire.TypeError, payload)
		c.recorded = true
	}
}

// spares reports whether a call goes on when its session ends for that cause: the log has got
// a commit whose client may come back to ask for the outcome.
func (s *session) spares(c *sessionCall, cause error) bool {
	return s.outcomes != nil && c.method == wire.Commit && c.request != nil &&
		!errors.Is(cause, errStopping) && !errors.Is(cause, errToken) && !errors.Is(cause, errForgotten)
}

// The outcomes of a handler.

// resume returns the outcomes that belong to a key, new ones if there are none, for a session
// that begins.
func (h *Handler) resume(key wire.Key, s *session) *outcomes {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.mu.outcomes[key]
	if o == nil {
		o = &outcomes{hold: h.memory.sessions.Hold()}
		_, _ = rand.Read(o.key[:]) // it does not fail
		h.mu.outcomes[o.key] = o
	}
	h.foundLocked(o)
	o.sessions = append(o.sessions, s)
	o.connected++
	return o
}

// foundLocked notes that o has a session again, or is to be forgotten.
func (h *Handler) foundLocked(o *outcomes) {
	if o.timer != nil {
		o.timer.Stop()
		o.timer = nil
		o.hold.Release()
		h.mu.lost = slices.DeleteFunc(h.mu.lost, func(l *outcomes) bool { return l == o })
	}
}

// sessionsBefore returns the sessions that a client began before s, and that have not ended.
func (h *Handler) sessionsBefore(o *outcomes, s *session) []*session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(o.sessions[:max(slices.Index(o.sessions, s), 0)])
}

// disconnected notes that a session of o has lost its connection. Without another the client is
// forgotten after a time, and at once if there is no memory or there are many such.
func (h *Handler) disconnected(o *outcomes) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.connected--; o.connected > 0 {
		return
	}
	if h.mu.closed {
		delete(h.mu.outcomes, o.key)
		return
	}
	if len(h.mu.lost) >= maxLost {
		h.forgetLocked(h.mu.lost[0])
	}
	for n := o.size(); !o.hold.Try(n) && len(h.mu.lost) > 0; {
		h.forgetLocked(h.mu.lost[0])
	}
	h.mu.lost = append(h.mu.lost, o)
	o.timer = time.AfterFunc(resumeFor, func() { h.forget(o) })
	if o.hold.Size() == 0 {
		h.forgetLocked(o)
	}
}

// forget forgets o, unless it has got a session meanwhile.
func (h *Handler) forget(o *outcomes) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.timer != nil {
		h.forgetLocked(o)
	}
}

// forgetLocked forgets o, which has no connection, and cancels the commits that still run.
func (h *Handler) forgetLocked(o *outcomes) {
	h.foundLocked(o)
	delete(h.mu.outcomes, o.key)
	for _, s := range o.sessions {
		s.cut(errForgotten)
	}
}

// forgetLost forgets all clients that have no session.
func (h *Handler) forgetLost() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.mu.lost) > 0 {
		h.forgetLocked(h.mu.lost[0])
	}
}
