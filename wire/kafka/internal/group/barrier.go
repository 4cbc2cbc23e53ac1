package group

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A classic group goes from generation to generation. Preparing, it collects
// JoinGroup requests until all members have sent one, or until the time for it is
// over: that is the barrier. Completing, it waits for the leader's assignment. A
// generation is stored before anybody hears of it, so that no two ever have the
// same number.

// becomeClassic makes a group without members one of the classic protocol.
func (g *group) becomeClassic(protocolType string) {
	g.kind, g.state = classic, empty
	g.protocolType, g.protocol, g.leader = protocolType, "", ""
	g.assigned, g.header.topics = 0, [16]byte{}
	g.topics, g.looked = nil, time.Time{}
	g.changed.header = true
}

// accepts reports whether a member with the protocols of the request can be in
// one generation with all others.
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

// vote returns the protocol that most members list first, of those that all support.
// Among equals it is the one that the oldest member likes better.
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

// rebalance opens the barrier, unless it is open.
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

// tryComplete closes the barrier if all have joined or the time is over.
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

// complete begins the next generation with the members that have joined. Static
// members stay even if they have not: only the end of their session removes them.
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
		g.joinBy = now.Add(g.longestRebalance()) // nobody could make an assignment: wait on
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

// becomeEmpty stores that the last member has gone.
func (g *group) becomeEmpty(now time.Time) error {
	g.raise()
	g.state, g.protocol, g.leader, g.since = empty, "", "", now
	return g.save()
}

// electLeader makes sure that the leader is there to lead; false if nobody is.
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

// current is the answer to a member of the current generation.
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

// dueClassic does what is due in a classic group; lost says that members were removed.
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
			lost = true // those who have asked wait for a leader that has gone
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

// heard notes a sign of life.
func (g *group) heard(m *member) {
	m.deadline = g.c.now().Add(g.session(m))
	if !m.waiting() {
		g.soon(m.deadline)
	}
}
