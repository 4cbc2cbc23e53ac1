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

// Heartbeat extends the session of a member with the classic protocol. The answer
// REBALANCE_IN_PROGRESS asks the member to join again. It writes nothing, except the new epoch of a
// consumer group whose topics have changed.
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

// checkMember returns 0 if id is a member and, with an instance, the current one of the instance;
// else UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
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

// checkGeneration is checkMember that returns ILLEGAL_GENERATION unless the member is in the
// current generation, or in a consumer group has this epoch. A member that does not speak the
// classic protocol is unknown to it.
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

// inGeneration reports whether a member of a classic group may act in a generation. It may in the
// current one. Between a downgrade and the next generation it may in the epoch that it had in the
// consumer group, so that it gets REBALANCE_IN_PROGRESS and not an error.
func (g *group) inGeneration(m *member, generation int32) bool {
	return generation == g.epoch || g.state == preparing && m.epoch > joining && generation == m.epoch
}
