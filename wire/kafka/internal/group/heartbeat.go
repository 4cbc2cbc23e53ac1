package group

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// Heartbeat, versions 0 to 4.
//
//	v3  static members (KIP-345)

// Heartbeat keeps the session of a member of a classic group. REBALANCE_IN_PROGRESS
// asks it to join again. It writes nothing.
func (c *Coordinator) Heartbeat(ctx context.Context, _ coord.Client, req *kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse {
	resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
	resp.ErrorCode = c.beat(ctx, req)
	return resp
}

func (c *Coordinator) beat(ctx context.Context, req *kmsg.HeartbeatRequest) int16 {
	if !c.enter() {
		return kerr.CoordinatorNotAvailable.Code
	}
	defer c.wg.Done()
	if partition.ValidateGroup(req.Group) != nil {
		return kerr.InvalidGroupID.Code
	}
	g, err := c.acquire(ctx, req.Group, false)
	if err != nil {
		return c.code("heartbeat", req.Group, err)
	}
	if g == nil {
		return kerr.UnknownMemberID.Code
	}
	defer g.unlock()
	if code := g.checkGeneration(req.MemberID, req.InstanceID, req.Generation); code != 0 {
		return code
	}
	m := g.members[req.MemberID]
	if g.kind == consumer {
		return g.beatConsumer(ctx, m)
	}
	g.heard(m)
	if g.state == preparing {
		return kerr.RebalanceInProgress.Code
	}
	return 0
}

// checkMember returns the error for a client that says it is a member, or 0.
func (g *group) checkMember(id string, instance *string) int16 {
	if instance != nil {
		switch g.instances[*instance] {
		case "":
			return kerr.UnknownMemberID.Code
		case id:
		default:
			return kerr.FencedInstanceID.Code
		}
	}
	if g.members[id] == nil {
		return kerr.UnknownMemberID.Code
	}
	return 0
}

// checkGeneration is checkMember, and that a member of the classic protocol is in
// the current generation.
func (g *group) checkGeneration(id string, instance *string, generation int32) int16 {
	if code := g.checkMember(id, instance); code != 0 {
		return code
	}
	m := g.members[id]
	if g.kind == consumer {
		switch {
		case !m.classicInConsumer():
			return kerr.UnknownMemberID.Code
		case generation != m.epoch:
			return kerr.IllegalGeneration.Code
		}
		return 0
	}
	if !g.inGeneration(m, generation) {
		return kerr.IllegalGeneration.Code
	}
	return 0
}

// inGeneration reports whether a member of a classic group may act in a
// generation: the current one or, until the first after the group was a consumer
// group, the epoch that the member had there.
func (g *group) inGeneration(m *member, generation int32) bool {
	return generation == g.epoch || g.state == preparing && m.epoch > joining && generation == m.epoch
}
