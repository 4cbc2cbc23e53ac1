package group

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// ConsumerGroupDescribe, versions 0 and 1.
//
//	v1  the protocol that a member speaks (KIP-1099)

// ConsumerGroupDescribe describes consumer groups. Any other group gets GROUP_ID_NOT_FOUND.
func (c *Coordinator) ConsumerGroupDescribe(ctx context.Context, _ coord.Client, req *kmsg.ConsumerGroupDescribeRequest) *kmsg.ConsumerGroupDescribeResponse {
	resp := req.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
	for _, name := range req.Groups {
		d := kmsg.NewConsumerGroupDescribeResponseGroup()
		d.Group, d.AuthorizedOperations = name, noOperations
		if r := c.describeConsumer(ctx, &d); r != nil {
			d.ErrorCode, d.ErrorMessage = r.code, &r.message
		}
		resp.Groups = append(resp.Groups, d)
	}
	return resp
}

func (c *Coordinator) describeConsumer(ctx context.Context, d *kmsg.ConsumerGroupDescribeResponseGroup) *refusal {
	if !c.enter() {
		return refuse(kerr.CoordinatorNotAvailable, "The coordinator is closed.")
	}
	defer c.wg.Done()
	if partition.ValidateGroup(d.Group) != nil {
		return refuse(kerr.InvalidGroupID, "GroupId must have 1 to %d bytes.", partition.MaxGroup)
	}
	g, err := c.acquire(ctx, d.Group, false)
	if err != nil {
		return &refusal{c.code("consumer group describe", d.Group, err), "The group cannot be read."}
	}
	if g == nil {
		return refuse(kerr.GroupIDNotFound, "Group %s not found.", d.Group)
	}
	defer g.unlock()
	if g.kind != consumer {
		return refuse(kerr.GroupIDNotFound, "Group %s is not a consumer group.", d.Group)
	}
	names, err := g.assignedNames(ctx)
	if err != nil {
		return &refusal{c.code("consumer group describe", d.Group, err), "The topics cannot be read."}
	}
	d.State, d.Epoch, d.AssignmentEpoch, d.AssignorName = g.consumerState(), g.epoch, g.assigned, g.protocol
	if d.AssignorName == "" {
		d.AssignorName = Uniform
	}
	for _, m := range g.inOrder() {
		d.Members = append(d.Members, m.describeConsumer(names))
	}
	return nil
}

// assignedNames returns the names of all topics in the assignments and targets. Topics that were
// deleted, or cannot be read, are left out.
func (g *group) assignedNames(ctx context.Context) (map[topic.ID]string, error) {
	names, err := g.names(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range g.members {
		for id := range m.assigned.or(m.target) {
			if _, ok := names[id]; ok {
				continue
			}
			if t, err := g.c.topics.ByID(ctx, id); err == nil {
				names[id] = t.Name
			}
		}
	}
	return names, nil
}

func (m *member) describeConsumer(names map[topic.ID]string) kmsg.ConsumerGroupDescribeResponseGroupMember {
	d := kmsg.NewConsumerGroupDescribeResponseGroupMember()
	d.MemberID, d.InstanceID, d.MemberEpoch = m.id, m.instance, m.epoch
	d.ClientID, d.ClientHost, d.SubscribedTopics = m.client, m.host, m.names
	if m.rack != "" {
		d.RackID = text(m.rack)
	}
	if m.regex != "" {
		d.SubscribedTopicRegex = text(m.regex)
	}
	d.Assignment, d.TargetAssignment = m.assigned.described(names), m.target.described(names)
	if d.MemberType = 1; m.classicInConsumer() {
		d.MemberType = 0
	}
	return d
}

func (p partitions) described(names map[topic.ID]string) kmsg.Assignment {
	out := kmsg.NewAssignment()
	for _, id := range p.ids() {
		t := kmsg.NewAssignmentTopicPartition()
		t.TopicID, t.Topic, t.Partitions = id, names[id], p[id]
		out.TopicPartitions = append(out.TopicPartitions, t)
	}
	return out
}
