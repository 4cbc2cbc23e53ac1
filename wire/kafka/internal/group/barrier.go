package group

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A rebalance of a classic group (see the states at type state):
//
//  1. rebalance opens the barrier: the state is preparing, and heartbeats are answered with
//     REBALANCE_IN_PROGRESS. JoinGroup requests wait in member.join.
//  2. tryComplete closes the barrier when every member has a JoinGroup that waits and no ID is
//     pending, but not before notBefore; or when joinBy has passed.
//  3. complete removes the members that have not joined, raises the generation, elects the leader
//     and the protocol, and commits all of it. Then it answers the JoinGroup requests. The commit
//     comes first, so that no two generations have the same number, even after a crash.
//  4. SyncGroup requests wait in member.sync until that of the leader brings the assignment. assign
//     commits it, and then answers them. The commit comes first, so that members read the same
//     assignment after a restart.
//
// When a member joins or is lost in step 4 or later, the next rebalance begins with step 1.
//
// Opening the barrier need not be committed: after a crash the group is in its former generation,
// and its members send their JoinGroup requests again.

// becomeClassic makes a group without members a classic group, or one whose members all speak the
// classic protocol (downgrade).
func (g *group) becomeClassic(protocolType string) {
	g.kind, g.state = classic, empty
	g.protocolType, g.protocol, g.leader = protocolType, "", ""
	g.assigned, g.header.topics = 0, [16]byte{}
	g.topics, g.looked = nil, time.Time{}
	g.changed.header = true
}

// accepts reports whether a member with the protocols of the request can be in one generation with
// all others: it has the same protocol type, and one of its protocols is supported by all.
func (g *group) accepts(req *kmsg.JoinGroupRequest) bool {
	others := make([]*member, 0, len(g.members))
	for _, m := range g.members {
		if m.id != req.MemberID && (req.InstanceID == nil || m.instance == nil || *m.instance != *req.InstanceID) {
			others = append(others, m)
		}
	}
	if req.ProtocolType == "" || len(req.Protocols) == 0 {
		return false
	}
	if len(others) == 0 {
		return len(g.members) == 0 || req.ProtocolType == g.protocolType
	}
	return req.ProtocolType == g.protocolType && slices.ContainsFunc(req.Protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		return supported(p.Name, others)
	})
}

// supported reports whether all members support a protocol.
func supported(name string, members []*member) bool {
	for _, m := range members {
		if !slices.ContainsFunc(m.protocols, func(p protocol) bool { return p.name == name }) {
			return false
		}
	}
	return true
}

// vote returns the protocol of the next generation. Each member votes for the first in its list
// that all members support. Among protocols with the same number of votes it is the one that the
// oldest member lists first.
func (g *group) vote() string {
	members := g.inOrder()
	votes := map[string]int{}
	var candidates []string
	for _, p := range members[0].protocols {
		if supported(p.name, members) {
			candidates = append(candidates, p.name)
		}
	}
	for _, m := range members {
		for _, p := range m.protocols {
			if slices.Contains(candidates, p.name) {
				votes[p.name]++
				break
			}
		}
	}
	best := ""
	for _, name := range candidates {
		if best == "" || votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

// rebalance opens the barrier, unless it is open. SyncGroup requests that wait are answered with
// REBALANCE_IN_PROGRESS. The caller saves or calls tryComplete.
func (g *group) rebalance() {
	if g.state == preparing {
		return
	}
	now := g.c.now()
	g.joinBy = now.Add(g.longestRebalance())
	g.notBefore = time.Time{}
	if d := g.c.o.InitialDelay; g.state == empty && d > 0 {
		g.notBefore = earlier(now.Add(d), g.joinBy)
	}
	g.state, g.changed.header = preparing, true
	g.syncBy = time.Time{}
	for _, m := range g.members {
		if m.sync != nil {
			m.answerSync(synced{code: kerr.RebalanceInProgress.Code})
			m.deadline = now.Add(m.session)
		}
	}
}

// tryComplete closes the barrier if it is open and step 2 allows it.
func (g *group) tryComplete(now time.Time) error {
	if g.state != preparing || now.Before(g.notBefore) {
		return nil
	}
	all := len(g.pending) == 0
	for _, m := range g.members {
		all = all && m.join != nil
	}
	if !all && now.Before(g.joinBy) {
		return nil
	}
	return g.complete(now)
}

// complete begins the next generation with the members that have joined. Static members (KIP-345)
// stay even if they have not joined: only the end of their session removes them. If no member
// remains the group becomes empty. If only static members remain that have not joined, none can be
// the leader, and the barrier stays open.
func (g *group) complete(now time.Time) error {
	for _, m := range g.inOrder() {
		if m.join == nil && m.instance == nil {
			g.strike(m, kerr.UnknownMemberID.Code)
		}
	}
	g.notBefore, g.joinBy = time.Time{}, time.Time{}
	if len(g.members) == 0 {
		return g.becomeEmpty(now)
	}
	if !g.electLeader() {
		g.joinBy = now.Add(g.longestRebalance())
		return g.save()
	}
	g.raise()
	g.state, g.protocol, g.since = completing, g.vote(), time.Time{}
	g.syncBy = now.Add(g.longestRebalance())
	if err := g.save(); err != nil {
		return err
	}
	for _, m := range g.inOrder() {
		m.synced, m.epoch = false, joining
		if m.join != nil {
			m.knowsID = true
			m.deadline = now.Add(m.session)
			m.answerJoin(g.current(m))
		}
	}
	return nil
}

// becomeEmpty commits that the group has no members any more. This is a generation too.
func (g *group) becomeEmpty(now time.Time) error {
	g.raise()
	g.state, g.protocol, g.leader, g.since = empty, "", "", now
	return g.save()
}

// electLeader keeps the leader if it has joined, and else makes the oldest member that has joined
// the leader; false if none has joined.
func (g *group) electLeader() bool {
	if m := g.members[g.leader]; m != nil && m.join != nil {
		return true
	}
	for _, m := range g.inOrder() {
		if m.join != nil {
			g.leader = m.id
			return true
		}
	}
	return false
}

// current returns the answer to JoinGroup of a member of the current generation. The leader gets
// the metadata of all members.
func (g *group) current(m *member) joined {
	a := joined{generation: g.epoch, protocolType: g.protocolType, protocol: g.protocol, leader: g.leader, member: m.id}
	if g.leader != m.id {
		return a
	}
	for _, m := range g.inOrder() {
		in := kmsg.NewJoinGroupResponseMember()
		in.MemberID, in.InstanceID, in.ProtocolMetadata = m.id, m.instance, m.metadata(g.protocol)
		a.members = append(a.members, in)
	}
	return a
}

// dueClassic handles the deadlines of a classic group, and with lost the removal of members: that
// begins a rebalance. It saves the changes.
func (g *group) dueClassic(now time.Time, lost bool) error {
	if !g.syncBy.IsZero() && !g.syncBy.After(now) {
		for _, m := range g.inOrder() {
			if !m.synced && m.sync == nil {
				g.strike(m, kerr.UnknownMemberID.Code)
				lost = true
			}
		}
		g.syncBy = time.Time{}
		if g.state == completing {
			lost = true // no assignment has come from the leader, and SyncGroup requests wait for it
		}
	}
	if lost && g.state != empty {
		g.rebalance()
	}
	if err := g.tryComplete(now); err != nil || !lost {
		return err
	}
	return g.save()
}

// heard extends the session of a member after one of its requests.
func (g *group) heard(m *member) {
	m.deadline = g.c.now().Add(g.session(m))
	if !m.waiting() {
		g.soon(m.deadline)
	}
}
