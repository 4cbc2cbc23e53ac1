package kafka

import (
	"context"
	"slices"
	"strings"

	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/group"
)

// Groups is the consumer groups of a log, for operators, as Kafka's kafka-consumer-groups.sh shows
// and changes them. It reads and writes the log, whether a server serves it to Kafka clients or
// not, and shows members in the state that a server has stored last. After a server has stopped,
// its groups keep their members until the sessions of these end at the next server. The methods
// may be called from many goroutines.
type Groups struct{ s *Server }

// NewGroups returns the groups of the log of a catalog, which stays the caller's. sources are
// those of the server's [Options]: they show data other than topics that groups read.
func NewGroups(topics *topic.Catalog, sources ...partition.Source) *Groups {
	return &Groups{s: &Server{log: topics.Log(), topics: topics, o: Options{Sources: sources}}}
}

// Group is a consumer group.
type Group struct {
	Name         string
	Type         string // "classic" or "consumer" (KIP-848)
	ProtocolType string // "consumer" for Kafka's consumers, "" if no member has ever joined
	Protocol     string // how partitions are assigned, such as "range"; "" without members
	State        string // as Kafka names it: Empty, PreparingRebalance, Stable and others
	Epoch        int32  // of a classic group its generation
	Members      int
}

// GroupMember is a member of a consumer group.
type GroupMember struct {
	ID       string
	Instance string          // the group.instance.id of a static member, else ""
	Client   string          // the client.id
	Host     string          // from which it connects, with a slash before the address
	Epoch    int32           // 0 in a classic group
	Assigned []AssignedTopic // by topic
}

// AssignedTopic is the partitions of a topic that a member reads.
type AssignedTopic struct {
	Topic      string // the name, or the ID if the topic does not exist any more
	Partitions []int32
}

// GroupOffset is the progress of a group in a partition.
type GroupOffset struct {
	Topic     string
	Partition int32
	Next      int64  // the stored offset: of the next record to read; -1 if there is none
	End       int64  // the end of the partition: the offset that the next record gets
	Member    string // the ID of the member that has the partition, "" if none has
}

// Lag returns by how many offsets the group is behind the end, at least 0; -1 if it has no
// stored offset.
func (o GroupOffset) Lag() int64 {
	if o.Next < 0 {
		return -1
	}
	return max(o.End-o.Next, 0)
}

func groupOf(in *group.Info, protocol string) Group {
	g := Group{Name: in.Name, Type: in.Type, ProtocolType: in.ProtocolType, State: in.State, Epoch: in.Epoch, Members: in.Members}
	if g.Members > 0 {
		g.Protocol = protocol
	}
	return g
}

// All returns all groups in the order of their names, also those that have only offsets. Protocol
// is empty in them; [Groups.Describe] gives it.
func (g *Groups) All(ctx context.Context) ([]Group, error) {
	all, err := group.List(ctx, g.s.log, serverTopics{g.s})
	if err != nil {
		return nil, err
	}
	out := make([]Group, len(all))
	for i := range all {
		out[i] = groupOf(&all[i], "")
	}
	return out, nil
}

// Describe returns a group with its members, by ID, and its progress, by topic and partition, in
// each partition in which it has a stored offset or a member has an assignment. Partitions that do
// not exist any more are left out. The error is NotFound if there is no such group.
func (g *Groups) Describe(ctx context.Context, name string) (Group, []GroupMember, []GroupOffset, error) {
	topics := serverTopics{g.s}
	s, err := group.Read(ctx, g.s.log, topics, name)
	if err != nil {
		return Group{}, nil, nil, err
	}
	members := make([]GroupMember, len(s.Roster))
	for i := range s.Roster {
		members[i] = g.memberOf(ctx, topics, &s.Roster[i])
	}
	offsets, err := g.offsets(ctx, name, members)
	return groupOf(&s.Info, s.Protocol), members, offsets, err
}

func (g *Groups) memberOf(ctx context.Context, topics coord.Topics, m *group.StoredMember) GroupMember {
	out := GroupMember{ID: m.ID, Instance: m.Instance, Client: m.Client, Host: m.Host, Epoch: m.Epoch}
	for id, partitions := range m.Partitions {
		a := AssignedTopic{Topic: id.String(), Partitions: partitions}
		if t, err := topics.ByID(ctx, id); err == nil {
			a.Topic = t.Name
		}
		out.Assigned = append(out.Assigned, a)
	}
	for name, partitions := range m.Names {
		out.Assigned = append(out.Assigned, AssignedTopic{Topic: name, Partitions: slices.Sorted(slices.Values(partitions))})
	}
	slices.SortFunc(out.Assigned, func(a, b AssignedTopic) int { return strings.Compare(a.Topic, b.Topic) })
	return out
}

// topicPartition is a partition of the topic that has a name now.
type topicPartition struct {
	topic string
	num   int32
}

func byPartition(a, b topicPartition) int {
	if n := strings.Compare(a.topic, b.topic); n != 0 {
		return n
	}
	return int(a.num - b.num)
}

// offsets returns the progress of a group, see Describe.
func (g *Groups) offsets(ctx context.Context, name string, members []GroupMember) ([]GroupOffset, error) {
	next, err := g.stored(ctx, name)
	if err != nil {
		return nil, err
	}
	owner := map[topicPartition]string{}
	for i := range members {
		for _, a := range members[i].Assigned {
			for _, n := range a.Partitions {
				owner[topicPartition{a.Topic, n}] = members[i].ID
			}
		}
	}
	for p := range owner {
		if _, ok := next[p]; !ok {
			next[p] = -1
		}
	}
	var out []GroupOffset
	for _, p := range sortedPartitions(next) {
		src, err := g.s.source(ctx, p.topic, topic.ID{})
		if isGone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		end, err := src.End(ctx, p.num)
		if isGone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, GroupOffset{p.topic, p.num, next[p], end, owner[p]})
	}
	return out, nil
}

// stored returns the stored offsets of a group, without those for partitions that do not exist
// any more.
func (g *Groups) stored(ctx context.Context, name string) (map[topicPartition]int64, error) {
	out := map[topicPartition]int64{}
	for off, err := range partition.StoredOffsets(ctx, g.s.log, name) {
		if err != nil {
			return nil, err
		}
		src, err := g.s.source(ctx, off.Topic, topic.ID{})
		if isGone(err) || err == nil && (src.ID() != off.ID || off.Partition >= src.Partitions()) {
			continue // the topic was deleted, and may have been created again
		}
		if err != nil {
			return nil, err
		}
		out[topicPartition{off.Topic, off.Partition}] = off.Next
	}
	return out, nil
}

// Delete removes a group with its offsets. It fails with Conflict while the group has members,
// and with NotFound if there is no such group.
func (g *Groups) Delete(ctx context.Context, name string) error {
	s, err := group.Read(ctx, g.s.log, serverTopics{g.s}, name)
	if err != nil {
		return err
	}
	return s.Delete(ctx)
}

// Inactive returns nil if a group has no members, so that it may be deleted or reset; else a
// Conflict error that gives their number.
func (g *Groups) Inactive(ctx context.Context, name string) error {
	s, err := group.Look(ctx, g.s.log, serverTopics{g.s}, name)
	if err != nil {
		return err
	}
	return s.Inactive()
}
