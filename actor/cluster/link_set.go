package cluster

import (
	"fmt"
	"slices"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster/internal/frames"
)

// pair is two linked actors: one of this node, by number, and one of the peer, by the address that
// the runtime of this node uses.
type pair struct {
	here  uint64
	there actor.Address
}

// linkID is the number of a link.
type linkID struct {
	id   uint64
	ours bool // this node gave the number; else the peer
}

// linkSet are the links between actors of this node and one life of another. If both nodes have
// linked the same pair it has two numbers; all links of a pair end together. session.mu guards it.
//
// Invariant: byID[id] is p exactly if byPair[p] has id.
type linkSet struct {
	byID   map[linkID]pair
	byPair map[pair][]linkID
}

func newLinkSet() linkSet { return linkSet{map[linkID]pair{}, map[pair][]linkID{}} }

func (t *linkSet) add(id linkID, p pair) {
	t.byID[id] = p
	t.byPair[p] = append(t.byPair[p], id)
}

// drop removes a pair and returns its numbers.
func (t *linkSet) drop(p pair) []linkID {
	ids := t.byPair[p]
	for _, id := range ids {
		delete(t.byID, id)
	}
	delete(t.byPair, p)
	return ids
}

// maxWatches is the number of links between two nodes above which the peer cannot add any, and the
// number of monitors of one node for actors of the other.
const maxWatches = 1 << 20

var errWatches = fmt.Errorf("a node has more than %d links or monitors for actors of another", maxWatches)

// addLink adds a link. It returns false if the session has ended, the number is in use,
// or a link of the peer exceeds maxWatches.
func (s *session) addLink(id linkID, p pair) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.links.byID[id]; s.ended || taken || !id.ours && len(s.links.byID) >= maxWatches {
		return false
	}
	s.links.add(id, p)
	return true
}

// dropLink removes a pair and returns its numbers.
func (s *session) dropLink(p pair) []linkID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.links.drop(p)
}

// dropLinkID removes the pair of a number.
func (s *session) dropLinkID(id linkID) (pair, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.links.byID[id]
	if ok {
		s.links.drop(p)
	}
	return p, ok
}

// Link implements [actor.Transport]: it links an actor of this node to one of another. If that is
// gone or its node goes down, the runtime gets an Exit later.
func (c *Cluster) Link(from, to actor.Address) error {
	s, err := c.live(c.life, to)
	if err != nil {
		return err
	}
	s.mu.Lock()
	l := frames.Link{ID: s.numberLocked(), From: from.ID, To: target(to)}
	s.mu.Unlock()
	if !s.addLink(linkID{l.ID, true}, pair{from.ID, to}) {
		return s.lost(actor.NodeDown)
	}
	if err := s.sendFrame(s.life, from.ID, l.Append); err != nil && len(s.dropLink(pair{from.ID, to})) > 0 {
		return sendFailed(to, err)
	}
	return nil
}

// known returns the session with a node if it is up, nil if it is not.
func (c *Cluster) known(a actor.Address) *session {
	s := c.sessions.Load().byName[a.Node]
	if s == nil || a.Start != 0 && a.Start != s.start {
		return nil
	}
	return s
}

// Unlink implements [actor.Transport]: it ends all links of a pair.
func (c *Cluster) Unlink(from, to actor.Address) {
	s := c.known(to)
	if s == nil {
		return
	}
	for _, id := range s.dropLink(pair{from.ID, to}) {
		u := frames.Unlink{Kind: frames.KindUnlink, ID: id.id, Theirs: !id.ours}
		s.replies.send(from.ID, u.AppendHead)
	}
}

// Exit implements [actor.Transport]: it reports to a linked actor of another node that one of this
// node has ended. If the node is down, its links have ended with NodeDown already.
func (c *Cluster) Exit(from, to actor.Address, reason error) {
	s := c.known(to)
	if s == nil {
		return
	}
	ids := s.dropLink(pair{from.ID, to})
	if len(ids) > 0 {
		s.exit(from.ID, ids[0], reason)
	}
}

// exit sends the end of a link to the peer, from an actor of this node or 0.
func (s *session) exit(from uint64, id linkID, reason error) {
	u := frames.Unlink{Kind: frames.KindExit, ID: id.id, Theirs: !id.ours}
	text := s.encodeError(reason)
	s.replies.send(from, func(dst []byte) []byte { return append(u.AppendHead(dst), text...) })
}

// onLink links an actor of the peer to one of this node.
func (s *session) onLink(body []byte) error {
	l, err := frames.ParseLink(body)
	if err != nil {
		return err
	}
	id := linkID{l.ID, false}
	number := s.cluster.in.Number(s.here(l.To))
	p := pair{number, s.there(frames.Target{ID: l.From})}
	if number == 0 {
		s.exit(0, id, actor.Missing)
		return nil
	}
	// Add the link first: after in.Link the actor may end at any time, and Exit looks for it.
	if !s.addLink(id, p) {
		s.exit(number, id, errWatches)
		return nil
	}
	if err := s.cluster.in.Link(p.there, s.here(frames.Target{ID: number})); err != nil && slices.Contains(s.dropLink(p), id) {
		s.exit(0, id, err)
	}
	return nil
}

// onUnlink ends a link, for an Unlink or an Exit of the peer.
func (s *session) onUnlink(body []byte) error {
	u, err := frames.ParseUnlink(body)
	if err != nil {
		return err
	}
	p, ok := s.dropLinkID(linkID{u.ID, u.Theirs})
	if !ok {
		return nil // both nodes have ended it at the same time
	}
	here := s.here(frames.Target{ID: p.here})
	if u.Kind == frames.KindUnlink {
		s.cluster.in.Unlink(p.there, here)
	} else {
		s.cluster.in.Exit(p.there, here, s.cluster.parseError(u.Reason))
	}
	return nil
}
