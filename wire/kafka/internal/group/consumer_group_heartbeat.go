package group

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// ConsumerGroupHeartbeat, versions 0 and 1 (KIP-848).
//
//	v0  the coordinator gives a member its ID
//	v1  the client makes the ID; regular expressions
//
// To a member of a group that does not exist Kafka answers GROUP_ID_NOT_FOUND. This coordinator
// answers UNKNOWN_MEMBER_ID, after which clients join again.

// Member epochs with a meaning (KIP-848).
const (
	joining    = 0  // the member joins, or joins again
	leaving    = -1 // the member leaves
	leftStatic = -2 // a static member leaves and will come back: its partitions are kept
)

// hurry divides the heartbeat interval of members that are not reconciled, because a rebalance
// takes several heartbeats.
const hurry = 10

// refusal is an error code with a message for the client.
type refusal struct {
	code    int16
	message string
}

func refuse(err *kerr.Error, format string, args ...any) *refusal {
	return &refusal{err.Code, fmt.Sprintf(format, args...)}
}

// ConsumerGroupHeartbeat makes the client a member of a consumer group, extends its session, or
// removes it, depending on the member epoch of the request. The answer has the assignment of the
// member, unless the client has it already. All changes are committed when it returns without an
// error. If nothing has changed it writes nothing.
func (c *Coordinator) ConsumerGroupHeartbeat(ctx context.Context, cl coord.Client, req *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse {
	resp := req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
	resp.HeartbeatIntervalMillis = int32(c.o.Heartbeat.Milliseconds())
	if r := c.report(ctx, cl, req, resp); r != nil {
		resp.ErrorCode, resp.ErrorMessage = r.code, &r.message
		resp.Assignment, resp.MemberEpoch = nil, 0
	}
	return resp
}

func (c *Coordinator) report(ctx context.Context, cl coord.Client, req *kmsg.ConsumerGroupHeartbeatRequest, resp *kmsg.ConsumerGroupHeartbeatResponse) *refusal {
	if !c.enter() {
		return refuse(kerr.CoordinatorNotAvailable, "The coordinator is closed.")
	}
	defer c.wg.Done()
	p, r := parseReport(cl, req)
	if r != nil {
		return r
	}
	g, err := c.acquire(ctx, req.Group, p.epoch == joining)
	if err == nil && g == nil {
		return refuse(kerr.UnknownMemberID, "Group %s has no members.", req.Group)
	}
	if err == nil {
		defer g.unlock()
		resp.HeartbeatIntervalMillis = int32(cmp.Or(g.config.Heartbeat, c.o.Heartbeat).Milliseconds())
		r, err = g.report(ctx, p, resp)
	}
	if err != nil {
		return &refusal{c.code("consumer group heartbeat", req.Group, err), "The group cannot be read or written."}
	}
	return r
}

// report is a heartbeat that parseReport has checked.
type report struct {
	*kmsg.ConsumerGroupHeartbeatRequest
	client coord.Client
	epoch  int32          // MemberEpoch
	owned  partitions     // the partitions that the client has; nil: the report does not say
	full   bool           // the request has all fields, so the answer has the assignment too
	re     *regexp.Regexp // SubscribedTopicRegex; nil: none
}

// parseReport makes a report of a request. It checks all that does not depend on the group, and
// gives a member that joins with version 0 its ID.
func parseReport(cl coord.Client, req *kmsg.ConsumerGroupHeartbeatRequest) (*report, *refusal) {
	if partition.ValidateGroup(req.Group) != nil {
		return nil, refuse(kerr.InvalidRequest, "GroupId must have 1 to %d bytes.", partition.MaxGroup)
	}
	if req.MemberID == "" && req.Version == 0 && req.MemberEpoch == joining {
		req.MemberID = (&member{identity: identity{client: cl.ID[:min(len(cl.ID), maxClientID)]}}).newID()
	}
	p := &report{ConsumerGroupHeartbeatRequest: req, client: cl, epoch: req.MemberEpoch}
	if r := p.check(); r != nil {
		return nil, r
	}
	if req.Topics != nil || p.epoch == joining {
		p.owned = partitions{}
		for _, t := range req.Topics {
			makePartitions(t.TopicID, t.Partitions, p.owned)
		}
	}
	subscribes := req.SubscribedTopicNames != nil || req.SubscribedTopicRegex != nil
	p.full = p.epoch == joining || req.RebalanceTimeoutMillis != -1 && subscribes && req.Topics != nil
	if req.SubscribedTopicRegex != nil && *req.SubscribedTopicRegex != "" {
		re, err := coord.CompilePattern(*req.SubscribedTopicRegex)
		if err != nil {
			return nil, refuse(kerr.InvalidRegularExpression, "SubscribedTopicRegex is not a valid RE2 expression: %v.", err)
		}
		p.re = re
	}
	return p, nil
}

// check returns the refusal of a request that is invalid for every group, or nil.
func (p *report) check() *refusal {
	switch {
	case p.MemberID == "" || len(p.MemberID) > MaxMemberID:
		return refuse(kerr.InvalidRequest, "MemberId must have 1 to %d bytes.", MaxMemberID)
	case p.epoch < leftStatic:
		return refuse(kerr.InvalidRequest, "MemberEpoch %d is invalid.", p.epoch)
	case !validInstance(p.InstanceID):
		return refuse(kerr.InvalidRequest, "InstanceId must have 1 to %d bytes.", MaxMemberID/2)
	case p.epoch == leftStatic && p.InstanceID == nil:
		return refuse(kerr.InvalidRequest, "InstanceId can't be null when a static member leaves.")
	case p.RackID != nil && *p.RackID == "":
		return refuse(kerr.InvalidRequest, "RackId can't be empty.")
	case p.ServerAssignor != nil && assignors[*p.ServerAssignor] == nil:
		return refuse(kerr.UnsupportedAssignor, "ServerAssignor %.64s is not supported. Supported assignors: %s, %s.", *p.ServerAssignor, Uniform, Range)
	case p.epoch != joining:
		return nil
	case p.RebalanceTimeoutMillis <= 0:
		return refuse(kerr.InvalidRequest, "RebalanceTimeoutMs must be provided in first request.")
	case len(p.Topics) > 0:
		return refuse(kerr.InvalidRequest, "TopicPartitions must be empty when (re-)joining.")
	case p.SubscribedTopicNames == nil && p.SubscribedTopicRegex == nil:
		return refuse(kerr.InvalidRequest, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
	}
	return nil
}

// report handles a heartbeat and fills in resp. After an error the group has been discarded.
func (g *group) report(ctx context.Context, p *report, resp *kmsg.ConsumerGroupHeartbeatResponse) (*refusal, error) {
	if p.epoch < joining {
		return g.leaveConsumer(p, resp)
	}
	g.shareRegex(p)
	m, r := g.admit(ctx, p)
	if r != nil {
		return r, nil
	}
	had := m.assigned
	bump := m.order == 0 || m.revise(p)
	if m.order == 0 {
		g.enlist(m)
		g.since = time.Time{}
	}
	if err := g.advanceGroup(bump); err != nil {
		return nil, err
	}
	if m.revised {
		g.touch(m)
		m.revised = false
	}
	g.reconcile(m, p.owned)
	if p.epoch == joining {
		m.lostAt = m.epoch
	}
	if err := g.save(); err != nil {
		return nil, err
	}
	g.heard(m)
	m.answer(p, had, resp)
	return nil, nil
}

// shareRegex gives p the compiled expression of a member with the same one, so that a group has each
// once.
func (g *group) shareRegex(p *report) {
	if p.re == nil {
		return
	}
	for _, m := range g.members {
		if m.re != nil && m.regex == *p.SubscribedTopicRegex {
			p.re = m.re
			return
		}
	}
}

// answer fills in resp; had is the assignment before the report.
func (m *member) answer(p *report, had partitions, resp *kmsg.ConsumerGroupHeartbeatResponse) {
	switch { // an answer may be lost: the assignment is repeated until a report names exactly its partitions
	case !had.equal(m.assigned):
		m.has = false
	case p.owned != nil:
		m.has = p.owned.equal(m.assigned)
	}
	resp.MemberID, resp.MemberEpoch = &m.id, m.epoch
	if m.progress != reconciled {
		resp.HeartbeatIntervalMillis = max(1, resp.HeartbeatIntervalMillis/hurry)
	}
	if p.full || !m.has {
		resp.Assignment = m.assigned.message()
	}
}

func (p partitions) message() *kmsg.ConsumerGroupHeartbeatResponseAssignment {
	out := kmsg.NewConsumerGroupHeartbeatResponseAssignment()
	for _, id := range p.ids() {
		t := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
		t.TopicID, t.Partitions = id, slices.Clone(p[id])
		out.Topics = append(out.Topics, t)
	}
	return &out
}

// admit returns the member that reports, or a refusal. A member with order 0 is new: the caller
// enlists it. If the group is classic, the caller joins and upgradeFor allows it, it becomes a
// consumer group.
func (g *group) admit(ctx context.Context, p *report) (*member, *refusal) {
	if g.kind == classic && len(g.members) > 0 {
		if p.epoch != joining {
			return nil, refuse(kerr.UnknownMemberID, "Member %s is not a member of group %s.", p.MemberID, g.name)
		}
		if r := g.upgradeFor(ctx, p); r != nil {
			return nil, r
		}
	}
	if p.InstanceID != nil {
		return g.admitStatic(p)
	}
	m := g.members[p.MemberID]
	if m == nil {
		return g.admitNew(p)
	}
	return m, m.checkEpoch(p)
}

// admitNew makes a new member, which is not enlisted yet.
func (g *group) admitNew(p *report) (*member, *refusal) {
	switch {
	case p.epoch != joining:
		return nil, refuse(kerr.UnknownMemberID, "Member %s is not a member of group %s.", p.MemberID, g.name)
	case len(g.members) >= g.c.o.MaxSize:
		return nil, g.full(len(g.members))
	}
	if g.kind != consumer {
		g.becomeConsumer()
	}
	m := &member{id: p.MemberID, knowsID: true}
	m.consumer = true
	m.revise(p)
	return m, nil
}

// admitStatic is admit for a static member. A new member ID gets the place of the former one if
// that has left for a while, or speaks the classic protocol; else it is refused.
func (g *group) admitStatic(p *report) (*member, *refusal) {
	m := g.members[g.instances[*p.InstanceID]]
	switch {
	case m == nil && p.epoch != joining:
		return nil, refuse(kerr.UnknownMemberID, "Instance %s is unknown in group %s.", *p.InstanceID, g.name)
	case m == nil && g.members[p.MemberID] != nil:
		return nil, p.changesInstance()
	case m == nil:
		return g.admitNew(p)
	case m.id == p.MemberID:
		return m, m.checkEpoch(p)
	case p.epoch != joining:
		return nil, refuse(kerr.FencedInstanceID, "Instance %s of group %s is now another member.", *p.InstanceID, g.name)
	case m.epoch != leftStatic && !m.classicInConsumer():
		return nil, refuse(kerr.UnreleasedInstanceID, "Instance %s is still used by member %s.", *p.InstanceID, m.id)
	case g.members[p.MemberID] != nil:
		return nil, p.changesInstance()
	}
	return g.replace(m, p.MemberID), nil
}

func (p *report) changesInstance() *refusal {
	return refuse(kerr.InvalidRequest, "Member %s cannot change its InstanceId.", p.MemberID)
}

func (g *group) full(members int) *refusal {
	return refuse(kerr.GroupMaxSizeReached, "Group %s has %d members, which is the limit.", g.name, members)
}

// checkEpoch returns a refusal unless the member joins or reports its current epoch. A member that
// reports the epoch before has missed the last answer. It may continue if it has no partition that
// is not assigned to it.
func (m *member) checkEpoch(p *report) *refusal {
	switch {
	case p.epoch == joining || p.epoch == m.epoch:
		return nil
	case p.epoch < m.epoch && p.epoch == m.previous && p.owned != nil && len(p.owned.minus(m.assigned)) == 0:
		return nil
	}
	return refuse(kerr.FencedMemberEpoch, "The member epoch is %d, not %d: the member must give up its partitions and rejoin.", m.epoch, p.epoch)
}

// replace makes a member with a new ID of a static member, with its place in the order, its
// subscription and its partitions except those in revoking. The former ID is fenced.
func (g *group) replace(old *member, id string) *member {
	m := &member{identity: old.identity, id: id, knowsID: true, re: old.re}
	m.epoch, m.previous, m.progress, m.revoking = joining, joining, reconciled, nil
	m.protocols, m.assignment, m.session = nil, nil, 0
	g.strike(old, kerr.FencedInstanceID.Code)
	g.enlist(m)
	m.order = old.order
	g.owners.give(m.assigned, m)
	g.touch(m)
	return m
}

// leaveConsumer removes a member (leaving), or notes that a static member will come back
// (leftStatic): it keeps its partitions until its session ends.
func (g *group) leaveConsumer(p *report, resp *kmsg.ConsumerGroupHeartbeatResponse) (*refusal, error) {
	m := g.members[p.MemberID]
	if p.InstanceID != nil {
		if id := g.instances[*p.InstanceID]; id != "" && id != p.MemberID {
			return refuse(kerr.FencedInstanceID, "Instance %s of group %s is now another member.", *p.InstanceID, g.name), nil
		}
	}
	if m == nil || g.kind != consumer || p.InstanceID != nil && m.instance == nil {
		return refuse(kerr.UnknownMemberID, "Member %s is not a member of group %s.", p.MemberID, g.name), nil
	}
	resp.MemberID, resp.MemberEpoch = &m.id, p.epoch
	if p.epoch == leftStatic {
		g.owners.release(m.revoking)
		m.epoch, m.previous, m.progress, m.revoking, m.giveUpBy = leftStatic, leftStatic, reconciled, nil, time.Time{}
		g.touch(m)
		g.heard(m)
		return nil, g.save()
	}
	g.strike(m, kerr.UnknownMemberID.Code)
	return nil, g.after(true)
}
