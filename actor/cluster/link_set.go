package cluster

import (
	"fmt"
	"slices"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster/internal/frames"
)

// pair is a link: an actor of this node, by number, and one of the peer, as the
// runtime of this node addresses it.
type pair struct {
	here  uint64
	there actor.Address
}

// linkID is the number of a link: ours or the peer's.
type linkID struct {
	id   uint64
	ours bool
}

// linkSet are the links between actors of this node and one life of another. A pair
// that both have linked has two numbers, and ends as one.
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

// maxWatches is how many links, and how many monitors, a node may have for actors of this one.
const maxWatches = 1 << 20

var errWatches = fmt.Errorf("a node has more than %d links or monitors for actors of another", maxWatches)

// addLink adds a link. It reports false if the session has ended, the number is in use,
// or the peer has too many.
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

// Link links an actor of this node to one of another.
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

// Unlink ends the link between them.
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

// Exit reports to an actor of another node that one of this node has ended. If that
// node is down, its links have ended with NodeDown.
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

func (s *session) exit(from uint64, id linkID, reason error) {
	u := frames.Unlink{Kind: frames.KindExit, ID: id.id, Theirs: !id.ours}
	text := s.cluster.appendError(nil, reason)
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
	// The link is added first: from in.Link on the actor may end at any time.
	if !s.addLink(id, p) {
		s.exit(number, id, errWatches)
		return nil
	}
	if err := s.cluster.in.Link(p.there, s.here(frames.Target{ID: number})); err != nil && slices.Contains(s.dropLink(p), id) {
		s.exit(0, id, err)
	}
	return nil
}

// onUnlink ends a link: as it was asked to, or because the peer's actor has ended.
func (s *session) onUnlink(body []byte) error {
	u, err := frames.ParseUnlink(body)
	if err != nil {
		return err
	}
	p, ok := s.dropLinkID(linkID{u.ID, u.Theirs})
	if !ok {
		return nil // both ended at once
	}
	here := s.here(frames.Target{ID: p.here})
	if u.Kind == frames.KindUnlink {
		s.cluster.in.Unlink(p.there, here)
	} else {
		s.cluster.in.Exit(p.there, here, s.cluster.parseError(u.Reason))
	}
	return nil
}
