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

// synced is the answer to SyncGroup, whatever its version.
type synced struct {
	code         int16
	protocolType string
	protocol     string
	assignment   []byte
}

// SyncGroup stores the assignment if the client is the leader, and returns the
// client's part of it, for which it may have to wait until ctx ends.
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

// stopSync is for a client that has gone while its SyncGroup waited. The lock of g is held.
func (g *group) stopSync(wait chan synced) {
	for _, m := range g.members {
		if m.sync == wait {
			m.sync, m.synced = nil, false
			g.heard(m)
		}
	}
}

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
	m.answerSync(synced{code: kerr.RebalanceInProgress.Code}) // an older request, of a connection that has gone
	wait := make(chan synced, 1)
	m.sync, m.synced = wait, true
	if g.leader == m.id {
		g.assign(req.GroupAssignment)
	}
	return synced{}, wait
}

// assign takes over the leader's assignment. Members that it leaves out get nothing.
func (g *group) assign(parts []kmsg.SyncGroupRequestGroupAssignment) {
	byMember := make(map[string][]byte, len(parts))
	for _, p := range parts {
		byMember[p.MemberID] = p.MemberAssignment
	}
	for _, m := range g.members {
		if part := byMember[m.id]; !bytes.Equal(part, m.assignment) {
			m.assignment = bytes.Clone(part) // the request's memory is lent
			g.touch(m)
		}
	}
	g.state, g.changed.header = stable, true
	if err := g.save(); err != nil {
		g.c.code("sync group", g.name, err) // and everybody has been answered
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

// allSynced ends the time for it if every member has asked for its assignment.
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
