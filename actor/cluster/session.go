package cluster

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster/internal/frames"
	"github.com/mainstemdev/mainstem/actor/cluster/link"
)

// session is what there is between this node and one life of another.
//
// Invariant: each entry of the maps is notified of the end of the session or removed before,
// never both: end takes the maps, and the caller of remove owns what it got.
type session struct {
	cluster *Cluster
	peer    *link.Peer
	name    string
	start   uint64

	life    context.Context // ends with the session
	arrival context.Context // the same, to deliver with
	stop    context.CancelCauseFunc
	limit   chan struct{} // holds one for each request that is being served

	in  atomic.Pointer[[]*kind]   // what the peer's numbers mean, by number; nil: nothing that can be read
	out atomic.Pointer[peerTypes] // what the peer can read

	replies  replies
	controls controls
	refused  atomic.Uint64 // frames

	mu           sync.Mutex // guards the fields below
	ended        bool
	next         uint64                  // numbers given so far
	monitors     map[uint64]func(error)  // of ours, of their actors
	watched      map[uint64]func()       // of theirs, of our actors: what cancels
	links        linkSet                 // between our actors and theirs
	pending      map[uint64]chan outcome // our requests
	sinks        map[uint64]sink         // our subscriptions
	taps         map[uint64]func()       // their subscriptions: what cancels
	unknownTypes map[string]frames.Entry // types of theirs that we do not know, by name
	unknownBytes int                     // bytes that were ever put into unknownTypes
}

// peerTypes are what a peer has said about our types, by number.
type peerTypes struct {
	known   []string      // "" for those that it can read; unanswered until it has said so
	lacking bool          // it cannot read some, or has not said so of all of these
	changed chan struct{} // closed when there are others
}

const unanswered = "\x00"

// maxRequests is how many requests of one node are served at a time; then its
// connection waits.
const maxRequests = 64

func newSession(c *Cluster, p *link.Peer) *session {
	s := &session{
		cluster: c, peer: p, name: p.Name(), start: p.Start(), limit: make(chan struct{}, maxRequests),
		monitors: map[uint64]func(error){}, watched: map[uint64]func(){}, links: newLinkSet(),
		pending: map[uint64]chan outcome{}, sinks: map[uint64]sink{}, taps: map[uint64]func(){}, unknownTypes: map[string]frames.Entry{},
	}
	s.life, s.stop = context.WithCancelCause(c.life)
	s.arrival = c.in.Arriving(s.life)
	s.in.Store(new([]*kind))
	s.out.Store(&peerTypes{changed: make(chan struct{})})
	s.replies.session = s
	s.replies.room = sync.NewCond(&s.replies.mu)
	return s
}

// lanes is how many streams of frames there are that keep their order.
const lanes = 64

// lane returns the lane of what is from an actor, of which 0 is none.
func lane(from uint64) uint32 { return uint32(from % lanes) }

// sendFrame sends a small frame, and waits for credit as long as ctx allows.
func (s *session) sendFrame(ctx context.Context, from uint64, frame func(dst []byte) []byte) error {
	return s.peer.Send(ctx, lane(from), link.ExactlyOnce, func(dst []byte) ([]byte, error) { return frame(dst), nil })
}

// number gives the next number of a monitor, request or subscription.
func (s *session) numberLocked() uint64 {
	s.next++
	return s.next
}

// remove removes the entry of a number from a map of s, and returns it. It is nil if it was
// removed before or the session has ended.
func remove[V any](s *session, from *map[uint64]V, number uint64) V {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := (*from)[number]
	delete(*from, number)
	return v
}

// setCancel puts cancel into a map of s, at a number that was put there before. It calls
// cancel if the number was removed meanwhile.
func (s *session) setCancel(in *map[uint64]func(), number uint64, cancel func()) {
	s.mu.Lock()
	_, found := (*in)[number]
	if found {
		(*in)[number] = cancel
	}
	s.mu.Unlock()
	if !found {
		cancel()
	}
}

// end ends all there is between the nodes: everything that waits for the peer gets an error, once.
func (s *session) end(reason error) {
	s.mu.Lock()
	s.ended = true
	monitors, watched, links, pending, sinks, taps := s.monitors, s.watched, s.links, s.pending, s.sinks, s.taps
	s.monitors, s.watched, s.links, s.pending, s.sinks, s.taps = nil, nil, linkSet{}, nil, nil, nil
	s.mu.Unlock()
	s.stop(reason)
	s.replies.close()

	s.cluster.in.Lost(s.name)
	for _, ch := range pending {
		ch <- outcome{err: s.lost(reason)}
	}
	for _, cancel := range watched {
		cancel()
	}
	for _, cancel := range taps {
		cancel()
	}
	for p := range links.byPair {
		s.cluster.in.Exit(p.there, s.here(frames.Target{ID: p.here}), actor.NodeDown)
	}
	for _, notify := range monitors {
		notify(actor.NodeDown)
	}
	for _, sink := range sinks {
		sink.end(actor.NodeDown)
	}
}

// lost is the error of what was under way when the session ended.
func (s *session) lost(reason error) error {
	return &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "reach node " + s.name, Err: errors.Join(actor.NodeDown, reason)}
}

// here returns the address of an actor of this node.
func (s *session) here(t frames.Target) actor.Address {
	return actor.Address{Node: s.cluster.node.Name(), Start: s.cluster.node.Start(), ID: t.ID, Name: t.Name}
}

// there returns the address of an actor of the peer.
func (s *session) there(t frames.Target) actor.Address {
	return actor.Address{Node: s.name, Start: s.start, ID: t.ID, Name: t.Name}
}

func target(a actor.Address) frames.Target {
	if a.ID != 0 {
		return frames.Target{ID: a.ID}
	}
	return frames.Target{Name: a.Name}
}

// kindOf returns the kind of a value, nil for nil, once it is known that the peer can
// read it.
func (s *session) kindOf(ctx context.Context, v any) (*kind, error) {
	if v == nil {
		return nil, nil
	}
	k, err := s.cluster.kinds.of(v)
	if err != nil {
		return nil, err
	}
	j := s.out.Load()
	if i := int(k.number) - 1; i >= len(j.known) || j.known[i] != "" {
		if err := s.awaitTypeAck(ctx, k, v); err != nil {
			return nil, err
		}
		j = s.out.Load()
	}
	if k.others && (j.lacking || len(j.known) < len(s.cluster.kinds.table.Load().byNumber)) {
		return k, s.readable(ctx, reflect.ValueOf(v), maxInside)
	}
	return k, nil
}

// awaitTypeAck waits until the peer has answered whether it can read the kind of a value, and
// fails if it cannot.
func (s *session) awaitTypeAck(ctx context.Context, k *kind, v any) error {
	i := int(k.number) - 1
	for {
		j := s.out.Load()
		if i < len(j.known) && j.known[i] != unanswered {
			if problem := j.known[i]; problem != "" {
				return unsendable(reflect.TypeOf(v).String(), "to node "+s.name+": "+problem)
			}
			return nil
		}
		began := time.Now()
		select {
		case <-j.changed:
		case <-s.life.Done():
			return s.lost(context.Cause(s.life))
		case <-ctx.Done():
			return mainstem.Ended(ctx, "send to node "+s.name, began, "its answer about the types of messages")
		}
	}
}

// announce sends the peer kinds of this node.
func (s *session) announce(ks []*kind) {
	// A large catalog goes in parts.
	for len(ks) > 0 {
		n, size := 0, 0
		for n < len(ks) && size < maxCatalogPart {
			size += len(ks[n].name) + len(ks[n].schema)
			n++
		}
		part := catalog(ks[:n])
		s.replies.send(0, func(dst []byte) []byte { return part.Append(dst) })
		ks = ks[n:]
	}
}

// maxUnknownBytes is how many bytes of types that are not known here are kept of a peer.
const maxUnknownBytes = 16 << 20

// maxCatalogPart is about how many bytes of names and schemas are in one frame.
const maxCatalogPart = 256 << 10

// onCatalog takes in types of the peer, and answers which of them can be read here.
func (s *session) onCatalog(body []byte) error {
	c, err := frames.ParseCatalog(body)
	if err != nil {
		return err
	}
	s.consider(c.Entries)
	return nil
}

// consider answers which entries can be read, and keeps those that are not registered for later.
func (s *session) consider(entries []frames.Entry) {
	ack := &frames.TypeAck{}
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	in := append([]*kind(nil), *s.in.Load()...)
	for _, e := range entries {
		k, problem := s.cluster.kinds.judge(e)
		if k == nil {
			if size := len(e.Name) + len(e.Schema); s.unknownBytes+size <= maxUnknownBytes {
				s.unknownTypes[e.Name] = e
				s.unknownBytes += size
			}
		} else {
			delete(s.unknownTypes, e.Name)
			for uint64(len(in)) <= e.Number {
				in = append(in, nil)
			}
			in[e.Number] = k
		}
		ack.Answers = append(ack.Answers, frames.TypeAnswer{Number: e.Number, Problem: problem})
	}
	s.in.Store(&in)
	s.mu.Unlock()
	s.replies.send(0, func(dst []byte) []byte { return ack.Append(dst) })
}

// reconsider answers again about entries that have been registered here since.
func (s *session) reconsider() {
	s.mu.Lock()
	var again []frames.Entry
	for name, e := range s.unknownTypes {
		if s.cluster.kinds.table.Load().byName[name] != nil {
			again = append(again, e)
		}
	}
	s.mu.Unlock()
	if len(again) > 0 {
		s.consider(again)
	}
}

// onTypeAck takes in which types the peer can read.
func (s *session) onTypeAck(body []byte) error {
	v, err := frames.ParseTypeAck(body)
	if err != nil {
		return err
	}
	table := s.cluster.kinds.table.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.out.Load()
	now := &peerTypes{known: append([]string(nil), old.known...), changed: make(chan struct{})}
	for _, j := range v.Answers {
		if j.Number > uint64(len(table.byNumber)) {
			return fmt.Errorf("%w: a verdict on type %d, of which there are %d", frames.ErrMalformed, j.Number, len(table.byNumber))
		}
		for uint64(len(now.known)) < j.Number {
			now.known = append(now.known, unanswered)
		}
		now.known[j.Number-1] = j.Problem
	}
	for _, problem := range now.known {
		now.lacking = now.lacking || problem != ""
	}
	s.out.Store(now)
	close(old.changed)
	return nil
}

// kindNumbered returns the kind that the peer means by a number.
func (s *session) kindNumbered(n uint64) (*kind, error) {
	in := *s.in.Load()
	if n < uint64(len(in)) && in[n] != nil && in[n].typ != nil {
		return in[n], nil
	}
	return nil, fmt.Errorf("%w: type %d, which was not announced or cannot be read here", frames.ErrMalformed, n)
}

// value decodes a value of the peer.
func (s *session) value(v frames.Value) (any, error) {
	if v.Type == 0 {
		if len(v.Data) > 0 {
			return nil, fmt.Errorf("%w: nil with data", frames.ErrMalformed)
		}
		return nil, nil
	}
	k, err := s.kindNumbered(v.Type)
	if err != nil {
		return nil, err
	}
	return k.Value(v.Data)
}
