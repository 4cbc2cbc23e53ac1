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

// A consumer group has three numbers. The group epoch is raised when members,
// subscriptions or topics change; then the assignor makes a target for every
// member, which is of that epoch; and each member is brought there one by one at
// its heartbeats: it is asked to give up what it is not to have, and only when it
// says that it has done so it gets the epoch of the target, and what is free of
// its new partitions.
//
// Invariant: a partition is in assigned or revoking of at most one member, the
// one in owners.

// becomeConsumer makes a group without members a consumer group.
func (g *group) becomeConsumer() {
	g.kind, g.state, g.protocolType = consumer, empty, consumerProtocol
	g.protocol, g.leader, g.assigned = "", "", g.epoch
	g.changed.header = true
	clear(g.pending)
}

// revise takes over what a report says about the member, and returns whether
// others may have to get other partitions for it.
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

// advanceGroup raises the epoch if need be, and makes targets for a new epoch.
func (g *group) advanceGroup(ctx context.Context, bump bool) error {
	changed, err := g.look(ctx, bump)
	if err != nil {
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

// look finds out about the topics that are subscribed to, if it is time to or if
// subscriptions have changed, and reports whether they are not as they were.
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

// find returns the topics that any member is subscribed to.
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
			continue // it may be created later
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

// fingerprint is equal for equal topics: names, IDs and numbers of partitions.
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

// subscription returns the topics that a member reads.
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

// retarget makes new targets, of the group's epoch.
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

// preferred returns the assignor that most members ask for.
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

// reconcile brings a member closer to its target. owned is what the client says it
// has, nil if it does not say.
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

// promote gives a member that has nothing left to give up the epoch of its target,
// and of it what is free.
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

// shrunk notes that a consumer group has lost members.
func (g *group) shrunk() {
	g.raise()
	g.looked = time.Time{}
	if len(g.members) == 0 {
		g.since, g.assigned, g.header.topics, g.topics = g.c.now(), g.epoch, [16]byte{}, nil
		return
	}
	g.downgrade()
}

// consumerState returns the state as Kafka names it.
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
