package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster/internal/frames"
	"github.com/mainstemdev/mainstem/actor/cluster/link"
)

// Group is the union of the groups of one name on all nodes, see [actor.Group]. Each node has the
// list of its own members only; Members and Broadcast ask the nodes that are up.
type Group[M any] struct {
	cluster *Cluster
	name    string
	local   *actor.Group[M]
}

// GroupOf returns the group of a name. It fails with Invalid if the name is empty, or if the group of
// that name on this node takes other messages.
func GroupOf[M any](c *Cluster, name string) (*Group[M], error) {
	if name == "" {
		return nil, invalidf("the name of a group is empty")
	}
	local, err := actor.GroupOf[M](c.node, name)
	if err != nil {
		return nil, err
	}
	return &Group[M]{c, name, local}, nil
}

// Join makes an actor of this node a member. Errors are those of [actor.Group.Join].
func (g *Group[M]) Join(r actor.Ref[M]) error { return g.local.Join(r) }

// Leave ends the membership of an actor of this node, and reports whether it was a member.
func (g *Group[M]) Leave(r actor.AnyRef) bool { return g.local.Leave(r) }

// Local returns the group of this node.
func (g *Group[M]) Local() *actor.Group[M] { return g.local }

// Members returns the members on all nodes that are up, those of this node first. If a node does not
// answer, it returns an error and the members on the others.
func (g *Group[M]) Members(ctx context.Context) ([]actor.Ref[M], error) {
	members := g.local.Members()
	type answer struct {
		s       *session
		numbers []uint64
		err     error
	}
	all := g.cluster.sessions.Load().byName
	answers := make(chan answer, len(all))
	for _, s := range all {
		go func() {
			numbers, err := s.request(ctx, 0, frames.Request{Op: frames.OpMembers, Name: g.name}, nil)
			answers <- answer{s, numbers, err}
		}()
	}
	var wrong error
	for range all {
		a := <-answers
		wrong = errors.Join(wrong, a.err)
		for _, id := range a.numbers {
			r, err := actor.At[M](g.cluster.node, a.s.there(frames.Target{ID: id}))
			if err == nil && id != 0 {
				members = append(members, r)
			}
		}
	}
	return members, wrong
}

// Broadcast sends m to all members on all nodes that are up. One message crosses the wire for each
// node. It returns the number of members on this node, and an error if m could not be sent to some
// nodes; it was sent to the others. Messages of one sender to one member keep their order.
func (g *Group[M]) Broadcast(ctx context.Context, m M) (local int, err error) {
	local, err = g.local.Broadcast(ctx, m)
	from := g.cluster.in.Sender(ctx)
	for _, s := range g.cluster.sessions.Load().byName {
		err = errors.Join(err, s.broadcast(ctx, from, g.name, m))
	}
	return local, err
}

func (s *session) broadcast(ctx context.Context, from uint64, group string, m any) error {
	k, err := s.kindOf(ctx, m)
	if err != nil {
		return err
	}
	f := frames.Group{Name: group}
	if k != nil {
		f.Type = k.number
	}
	err = s.peer.Send(ctx, lane(from), link.ExactlyOnce, func(dst []byte) ([]byte, error) {
		dst = f.AppendHead(dst)
		if k == nil {
			return dst, nil
		}
		return s.cluster.kinds.codec.Append(dst, m)
	})
	if err != nil {
		return sendFailed(s.there(frames.Target{Name: group}), err)
	}
	return nil
}

// onGroup puts a message into the mailboxes of the members on this node.
func (s *session) onGroup(body []byte) error {
	f, err := frames.ParseGroup(body)
	if err != nil {
		return err
	}
	v, err := s.value(f.Value)
	if err != nil {
		return err
	}
	if _, err := s.cluster.in.Broadcast(s.arrival, f.Name, v); err != nil {
		return fmt.Errorf("group %s: %w", f.Name, err)
	}
	return nil
}
