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

// session is the state that this node shares with one life of another: types, numbers of monitors,
// links, requests and subscriptions.
//
// # Lanes
//
// A frame goes through the lane of its sender, an actor by number or 0 for none (see lane). Frames
// of a lane arrive in order. So the messages of an actor, its monitors, links and the notice of its
// end keep their order.
//
// # Types
//
// Each node numbers its types and sends the other a catalog: numbers, names and schemas. The
// receiver answers which of them it can read, and why not the others (TypeAck). A message is sent
// when its type has a positive answer; until there is an answer, Send waits. If the receiver
// registers a type later that it could not read, it answers again.
//
// # Numbers
//
// Each node numbers the monitors, links, requests and subscriptions that it begins. The kind of a
// frame, or for links a flag (see linkID), determines which of the two gave the number in it.
//
// Invariant: each entry of the maps is either removed or notified of the end of the session, never
// both and never neither: end takes the maps, and the caller of remove owns the entry that it got.
type session struct {
	cluster *Cluster
	peer    *link.Peer
	name    string
	start   uint64 // the life of the peer

	life    context.Context         // ends with the session
	arrival context.Context         // life, as actor.Inbound.Arriving makes it, to deliver with
	stop    context.CancelCauseFunc // of life
	limit   chan struct{}           // one element for each request of the peer that is being served

	in  atomic.Pointer[[]*kind]   // by the peer's numbers, its types that can be read here; else nil
	out atomic.Pointer[peerTypes] // the peer's answers about the types of this node

	replies  replies
	controls controls
	refused  atomic.Uint64 // frames of the peer

	considering  sync.Mutex // held from finding answers to sending them; before mu
	mu           sync.Mutex // guards the fields below
	ended        bool
	next         uint64                  // the last number that this node gave
	monitors     map[uint64]func(error)  // this node's monitors of actors of the peer: the callbacks
	watched      map[uint64]func()       // the peer's monitors of actors of this node: cancel functions
	links        linkSet                 // between actors of both
	pending      map[uint64]chan outcome // this node's requests
	sinks        map[uint64]sink         // this node's subscriptions
	taps         map[uint64]func()       // the peer's subscriptions: cancel functions
	unknownTypes map[string]frames.Entry // types of the peer that cannot be read here, by name
	unknownBytes int                     // size of unknownTypes
}

// peerTypes are a peer's answers about the types of this node. It is not changed once it is in
// session.out.
type peerTypes struct {
	known   []string      // by number less one: "" readable, unanswered, or why it is not readable
	lacking bool          // some in known is not ""
	changed chan struct{} // closed when another one has replaced this
}

const unanswered = "\x00"

// maxRequests is the number of requests of one node that are served at a time. At the limit the
// connection with the next request is not read.
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

// lanes is the number of lanes that this node uses, from 0.
const lanes = 64

// lane returns the lane of the frames of an actor, by number; 0 is none.
func lane(from uint64) uint32 { return uint32(from % lanes) }

// sendFrame sends a small frame, and waits for credit as long as ctx allows.
func (s *session) sendFrame(ctx context.Context, from uint64, frame func(dst []byte) []byte) error {
	return s.peer.Send(ctx, lane(from), link.ExactlyOnce, func(dst []byte) ([]byte, error) { return frame(dst), nil })
}

// numberLocked returns the number of a new monitor, link, request or subscription of this node. The
// caller holds mu.
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

// end ends everything that depends on the peer: requests and questions fail, monitors and links
// report NodeDown, subscriptions end. Each is notified once.
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

// lost is the Unavailable error of a call, or a message, that the end of the session has interrupted.
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

// target returns the target of an address: by number if it has one.
func target(a actor.Address) frames.Target {
	if a.ID != 0 {
		return frames.Target{ID: a.ID}
	}
	return frames.Target{Name: a.Name}
}

// kindOf returns the kind of a value to send, nil for nil. It waits for the peer's answer about the
// type, and fails with ErrUnregistered if the peer cannot read it, or a value inside of it (see
// readable).
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

// awaitTypeAck waits for the peer's answer about the kind of a value, and fails if the peer cannot
// read it.
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

// room returns how many bytes a message to the peer can have besides the numbers at its front.
func (s *session) room() int { return s.peer.MaxMessage() - 64 }

// announce sends the peer a catalog of kinds of this node, in parts if it is large. The peer cannot
// read a kind that is too large for a message.
func (s *session) announce(ks []*kind) {
	var part []*kind
	var unsent []frames.TypeAnswer
	size := 0
	for _, k := range ks {
		n := typeRoom + len(k.name) + len(k.schema)
		if n > s.room() {
			unsent = append(unsent, frames.TypeAnswer{Number: k.number, Problem: fmt.Sprintf(
				"its name and schema have %d bytes, and a message between these nodes at most %d: raise Options.MaxMessage", n-typeRoom, s.peer.MaxMessage())})
			continue
		}
		if size > 0 && size+n > min(s.room(), maxCatalogPart) {
			s.sendCatalog(part)
			part, size = nil, 0
		}
		part, size = append(part, k), size+n
	}
	if size > 0 {
		s.sendCatalog(part)
	}
	if len(unsent) > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answeredLocked(unsent)
	}
}

func (s *session) sendCatalog(ks []*kind) {
	part := catalog(ks)
	s.replies.send(0, func(dst []byte) []byte { return part.Append(dst) })
}

// acknowledge sends the peer answers about its types, in parts if they are large.
func (s *session) acknowledge(answers []frames.TypeAnswer) {
	for len(answers) > 0 {
		n, size := 0, 0
		for ; n < len(answers); n++ {
			problem := &answers[n].Problem
			*problem = (*problem)[:min(len(*problem), frames.MaxText, max(0, s.room()-typeRoom))]
			if size += typeRoom + len(*problem); n > 0 && size > s.room() {
				break
			}
		}
		ack := &frames.TypeAck{Answers: answers[:n]}
		s.replies.send(0, func(dst []byte) []byte { return ack.Append(dst) })
		answers = answers[n:]
	}
}

// maxUnknownBytes limits session.unknownBytes. A type beyond it is not answered again when it is
// registered here.
const maxUnknownBytes = 16 << 20

// sizeOf returns the bytes of an entry of session.unknownTypes.
func sizeOf(e frames.Entry) int { return len(e.Name) + len(e.Schema) }

// maxCatalogPart is the size in bytes at which a part of a catalog ends; a single entry may exceed
// it.
const maxCatalogPart = 256 << 10

// typeRoom is more bytes than the numbers and lengths of a type in a catalog or in its answer have.
const typeRoom = 32

// onCatalog takes in types of the peer, and answers.
func (s *session) onCatalog(body []byte) error {
	c, err := frames.ParseCatalog(body)
	if err != nil {
		return err
	}
	s.consider(c.Entries)
	return nil
}

// consider answers which entries can be read here, and keeps the others for reconsider. The peer
// goes by the last answer for a type, so answers are sent in the order in which they were found.
func (s *session) consider(entries []frames.Entry) {
	s.considering.Lock()
	defer s.considering.Unlock()
	var answers []frames.TypeAnswer
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	in := append([]*kind(nil), *s.in.Load()...)
	for _, e := range entries {
		k, problem := s.cluster.kinds.judge(e)
		if past, again := s.unknownTypes[e.Name]; again {
			delete(s.unknownTypes, e.Name)
			s.unknownBytes -= sizeOf(past)
		}
		if k == nil {
			if s.unknownBytes+sizeOf(e) <= maxUnknownBytes {
				s.unknownTypes[e.Name] = e
				s.unknownBytes += sizeOf(e)
			}
		} else {
			for uint64(len(in)) <= e.Number {
				in = append(in, nil)
			}
			in[e.Number] = k
		}
		answers = append(answers, frames.TypeAnswer{Number: e.Number, Problem: problem})
	}
	s.in.Store(&in)
	s.mu.Unlock()
	s.acknowledge(answers)
}

// reconsider answers again about types of the peer that could not be read, and are registered here.
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

// onTypeAck takes in answers of the peer about types of this node.
func (s *session) onTypeAck(body []byte) error {
	v, err := frames.ParseTypeAck(body)
	if err != nil {
		return err
	}
	table := s.cluster.kinds.table.Load()
	for _, j := range v.Answers {
		if j.Number > uint64(len(table.byNumber)) {
			return fmt.Errorf("%w: a verdict on type %d, of which there are %d", frames.ErrMalformed, j.Number, len(table.byNumber))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answeredLocked(v.Answers)
	return nil
}

// answeredLocked takes in answers about types of this node. The caller holds mu.
func (s *session) answeredLocked(answers []frames.TypeAnswer) {
	old := s.out.Load()
	now := &peerTypes{known: append([]string(nil), old.known...), changed: make(chan struct{})}
	for _, j := range answers {
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
}

// kindNumbered returns the kind of a number of the peer. It must be a type, not an error value.
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
