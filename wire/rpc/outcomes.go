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

// Limits of the recorded commits of one client.
const (
	maxOutcomes = 1024      // commits
	maxBodies   = 128 << 10 // bytes of answers that are too large for outcome.small
	outcomeSize = 80        // bytes of an outcome in memory
	maxLost     = 1024      // clients without a session
)

// resumeFor is how long the outcomes of a client without a session are kept.
const resumeFor = time.Minute

// Causes of the end of calls, and errors of commits that are sent again.
var (
	errForgotten = errors.New("the client did not come back")
	errTooLate   = errors.New("the server does not remember the outcome of the commit any more")
)

// outcomes has the outcomes of the commits without an ID of one client. If the connection breaks,
// the client can send such a commit again, with its number, in another session.
//
// A log remembers commits by their IDs, which costs a key for each commit. Here a commit costs
// some bytes of memory that are copied. In return nothing survives the handler: its clients then
// get another key (see [wire.Key]), and the outcome stays unknown, unless they have given IDs to
// their batches, see docs/sessions.md.
//
// There are three cases for a commit that is sent again. If it was served, it is in the ring. If
// it was served so long ago that it is not in the ring any more, its number is not above floor.
// Otherwise it has never arrived, and it must be certain that it cannot arrive any more: so all
// earlier sessions of the client are closed, and waited for. A lost connection therefore does not
// cancel a commit that the log is executing, see [session.spares]. Commits that were certainly
// not written are not in the ring, and may be executed again.
type outcomes struct {
	key wire.Key

	// Fields under Handler.mu.

	sessions  []*session // that have not ended, oldest first
	connected int        // number of these that have a connection
	timer     *time.Timer
	hold      budget.Hold // for the ring while no session has a connection

	mu struct {
		sync.Mutex
		ring   []outcome // at most maxOutcomes
		next   int       // when the ring is full: index of the oldest, which is replaced next
		bodies int       // bytes of bodies, not counting small; at most maxBodies
		floor  uint64    // outcomes with numbers above it were not dropped
	}
}

// outcome is the outcome of one commit: its answer, or an error with outcome Unknown.
type outcome struct {
	number uint64
	kind   wire.Type // TypeData or TypeError; 0: dropped
	size   uint8     // of small; Invariant: 0 if body is set
	small  [46]byte  // payload of the answer to a commit of a few writes
	body   []byte    // a larger payload
}

// record stores the answer to a commit, before it is sent.
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

// dropBodiesLocked drops large answers to make room. They are rare, and clients have most likely
// received them.
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

// find returns a copy of the answer to a commit. If there is none, late reports that it may have
// been dropped.
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

// size returns the memory in use, in bytes.
func (o *outcomes) size() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	const rest = 256
	return rest + int64(cap(o.mu.ring))*outcomeSize + int64(o.mu.bodies)
}

// answerAgain answers a commit that an earlier session of the client has sent, if it was served.
// If it was not served and cannot be any more, it returns false.
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

// remembers reports whether the outcome of the call must be recorded: it is a commit without an
// ID.
func (c *sessionCall) remembers() bool { return c.unnamed && !c.recorded }

// recordAnswer records the answer to the commit.
func (c *sessionCall) recordAnswer(payload []byte) {
	if c.remembers() {
		c.s.outcomes.record(c.number, wire.TypeData, payload)
		c.recorded = true
	}
}

// recordError records an error, unless nothing was written.
func (c *sessionCall) recordError(payload []byte) {
	if !c.remembers() {
		return
	}
	if e, err := message.ParseError(payload); err != nil || e.Outcome != mainstem.NotWritten {
		c.s.outcomes.record(c.number, wire.TypeError, payload)
		c.recorded = true
	}
}

// spares reports whether a call continues although its session ends with that cause: it is a
// commit that the log is executing, and whose client may ask for the outcome later.
func (s *session) spares(c *sessionCall, cause error) bool {
	return s.outcomes != nil && c.method == wire.Commit && c.request != nil &&
		!errors.Is(cause, errStopping) && !errors.Is(cause, errToken) && !errors.Is(cause, errForgotten)
}

// The outcomes of a handler.

// resume returns the outcomes for a key, or new ones if there are none, for a session that
// begins.
func (h *Handler) resume(key wire.Key, s *session) *outcomes {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.mu.outcomes[key]
	if o == nil {
		o = &outcomes{hold: h.memory.sessions.Hold()}
		_, _ = rand.Read(o.key[:]) // never fails
		h.mu.outcomes[o.key] = o
	}
	h.foundLocked(o)
	o.sessions = append(o.sessions, s)
	o.connected++
	return o
}

// foundLocked removes o from the clients without a session: it has one again, or will be dropped.
func (h *Handler) foundLocked(o *outcomes) {
	if o.timer != nil {
		o.timer.Stop()
		o.timer = nil
		o.hold.Release()
		h.mu.lost = slices.DeleteFunc(h.mu.lost, func(l *outcomes) bool { return l == o })
	}
}

// sessionsBefore returns the sessions of a client that began before s and have not ended.
func (h *Handler) sessionsBefore(o *outcomes, s *session) []*session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(o.sessions[:max(slices.Index(o.sessions, s), 0)])
}

// disconnected records that a session of o has lost its connection. If it was the last one, o is
// dropped after resumeFor. If there are too many such clients, or no memory for o, the clients
// that were lost first are dropped, and at last o itself.
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

// forget drops o, unless it has a session again.
func (h *Handler) forget(o *outcomes) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.timer != nil {
		h.forgetLocked(o)
	}
}

// forgetLocked drops o, which must have no connection, and cancels its running commits.
func (h *Handler) forgetLocked(o *outcomes) {
	h.foundLocked(o)
	delete(h.mu.outcomes, o.key)
	for _, s := range o.sessions {
		s.cut(errForgotten)
	}
}

// forgetLost drops the outcomes of all clients without a session.
func (h *Handler) forgetLost() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.mu.lost) > 0 {
		h.forgetLocked(h.mu.lost[0])
	}
}
