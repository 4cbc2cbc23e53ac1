package group

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// LeaveGroup, versions 0 to 5.
//
//	v3  several members at once, also by their instance alone (KIP-345)
//	v5  a reason, which is ignored (KIP-800)

// LeaveGroup removes members and their sessions; the others begin a rebalance. The removal is
// committed when it returns without an error. Each member gets its own error code.
func (c *Coordinator) LeaveGroup(ctx context.Context, _ coord.Client, req *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
	members := req.Members
	if req.Version < 3 {
		one := kmsg.NewLeaveGroupRequestMember()
		one.MemberID = req.MemberID
		members = []kmsg.LeaveGroupRequestMember{one}
	}
	codes, code := c.leave(ctx, req.Group, members)
	resp.ErrorCode = code
	if req.Version < 3 {
		if code == 0 {
			resp.ErrorCode = codes[0]
		}
		return resp
	}
	for i := range codes {
		m := kmsg.NewLeaveGroupResponseMember()
		m.MemberID, m.InstanceID, m.ErrorCode = members[i].MemberID, members[i].InstanceID, codes[i]
		resp.Members = append(resp.Members, m)
	}
	return resp
}

// leave removes members. It returns an error code for each of them, or one code for all.
func (c *Coordinator) leave(ctx context.Context, name string, members []kmsg.LeaveGroupRequestMember) ([]int16, int16) {
	if !c.enter() {
		return nil, kerr.CoordinatorNotAvailable.Code
	}
	defer c.wg.Done()
	if partition.ValidateGroup(name) != nil {
		return nil, kerr.InvalidGroupID.Code
	}
	g, err := c.acquire(ctx, name, false)
	if err != nil {
		return nil, c.code("leave group", name, err)
	}
	codes := make([]int16, len(members))
	if g == nil {
		for i := range codes {
			codes[i] = kerr.UnknownMemberID.Code
		}
		return codes, 0
	}
	defer g.unlock()
	lost, left := false, false
	for i := range members {
		var struck bool
		codes[i], struck = g.leave(&members[i])
		lost, left = lost || struck, left || codes[i] == 0
	}
	if !left {
		return codes, 0
	}
	if err := g.after(lost); err != nil {
		return nil, c.code("leave group", name, err)
	}
	return codes, 0
}

// after continues the group, and commits, after members or pending IDs were removed; lost says that
// there were members among them.
func (g *group) after(lost bool) error {
	var err error
	if g.kind == consumer {
		if lost {
			g.shrunk()
		}
		err = g.save()
	} else {
		err = g.dueClassic(g.c.now(), lost)
	}
	if err == nil {
		g.arm()
	}
	return err
}

// leave removes one member, or a pending ID; lost says that it was a member.
func (g *group) leave(req *kmsg.LeaveGroupRequestMember) (code int16, lost bool) {
	id := req.MemberID
	if id == "" && req.InstanceID != nil {
		if id = g.instances[*req.InstanceID]; id == "" {
			return kerr.UnknownMemberID.Code, false
		}
	}
	if g.invited(id) && req.InstanceID == nil {
		delete(g.pending, id)
		return 0, false
	}
	if code := g.checkMember(id, req.InstanceID); code != 0 {
		return code, false
	}
	m := g.members[id]
	if g.kind == consumer && !m.classicInConsumer() && req.InstanceID == nil {
		return kerr.UnknownMemberID.Code, false
	}
	g.strike(m, kerr.UnknownMemberID.Code)
	return 0, true
}
