package group

import (
	"bytes"
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// SyncGroup, versions 0 to 5.
//
//	v3  static members
//	v5  protocol type and protocol in request and answer (KIP-559)

// synced is the answer to SyncGroup in a form for all versions.
type synced struct {
	code         int16
	protocolType string
	protocol     string
	assignment   []byte
}

// SyncGroup commits the assignment if the client is the leader, and returns the part of the client.
// A client that is not the leader waits for the assignment. If ctx ends first, it returns
// COORDINATOR_NOT_AVAILABLE. In a consumer group it returns the assignment of the member at once.
func (c *Coordinator) SyncGroup(ctx context.Context, _ coord.Client, req *kmsg.SyncGroupRequest) *kmsg.SyncGroupResponse {
	a := c.sync(ctx, req)
	resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
	resp.ErrorCode, resp.MemberAssignment = a.code, a.assignment
	if resp.MemberAssignment == nil {
		resp.MemberAssignment = []byte{}
	}
	if a.code == 0 {
		resp.ProtocolType, resp.Protocol = &a.protocolType, &a.protocol
	}
	return resp
}

func (c *Coordinator) sync(ctx context.Context, req *kmsg.SyncGroupRequest) synced {
	if !c.enter() {
		return synced{code: kerr.CoordinatorNotAvailable.Code}
	}
	defer c.wg.Done()
	if partition.ValidateGroup(req.Group) != nil {
		return synced{code: kerr.InvalidGroupID.Code}
	}
	g, err := c.acquire(ctx, req.Group, false)
	if err != nil {
		return synced{code: c.code("sync group", req.Group, err)}
	}
	if g == nil {
		return synced{code: kerr.UnknownMemberID.Code}
	}
	a, wait := g.sync(ctx, req)
	g.unlock()
	if wait == nil {
		return a
	}
	return awaitAnswer(ctx, g, wait, g.stopSync, synced{code: kerr.CoordinatorNotAvailable.Code})
}

// stopSync handles the end of a client's connection while its SyncGroup waits: the member has to
// send it again. The lock of g is held.
func (g *group) stopSync(wait chan synced) {
	for _, m := range g.members {
		if m.sync == wait {
			m.sync, m.synced = nil, false
			g.heard(m)
		}
	}
}

// sync handles SyncGroup. It returns the answer, or the channel on which the answer comes.
func (g *group) sync(ctx context.Context, req *kmsg.SyncGroupRequest) (synced, chan synced) {
	if code := g.checkGeneration(req.MemberID, req.InstanceID, req.Generation); code != 0 {
		return synced{code: code}, nil
	}
	m := g.members[req.MemberID]
	if g.kind == consumer {
		return g.syncConsumer(ctx, m, req), nil
	}
	if req.ProtocolType != nil && *req.ProtocolType != g.protocolType || req.Protocol != nil && *req.Protocol != g.protocol {
		return synced{code: kerr.InconsistentGroupProtocol.Code}, nil
	}
	g.heard(m)
	switch g.state {
	case preparing:
		return synced{code: kerr.RebalanceInProgress.Code}, nil
	case stable:
		m.synced = true
		g.allSynced()
		return g.part(m), nil
	}
	m.answerSync(synced{code: kerr.RebalanceInProgress.Code}) // an older request on another connection
	wait := make(chan synced, 1)
	m.sync, m.synced = wait, true
	if g.leader == m.id {
		g.assign(req.GroupAssignment)
	}
	return synced{}, wait
}

// assign commits the assignment of the leader, and answers all SyncGroup requests that wait. The
// group is then stable. Members without an assignment in parts get an empty one.
func (g *group) assign(parts []kmsg.SyncGroupRequestGroupAssignment) {
	byMember := make(map[string][]byte, len(parts))
	for _, p := range parts {
		byMember[p.MemberID] = p.MemberAssignment
	}
	for _, m := range g.members {
		if part := byMember[m.id]; !bytes.Equal(part, m.assignment) {
			m.assignment = bytes.Clone(part) // the request owns the bytes
			g.touch(m)
		}
	}
	g.state, g.changed.header = stable, true
	if err := g.save(); err != nil {
		g.c.code("sync group", g.name, err) // for the log: save has discarded the group and answered all requests
		return
	}
	for _, m := range g.inOrder() {
		if m.sync != nil {
			m.answerSync(g.part(m))
			g.heard(m)
		}
	}
	g.allSynced()
}

// allSynced clears syncBy if every member has sent SyncGroup in this generation.
func (g *group) allSynced() {
	for _, m := range g.members {
		if !m.synced {
			return
		}
	}
	g.syncBy = time.Time{}
}

func (g *group) part(m *member) synced {
	return synced{protocolType: g.protocolType, protocol: g.protocol, assignment: m.assignment}
}
