package group

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// A rebalance of a consumer group (KIP-848) has three epochs: that of the group (header.epoch),
// that of the target assignment (header.assigned) and that of each member (identity.epoch).
//
//  1. advanceGroup raises the epoch of the group when members, subscriptions or topics have
//     changed.
//  2. retarget runs the assignor, which computes a target for each member. The targets have the new
//     epoch of the group.
//  3. reconcile brings each member to its target, at its own heartbeats. It first asks the member
//     to give up the partitions that are not in the target. When the member reports that it has
//     done so, it gets the epoch of the target, and those of its new partitions that have no owner.
//     The others follow when their owners have given them up. progress draws the states.
//
// The changes of a heartbeat are committed together, before it is answered.
//
// Invariant: identity.epoch ≤ header.assigned ≤ header.epoch.
//
// Invariant: a partition is in assigned or revoking of at most one member, the
// one in owners.

// becomeConsumer makes a group a consumer group: one without members, or one whose members were
// made members of a consumer group before (upgrade).
func (g *group) becomeConsumer() {
	g.kind, g.state, g.protocolType = consumer, empty, consumerProtocol
	g.protocol, g.leader, g.assigned = "", "", g.epoch
	g.changed.header = true
	clear(g.pending)
}

// revise copies what a report says into m. bump says that the subscription or the assignor has
// changed, so that new targets are necessary. A member that spoke the classic protocol does not any
// more.
func (m *member) revise(p *report) (bump bool) {
	set := func(changed bool, apply func()) bool {
		if changed {
			apply()
			m.revised = true
		}
		return changed
	}
	if m.instance == nil && p.InstanceID != nil {
		m.instance, m.revised = p.InstanceID, true
	}
	set(len(m.protocols) > 0, func() { m.protocols, m.assignment, m.session, m.giveUpBy = nil, nil, 0, time.Time{} })
	client := p.client.ID[:min(len(p.client.ID), maxClientID)]
	set(m.client != client || m.host != p.client.Host, func() { m.client, m.host = client, p.client.Host })
	rebalance := time.Duration(p.RebalanceTimeoutMillis) * time.Millisecond
	set(rebalance > 0 && m.rebalance != rebalance, func() { m.rebalance = rebalance })
	set(p.RackID != nil && m.rack != *p.RackID, func() { m.rack = *p.RackID })
	if a := p.ServerAssignor; a != nil {
		bump = set(m.assignor != *a, func() { m.assignor = *a })
	}
	if p.SubscribedTopicNames != nil {
		names := slices.Compact(slices.Sorted(slices.Values(p.SubscribedTopicNames)))
		bump = set(!slices.Equal(m.names, names), func() { m.names = names }) || bump
	}
	if s := p.SubscribedTopicRegex; s != nil {
		bump = set(m.regex != *s, func() { m.regex, m.re = *s, p.re }) || bump
	}
	return bump
}

// advanceGroup does steps 1 and 2, as far as they are necessary. With bump the epoch is raised in
// any case. It does not end with the client, because the group has changed in memory already: after
// an error the group is discarded.
func (g *group) advanceGroup(bump bool) error {
	changed, err := g.look(g.c.ctx, bump)
	if err != nil {
		g.lose()
		return err
	}
	if bump || changed {
		g.raise()
	}
	if g.epoch > g.assigned {
		g.retarget()
	}
	return nil
}

// look reads the topics that are subscribed to, and reports whether they have changed since the
// last time. Without force it does nothing unless TopicsChanged was called, Options.TopicsEvery has
// passed, or looked is zero.
func (g *group) look(ctx context.Context, force bool) (bool, error) {
	now, changes := g.c.now(), g.c.changes()
	if !force && !g.looked.IsZero() && changes == g.changes && now.Sub(g.looked) < g.c.o.TopicsEvery {
		return false, nil
	}
	topics, err := g.find(ctx)
	if err != nil {
		return false, err
	}
	g.topics, g.looked, g.changes = topics, now, changes
	print := fingerprint(topics)
	if print == g.header.topics {
		return false, nil
	}
	g.header.topics = print
	return true, nil
}

// find reads the topics that any member is subscribed to. Names without a topic are left out.
func (g *group) find(ctx context.Context) (map[string]coord.Topic, error) {
	out := map[string]coord.Topic{}
	names := map[string]bool{}
	patterns := false
	for _, m := range g.members {
		patterns = patterns || m.re != nil
		for _, name := range m.names {
			names[name] = true
		}
	}
	for name := range names {
		t, err := g.c.topics.Topic(ctx, name)
		if errors.Is(err, mainstem.ErrNotFound) || errors.Is(err, mainstem.ErrInvalid) {
			continue // look finds it when it is created
		}
		if err != nil {
			return nil, err
		}
		out[name] = t
	}
	if !patterns {
		return out, nil
	}
	all, err := g.c.topics.All(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		for _, m := range g.members {
			if m.re != nil && m.re.MatchString(t.Name) {
				out[t.Name] = t
				break
			}
		}
	}
	return out, nil
}

// fingerprint returns a hash of the names, IDs and numbers of partitions of topics; zero for none.
func fingerprint(topics map[string]coord.Topic) (out [16]byte) {
	if len(topics) == 0 {
		return out
	}
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		t := topics[name]
		h.Write(appendText(nil, name))
		h.Write(t.ID[:])
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(t.Partitions)))
	}
	copy(out[:], h.Sum(nil))
	return out
}

// subscription returns those of g.topics that a member is subscribed to.
func (g *group) subscription(m *member) map[topic.ID]bool {
	out := make(map[topic.ID]bool, len(m.names))
	for _, name := range m.names {
		if t, ok := g.topics[name]; ok {
			out[t.ID] = true
		}
	}
	if m.re != nil {
		for name, t := range g.topics {
			if m.re.MatchString(name) {
				out[t.ID] = true
			}
		}
	}
	return out
}

// retarget computes the targets of all members for the epoch of the group.
func (g *group) retarget() {
	in := plan{sizes: make(map[topic.ID]int32, len(g.topics))}
	for _, t := range g.topics {
		in.sizes[t.ID] = t.Partitions
	}
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		m := g.members[id]
		s := subscriber{id: id, topics: g.subscription(m), has: m.target}
		if m.instance != nil {
			s.instance = *m.instance
		}
		in.members = append(in.members, s)
	}
	g.protocol = g.preferred()
	targets := assignors[g.protocol](in)
	for i, s := range in.members {
		if m := g.members[s.id]; !m.target.equal(targets[i]) {
			m.target = targets[i]
			g.touch(m)
		}
	}
	g.assigned, g.changed.header = g.epoch, true
}

// preferred returns the assignor that most members ask for, Uniform if none asks. Among assignors
// with the same number it is Uniform, or else the first by name.
func (g *group) preferred() string {
	votes := map[string]int{}
	for _, m := range g.members {
		if m.assignor != "" {
			votes[m.assignor]++
		}
	}
	best := Uniform
	for _, name := range slices.Sorted(maps.Keys(votes)) {
		if votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

// reconcile does step 3 for the member that reports. owned is the set of partitions that the client
// reports as its own; nil if the report does not say, in which case nothing was given up.
func (g *group) reconcile(m *member, owned partitions) {
	lost := false
	switch m.progress {
	case reconciled:
		if m.epoch == g.assigned {
			return
		}
	case unrevoked:
		lost = true
		if owned == nil || owned.overlaps(m.revoking) {
			return
		}
		g.owners.release(m.revoking)
		m.revoking, m.giveUpBy = nil, time.Time{}
		g.touch(m)
	}
	keep, give := m.assigned.and(m.target), m.assigned.minus(m.target)
	if len(give) > 0 && (owned == nil || owned.overlaps(give)) {
		m.assigned, m.revoking, m.progress = keep, give, unrevoked
		m.giveUpBy = g.c.now().Add(m.rebalance)
		g.soon(m.giveUpBy)
		g.touch(m)
		return
	}
	g.owners.release(give)
	g.promote(m, keep)
	if lost || len(give) > 0 {
		m.lostAt = m.epoch
	}
}

// promote gives a member the epoch of its target, and the partitions of the target that have no
// owner. keep is what it has of the target already; it has nothing else.
func (g *group) promote(m *member, keep partitions) {
	want := m.target.minus(keep)
	free := want.filter(g.owners.free)
	now := keep.or(free)
	next := reconciled
	if free.len() < want.len() {
		next = unreleased
	}
	if m.epoch == g.assigned && m.progress == next && m.assigned.equal(now) {
		return
	}
	g.owners.give(free, m)
	if m.epoch != g.assigned {
		m.previous, m.epoch = m.epoch, g.assigned
	}
	m.assigned, m.progress = now, next
	g.touch(m)
}

// shrunk raises the epoch of a consumer group after it has lost members. If only members with the
// classic protocol are left, the group becomes classic.
func (g *group) shrunk() {
	g.raise()
	g.looked = time.Time{}
	if len(g.members) == 0 {
		g.since, g.assigned, g.header.topics, g.topics = g.c.now(), g.epoch, [16]byte{}, nil
		return
	}
	g.downgrade()
}

// consumerState returns the state of a consumer group by Kafka's name. It is computed: Empty
// without members, Assigning between steps 1 and 2, Stable when all members are reconciled in the
// epoch of the targets, and else Reconciling.
func (g *group) consumerState() string {
	switch {
	case len(g.members) == 0:
		return stateNames[empty]
	case g.epoch > g.assigned:
		return "Assigning"
	}
	for _, m := range g.members {
		if m.progress != reconciled || m.epoch != g.assigned {
			return "Reconciling"
		}
	}
	return stateNames[stable]
}
