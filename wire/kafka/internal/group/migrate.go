package group

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// A group goes over to the other protocol while it works. The first member that
// joins a classic group of consumers with ConsumerGroupHeartbeat makes it a
// consumer group; the members that are there go on with JoinGroup, SyncGroup and
// Heartbeat, behind which they are members like the others: JoinGroup is a report
// with what they own, SyncGroup returns what they are assigned, and
// REBALANCE_IN_PROGRESS is how they hear that there is something new. When only
// such members are left, the group is classic again. Epochs go on counting.

// classicInConsumer reports whether the member of a consumer group speaks the classic protocol.
func (m *member) classicInConsumer() bool { return m.consumer && len(m.protocols) > 0 }

// upgrade makes a classic group a consumer group; false if its members are no
// consumers, or say what nobody understands.
func (g *group) upgrade(ctx context.Context) bool {
	if g.protocolType != consumerProtocol {
		return false
	}
	subs, parts, err := g.readClassic(ctx)
	if err != nil {
		return false
	}
	now := g.c.now()
	for _, m := range g.inOrder() {
		if !m.knowsID {
			g.strike(m, kerr.UnknownMemberID.Code)
			continue
		}
		m.answerJoin(joined{code: kerr.RebalanceInProgress.Code})
		m.answerSync(synced{code: kerr.RebalanceInProgress.Code})
		m.consumer, m.deadline = true, now.Add(m.session)
		m.epoch, m.previous, m.lostAt, m.progress = g.epoch, g.epoch, g.epoch, reconciled
		m.assigned, m.target = parts[m.id], parts[m.id]
		m.names, m.rack = topicNames(subs[m.id]), rackOf(subs[m.id])
		g.owners.give(m.assigned, m)
		g.touch(m)
	}
	g.joinBy, g.syncBy, g.notBefore = time.Time{}, time.Time{}, time.Time{}
	g.becomeConsumer()
	return true
}

// readClassic returns what the members of a classic group read, and what each has.
func (g *group) readClassic(ctx context.Context) (map[string]*kmsg.ConsumerMemberMetadata, map[string]partitions, error) {
	subs := map[string]*kmsg.ConsumerMemberMetadata{}
	parts := map[string]partitions{}
	taken := partitions{}
	for _, m := range g.inOrder() {
		sub, err := parseSubscription(m.subscription(g.protocol))
		if err != nil {
			return nil, nil, err
		}
		assigned, err := g.assignedTo(ctx, m.assignment)
		if err != nil {
			return nil, nil, err
		}
		subs[m.id], parts[m.id] = &sub, assigned.minus(taken)
		taken = taken.or(assigned)
	}
	return subs, parts, nil
}

func topicNames(sub *kmsg.ConsumerMemberMetadata) []string {
	return slices.Compact(slices.Sorted(slices.Values(sub.Topics)))
}

func rackOf(sub *kmsg.ConsumerMemberMetadata) string {
	if sub.Rack == nil {
		return ""
	}
	return *sub.Rack
}

// subscription returns what a member says under a protocol, or the first it has.
func (m *member) subscription(protocol string) []byte {
	if b := m.metadata(protocol); b != nil || len(m.protocols) == 0 {
		return b
	}
	return m.protocols[0].metadata
}

// assignedTo reads the part of an assignment that a member of a classic group got.
func (g *group) assignedTo(ctx context.Context, assignment []byte) (partitions, error) {
	out := partitions{}
	if len(assignment) == 0 {
		return out, nil
	}
	var in kmsg.ConsumerMemberAssignment
	if err := in.ReadFrom(assignment); err != nil {
		return nil, err
	}
	for _, t := range in.Topics {
		if err := g.addNamed(ctx, out, t.Topic, t.Partitions); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// addNamed puts partitions of the topic called name into a set, if it is there.
func (g *group) addNamed(ctx context.Context, into partitions, name string, nums []int32) error {
	t, err := g.c.topics.Topic(ctx, name)
	if errors.Is(err, mainstem.ErrNotFound) || errors.Is(err, mainstem.ErrInvalid) {
		return nil
	}
	if err != nil {
		return err
	}
	makePartitions(t.ID, nums, into)
	into[t.ID] = slices.DeleteFunc(into[t.ID], func(n int32) bool { return n >= t.Partitions })
	if len(into[t.ID]) == 0 {
		delete(into, t.ID)
	}
	return nil
}

// joinConsumer is JoinGroup to a consumer group that has members.
func (g *group) joinConsumer(ctx context.Context, cl coord.Client, req *kmsg.JoinGroupRequest) joined {
	said := newMember(cl, req)
	if req.ProtocolType != consumerProtocol || len(said.protocols) == 0 {
		return joined{code: kerr.InconsistentGroupProtocol.Code}
	}
	chosen := g.common(said)
	sub, err := parseSubscription(said.metadata(chosen))
	if chosen == "" || err != nil {
		return joined{code: kerr.InconsistentGroupProtocol.Code}
	}
	owned := partitions{}
	for _, t := range sub.OwnedPartitions {
		if err := g.addNamed(ctx, owned, t.Topic, t.Partitions); err != nil {
			return joined{code: g.c.code("join group", g.name, err)}
		}
	}
	m, a := g.admitClassic(said, req)
	if m == nil {
		return a
	}
	bump := m.reviseClassic(said, &sub)
	g.touch(m)
	if err := g.advanceGroup(ctx, bump); err != nil {
		g.discard()
		return joined{code: g.c.code("join group", g.name, err)}
	}
	if m.progress != unrevoked {
		m.giveUpBy = time.Time{}
	}
	g.reconcile(m, owned)
	if err := g.save(); err != nil {
		return joined{code: g.c.code("join group", g.name, err)}
	}
	g.heard(m)
	return joined{generation: m.epoch, protocolType: consumerProtocol, protocol: chosen, member: m.id}
}

// common returns the first protocol of a member that all others of the classic
// protocol know, or "".
func (g *group) common(said *member) string {
	var others []*member
	for _, m := range g.members {
		if m.classicInConsumer() {
			others = append(others, m)
		}
	}
	for _, p := range said.protocols {
		if supported(p.name, others) {
			return p.name
		}
	}
	return ""
}

// admitClassic returns the member of a consumer group that joins with JoinGroup, a
// new one if need be.
func (g *group) admitClassic(said *member, req *kmsg.JoinGroupRequest) (*member, joined) {
	if req.MemberID != "" && !g.invited(req.MemberID) {
		if code := g.checkMember(req.MemberID, req.InstanceID); code != 0 {
			return nil, joined{code: code}
		}
		return g.members[req.MemberID], joined{}
	}
	if said.instance != nil {
		if old := g.members[g.instances[*said.instance]]; old != nil {
			if !old.classicInConsumer() && old.epoch != leftStatic {
				return nil, joined{code: kerr.UnreleasedInstanceID.Code}
			}
			return g.replace(old, said.newID()), joined{}
		}
	}
	if len(g.members)+len(g.pending) >= g.c.o.MaxSize && !g.invited(req.MemberID) {
		return nil, joined{code: kerr.GroupMaxSizeReached.Code}
	}
	if said.id = req.MemberID; said.id == "" {
		said.id = said.newID()
		if req.Version >= 4 && said.instance == nil {
			g.pending[said.id] = g.c.now().Add(said.session)
			g.soon(g.pending[said.id])
			return nil, joined{code: kerr.MemberIDRequired.Code, member: said.id}
		}
	}
	delete(g.pending, said.id)
	said.knowsID, said.consumer = true, true
	g.enlist(said)
	return said, joined{}
}

// reviseClassic is revise for what a member says with JoinGroup.
func (m *member) reviseClassic(said *member, sub *kmsg.ConsumerMemberMetadata) (bump bool) {
	names := topicNames(sub)
	bump = m.epoch == joining || !slices.Equal(m.names, names) || m.regex != ""
	m.client, m.host, m.session, m.rebalance = said.client, said.host, said.session, said.rebalance
	m.protocols, m.names, m.regex, m.re, m.rack = said.protocols, names, "", nil, rackOf(sub)
	return bump
}

// syncConsumer is SyncGroup to a consumer group.
func (g *group) syncConsumer(ctx context.Context, m *member, req *kmsg.SyncGroupRequest) synced {
	chosen := g.common(m)
	if req.ProtocolType != nil && *req.ProtocolType != consumerProtocol || req.Protocol != nil && *req.Protocol != chosen {
		return synced{code: kerr.InconsistentGroupProtocol.Code}
	}
	g.heard(m)
	names, err := g.names(ctx)
	if err != nil {
		return synced{code: g.c.code("sync group", g.name, err)}
	}
	return synced{protocolType: consumerProtocol, protocol: chosen, assignment: encodeAssignment(m.assigned, names)}
}

// names returns the names of the topics that the group reads.
func (g *group) names(ctx context.Context) (map[topic.ID]string, error) {
	if g.looked.IsZero() { // after a restart, or without the subscriptions of those who have left
		topics, err := g.find(ctx)
		if err != nil {
			return nil, err
		}
		g.topics = topics
	}
	out := make(map[topic.ID]string, len(g.topics))
	for name, t := range g.topics {
		out[t.ID] = name
	}
	return out, nil
}

// encodeAssignment returns partitions in the form in which leaders of classic
// groups send them. Topics without a name are left out: they were deleted.
func encodeAssignment(p partitions, names map[topic.ID]string) []byte {
	out := kmsg.NewConsumerMemberAssignment()
	for _, id := range p.ids() {
		if names[id] == "" {
			continue
		}
		t := kmsg.NewConsumerMemberAssignmentTopic()
		t.Topic, t.Partitions = names[id], p[id]
		out.Topics = append(out.Topics, t)
	}
	return out.AppendTo(nil)
}

// beatConsumer is Heartbeat to a consumer group.
func (g *group) beatConsumer(ctx context.Context, m *member) int16 {
	g.heard(m)
	if g.epoch == g.assigned {
		changed, err := g.look(ctx, false)
		if err != nil {
			return g.c.code("heartbeat", g.name, err)
		}
		if changed {
			g.raise()
			if err := g.save(); err != nil {
				return g.c.code("heartbeat", g.name, err)
			}
		}
	}
	waits := m.progress == unreleased && !g.mayGet(m)
	if m.epoch == g.epoch && (m.progress == reconciled || waits) {
		return 0
	}
	if m.giveUpBy.IsZero() {
		m.giveUpBy = g.c.now().Add(m.rebalance)
		g.soon(m.giveUpBy)
	}
	return kerr.RebalanceInProgress.Code
}

// mayGet reports whether something that a member waits for is free.
func (g *group) mayGet(m *member) bool {
	for s := range m.target.minus(m.assigned).each {
		if g.owners.free(s) {
			return true
		}
	}
	return false
}

// downgrade makes a consumer group classic again if all its members speak that
// protocol. They are asked to join.
func (g *group) downgrade() {
	for _, m := range g.members {
		if !m.classicInConsumer() {
			return
		}
	}
	names, err := g.names(g.c.ctx)
	if err != nil {
		return // at the next occasion
	}
	now := g.c.now()
	for _, m := range g.members {
		m.assignment = encodeAssignment(m.assigned, names)
		id := m.identity
		m.identity = identity{instance: id.instance, client: id.client, host: id.host, session: id.session, rebalance: id.rebalance, protocols: id.protocols, assignment: id.assignment}
		m.epoch = id.epoch // it is told to join, not that it has missed something
		m.re, m.giveUpBy, m.deadline, m.synced = nil, time.Time{}, now.Add(m.session), true
		g.touch(m)
	}
	clear(g.owners)
	first := g.inOrder()[0]
	g.becomeClassic(consumerProtocol)
	g.state, g.leader, g.protocol = stable, first.id, g.vote()
	g.rebalance()
}
