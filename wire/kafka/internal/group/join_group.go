package group

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// JoinGroup, versions 0 to 9.
//
//	v1  rebalance timeout; before, it is the session timeout
//	v4  a new member gets its ID with MEMBER_ID_REQUIRED and joins again (KIP-394)
//	v5  static members (KIP-345)
//	v7  the protocol type in the answer; no protocol is null
//	v8  a reason, which is ignored (KIP-800)
//	v9  a static leader that rejoins is asked to send no assignment (KIP-814)

// joined is the answer to JoinGroup in a form for all versions.
type joined struct {
	code         int16
	generation   int32
	protocolType string
	protocol     string
	leader       string                         // the ID of the leader
	member       string                         // the ID of the client
	skip         bool                           // the client is the leader, and sends no assignment
	members      []kmsg.JoinGroupResponseMember // only for the leader
}

// JoinGroup makes the client a member of the group and waits for the next generation, of which it
// returns the leader and, to the leader, the members. If ctx ends first, it returns
// COORDINATOR_NOT_AVAILABLE, and a member that has not got its ID yet is removed. In a consumer
// group it does not wait (KIP-848). Members and generation are committed before it returns without
// an error.
func (c *Coordinator) JoinGroup(ctx context.Context, cl coord.Client, req *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	a := c.join(ctx, cl, req)
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.ErrorCode, resp.Generation = a.code, a.generation
	if a.code != 0 {
		resp.Generation = -1
		if a.member == "" {
			a.member = req.MemberID
		}
	}
	resp.LeaderID, resp.MemberID, resp.SkipAssignment, resp.Members = a.leader, a.member, a.skip, a.members
	if a.code == 0 || req.Version < 7 {
		resp.Protocol = &a.protocol
	}
	if a.code == 0 {
		resp.ProtocolType = &a.protocolType
	}
	return resp
}

func (c *Coordinator) join(ctx context.Context, cl coord.Client, req *kmsg.JoinGroupRequest) joined {
	if !c.enter() {
		return joined{code: kerr.CoordinatorNotAvailable.Code}
	}
	defer c.wg.Done()
	if code := c.checkJoin(req); code != 0 {
		return joined{code: code}
	}
	g, err := c.acquire(ctx, req.Group, req.MemberID == "")
	if err != nil {
		return joined{code: c.code("join group", req.Group, err)}
	}
	if g == nil {
		return joined{code: kerr.UnknownMemberID.Code}
	}
	a, wait := g.join(ctx, cl, req)
	g.unlock()
	if wait == nil {
		return a
	}
	return awaitAnswer(ctx, g, wait, g.leaveBarrier, joined{code: kerr.CoordinatorNotAvailable.Code})
}

// awaitAnswer waits for the answer to a request. The caller does not hold the lock of g. If ctx or
// the coordinator ends first, it calls leave with the lock held, and then returns the answer that
// has come meanwhile, or else none.
func awaitAnswer[A any](ctx context.Context, g *group, wait chan A, leave func(chan A), none A) A {
	select {
	case a := <-wait:
		return a
	case <-ctx.Done():
	case <-g.c.ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	leave(wait)
	select {
	case a := <-wait:
		return a
	default:
		return none
	}
}

// leaveBarrier handles the end of a client's connection while its JoinGroup waits. The member keeps
// its session, except one whose client has not got its ID: it cannot join again, and is removed.
// The lock of g is held.
func (g *group) leaveBarrier(wait chan joined) {
	for _, m := range g.members {
		if m.join != wait {
			continue
		}
		m.join = nil
		now := g.c.now()
		if m.deadline = now.Add(m.session); m.knowsID {
			g.soon(m.deadline)
			return
		}
		g.strike(m, kerr.UnknownMemberID.Code)
		if err := g.dueClassic(now, true); err != nil {
			g.c.code("join group", g.name, err)
			return
		}
		g.arm()
		return
	}
}

// checkJoin returns the error of a request that is invalid for every group, or 0.
func (c *Coordinator) checkJoin(req *kmsg.JoinGroupRequest) int16 {
	session := time.Duration(req.SessionTimeoutMillis) * time.Millisecond
	switch {
	case partition.ValidateGroup(req.Group) != nil:
		return kerr.InvalidGroupID.Code
	case session < c.o.MinSession || session > c.o.MaxSession:
		return kerr.InvalidSessionTimeout.Code
	case len(req.MemberID) > MaxMemberID, !validInstance(req.InstanceID), len(req.Protocols) > MaxProtocols:
		return kerr.InvalidRequest.Code
	}
	return 0
}

func validInstance(instance *string) bool {
	return instance == nil || *instance != "" && len(*instance) <= MaxMemberID/2
}

// newMember returns a member made from a JoinGroup request, without an ID. It keeps no memory of
// the request but the strings.
func newMember(cl coord.Client, req *kmsg.JoinGroupRequest) *member {
	m := &member{}
	m.instance = req.InstanceID
	m.client, m.host = cl.ID[:min(len(cl.ID), maxClientID)], cl.Host
	m.session = time.Duration(req.SessionTimeoutMillis) * time.Millisecond
	if m.rebalance = time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond; m.rebalance <= 0 {
		m.rebalance = m.session
	}
	for _, p := range req.Protocols {
		m.protocols = append(m.protocols, protocol{p.Name, bytes.Clone(p.Metadata)}) // the request owns the bytes
	}
	return m
}

// newID returns a new ID for m: its instance or client ID, and a random UUID.
func (m *member) newID() string {
	name := m.client
	if m.instance != nil {
		name = *m.instance
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return fmt.Sprintf("%s-%x-%x-%x-%x-%x", name, id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// join handles JoinGroup. It returns the answer, or the channel on which the answer comes.
func (g *group) join(ctx context.Context, cl coord.Client, req *kmsg.JoinGroupRequest) (joined, chan joined) {
	if g.kind == consumer && len(g.members) > 0 {
		g.downgrade() // if it failed when the last other member was lost
		if g.kind == classic {
			if err := g.save(); err != nil { // the request may be refused below
				return joined{code: g.c.code("join group", g.name, err)}, nil
			}
			g.arm()
		}
	}
	if g.kind == consumer && len(g.members) > 0 {
		return g.joinConsumer(ctx, cl, req), nil
	}
	m := newMember(cl, req)
	known := g.members[req.MemberID]
	static := req.InstanceID != nil && g.instances[*req.InstanceID] != ""
	if known == nil && !static && len(g.members)+len(g.pending) >= g.c.o.MaxSize && !g.invited(req.MemberID) {
		return joined{code: kerr.GroupMaxSizeReached.Code}, nil
	}
	if !g.accepts(req) {
		return joined{code: kerr.InconsistentGroupProtocol.Code}, nil
	}
	switch {
	case req.MemberID != "":
		return g.joinKnown(m, req)
	case static:
		return g.joinStatic(m, req)
	}
	m.id = m.newID()
	if req.Version >= 4 && m.instance == nil {
		g.pending[m.id] = g.c.now().Add(m.session)
		g.soon(g.pending[m.id])
		return joined{code: kerr.MemberIDRequired.Code, member: m.id}, nil
	}
	return joined{}, g.joinNew(m, req)
}

// invited reports whether id was given to a client that has not joined yet.
func (g *group) invited(id string) bool {
	_, ok := g.pending[id]
	return ok
}

// joinNew makes m, which has an ID, a member.
func (g *group) joinNew(m *member, req *kmsg.JoinGroupRequest) chan joined {
	delete(g.pending, m.id)
	if len(g.members) == 0 {
		g.becomeClassic(req.ProtocolType)
	}
	m.knowsID = m.knowsID || m.instance != nil // the instance identifies the member without its ID
	g.enlist(m)
	g.touch(m)
	return g.await(m)
}

// await makes m wait for the next generation, and begins a rebalance, or ends the open one if m was
// the last member it waited for. It returns the channel on which the answer comes.
func (g *group) await(m *member) chan joined {
	m.answerJoin(joined{code: kerr.RebalanceInProgress.Code}) // an older request on another connection
	wait := make(chan joined, 1)
	m.join = wait
	g.rebalance()
	if d := g.c.o.InitialDelay; !g.notBefore.IsZero() {
		g.notBefore = earlier(g.c.now().Add(d), g.joinBy)
	}
	if err := g.tryComplete(g.c.now()); err != nil {
		g.c.code("join group", g.name, err) // for the log: save has discarded the group and answered on wait
	} else {
		g.arm()
	}
	return wait
}

// joinKnown handles a client that sends its member ID.
func (g *group) joinKnown(m *member, req *kmsg.JoinGroupRequest) (joined, chan joined) {
	if m.id = req.MemberID; g.invited(m.id) {
		m.knowsID = true
		return joined{}, g.joinNew(m, req)
	}
	if code := g.checkMember(req.MemberID, req.InstanceID); code != 0 {
		return joined{code: code}, nil
	}
	old := g.members[req.MemberID]
	same := sameProtocols(old.protocols, m.protocols)
	switch {
	case g.state == completing && same, // a retry: the answer was lost
		g.state == stable && same && g.leader != old.id:
		g.heard(old)
		return g.current(old), nil
	}
	g.update(old, m)
	return joined{}, g.await(old)
}

// update copies the fields of a further JoinGroup request, from which m was made, into old.
func (g *group) update(old, m *member) {
	old.client, old.host = m.client, m.host
	old.session, old.rebalance = m.session, m.rebalance
	old.protocols = m.protocols
	g.touch(old)
}

// joinStatic handles a static member that joins without its member ID (KIP-345). It gets a new ID;
// requests with the old one are answered with FENCED_INSTANCE_ID. In a stable group its assignment
// is kept and no rebalance begins, unless its metadata has changed.
func (g *group) joinStatic(m *member, req *kmsg.JoinGroupRequest) (joined, chan joined) {
	old := g.members[g.instances[*m.instance]]
	m.id, m.assignment, m.synced, m.knowsID = m.newID(), old.assignment, true, true
	formerly := g.leader
	g.strike(old, kerr.FencedInstanceID.Code)
	g.enlist(m)
	m.order = old.order
	g.touch(m)
	if g.leader == old.id {
		g.leader = m.id
	}
	g.changed.header = true // commits of old that are under way have the version before as their condition
	if g.state != stable || g.vote() != g.protocol || string(old.metadata(g.protocol)) != string(m.metadata(g.protocol)) {
		return joined{}, g.await(m)
	}
	g.heard(m)
	if err := g.save(); err != nil {
		return joined{code: g.c.code("join group", g.name, err)}, nil
	}
	a := g.current(m)
	if g.leader == m.id && req.Version < 9 {
		a.leader, a.members = formerly, nil // so that the client does not compute an assignment
	}
	a.skip = g.leader == m.id && req.Version >= 9
	return a, nil
}

func sameProtocols(a, b []protocol) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].name != b[i].name || string(a[i].metadata) != string(b[i].metadata) {
			return false
		}
	}
	return true
}

// metadata returns the metadata of a member for a protocol, nil if it does not support it.
func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.name == protocol {
			return p.metadata
		}
	}
	return nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
