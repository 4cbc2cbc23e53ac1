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

// A group with members changes its protocol (KIP-848):
//
//   - The first client that joins a classic group with ConsumerGroupHeartbeat makes it a consumer
//     group (upgrade), if the group is one of Kafka's consumers. The other members keep the
//     partitions that their leader has assigned to them.
//   - They continue with JoinGroup, SyncGroup and Heartbeat. In the coordinator they are members of
//     a consumer group like the others. JoinGroup is their report with the partitions that they
//     own. SyncGroup returns their assignment. Heartbeat answers REBALANCE_IN_PROGRESS when they
//     have to report again. The generation of these requests is the epoch of the member.
//   - When only such members are left, the group becomes classic (downgrade), and they are asked to
//     join.

// classicInConsumer reports whether the member of a consumer group speaks the classic protocol.
func (m *member) classicInConsumer() bool { return m.consumer && len(m.protocols) > 0 }

// upgradeFor makes a classic group a consumer group for a member that joins, or returns a refusal
// and changes nothing: if its members are not Kafka's consumers, if their subscriptions or
// assignments cannot be decoded, or if admit would refuse the member afterwards.
func (g *group) upgradeFor(ctx context.Context, p *report) *refusal {
	unfit := refuse(kerr.GroupIDNotFound, "Group %s is not a consumer group.", g.name)
	if g.protocolType != consumerProtocol {
		return unfit
	}
	subs, parts, err := g.readClassic(ctx)
	if err != nil {
		return unfit
	}
	if r := g.checkUpgrade(p); r != nil {
		return r
	}
	g.upgrade(subs, parts)
	return nil
}

// checkUpgrade returns the refusal that admit would return for a member that joins after upgrade,
// or nil.
func (g *group) checkUpgrade(p *report) *refusal {
	old := g.members[p.MemberID]
	known := old != nil && old.knowsID
	if p.InstanceID != nil {
		id := g.instances[*p.InstanceID]
		switch {
		case id != p.MemberID && known:
			return p.changesInstance()
		case id != "":
			return nil // it gets the place of that member
		}
	}
	staying := 0
	for _, m := range g.members {
		if m.knowsID {
			staying++
		}
	}
	if !known && staying >= g.c.o.MaxSize {
		return g.full(staying)
	}
	return nil
}

// upgrade makes a classic group a consumer group with the same members, of which readClassic has
// returned subs and parts. Requests that wait are answered with REBALANCE_IN_PROGRESS; a member
// whose client has not got its ID yet is removed. The caller saves.
func (g *group) upgrade(subs map[string]*kmsg.ConsumerMemberMetadata, parts map[string]partitions) {
	now := g.c.now()
	for _, m := range g.inOrder() {
		if !m.knowsID {
			g.strike(m, kerr.UnknownMemberID.Code)
			continue
		}
		m.answerJoin(joined{code: kerr.RebalanceInProgress.Code})
		m.answerSync(synced{code: kerr.RebalanceInProgress.Code})
		m.consumer, m.deadline = true, now.Add(m.session)
		g.soon(m.deadline) // the timer is not set for members that waited
		m.epoch, m.previous, m.lostAt, m.progress = g.epoch, g.epoch, g.epoch, reconciled
		m.assigned, m.target = parts[m.id], parts[m.id]
		m.names, m.rack = topicNames(subs[m.id]), rackOf(subs[m.id])
		g.owners.give(m.assigned, m)
		g.touch(m)
	}
	g.joinBy, g.syncBy, g.notBefore = time.Time{}, time.Time{}, time.Time{}
	g.becomeConsumer()
}

// readClassic returns, by member ID, the subscriptions and the assigned partitions of a classic
// group. A partition that the leader has assigned to two members goes to the older one.
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

// subscription returns the metadata of a member for a protocol, or for its first one if it does not
// support that.
func (m *member) subscription(protocol string) []byte {
	if b := m.metadata(protocol); b != nil || len(m.protocols) == 0 {
		return b
	}
	return m.protocols[0].metadata
}

// assignedTo decodes the assignment of a member of a classic group. Topics and partitions that do
// not exist are left out.
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

// addNamed adds partitions of the topic called name to a set, without those that do not exist.
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

// joinConsumer handles JoinGroup to a consumer group that has members. It does not wait.
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
	if err := g.advanceGroup(bump); err != nil {
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

// common returns the first protocol of a member that all other members with the classic protocol
// support too, or "".
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

// admitClassic returns the member of a consumer group that joins with JoinGroup, or nil and the
// answer. A new member is enlisted.
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

// reviseClassic is revise for a JoinGroup request, from which said and sub were made.
func (m *member) reviseClassic(said *member, sub *kmsg.ConsumerMemberMetadata) (bump bool) {
	names := topicNames(sub)
	bump = m.epoch == joining || !slices.Equal(m.names, names) || m.regex != ""
	m.client, m.host, m.session, m.rebalance = said.client, said.host, said.session, said.rebalance
	m.protocols, m.names, m.regex, m.re, m.rack = said.protocols, names, "", nil, rackOf(sub)
	return bump
}

// syncConsumer handles SyncGroup to a consumer group. It does not wait.
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

// names returns the names of the topics that the members are subscribed to.
func (g *group) names(ctx context.Context) (map[topic.ID]string, error) {
	if g.looked.IsZero() { // after a restart, or after members were lost
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

// encodeAssignment encodes partitions as the leader of a classic group does. Topics that are not in
// names are left out: they were deleted.
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

// beatConsumer handles Heartbeat to a consumer group. It answers REBALANCE_IN_PROGRESS if the
// member has to join again: there is a new epoch, it has to give up partitions, or one that it
// waits for is free. From then on it has its rebalance timeout to do so.
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

// mayGet reports whether a partition of a member's target that it does not have is free.
func (g *group) mayGet(m *member) bool {
	for s := range m.target.minus(m.assigned).each {
		if g.owners.free(s) {
			return true
		}
	}
	return false
}

// downgrade makes a consumer group classic if all its members speak the classic protocol, and
// begins a rebalance. The assignments are kept in the form of the classic protocol. If the names of
// the topics cannot be read it does nothing; the next JoinGroup tries again. The caller saves.
func (g *group) downgrade() {
	for _, m := range g.members {
		if !m.classicInConsumer() {
			return
		}
	}
	names, err := g.names(g.c.ctx)
	if err != nil {
		return
	}
	now := g.c.now()
	for _, m := range g.members {
		m.assignment = encodeAssignment(m.assigned, names)
		id := m.identity
		m.identity = identity{instance: id.instance, client: id.client, host: id.host, session: id.session, rebalance: id.rebalance, protocols: id.protocols, assignment: id.assignment}
		m.epoch = id.epoch // see inGeneration
		m.re, m.giveUpBy, m.deadline, m.synced = nil, time.Time{}, now.Add(m.session), true
		g.touch(m)
	}
	clear(g.owners)
	first := g.inOrder()[0]
	g.becomeClassic(consumerProtocol)
	g.state, g.leader, g.protocol = stable, first.id, g.vote()
	g.rebalance()
}
