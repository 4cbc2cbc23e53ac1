package group

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// OffsetDelete, version 0 (KIP-496).

// OffsetDelete removes offsets of topics that no member is subscribed to, all in one batch. Others
// get GROUP_SUBSCRIBED_TO_TOPIC. If the subscriptions of a group with members are not known, the
// whole request fails with NON_EMPTY_GROUP.
func (c *Coordinator) OffsetDelete(ctx context.Context, _ coord.Client, req *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse {
	resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
	if !c.enter() {
		resp.ErrorCode = kerr.CoordinatorNotAvailable.Code
		return resp
	}
	defer c.wg.Done()
	if resp.ErrorCode = c.deleteOffsets(ctx, req, resp); resp.ErrorCode != 0 {
		resp.Topics = nil
	}
	return resp
}

func (c *Coordinator) deleteOffsets(ctx context.Context, req *kmsg.OffsetDeleteRequest, resp *kmsg.OffsetDeleteResponse) int16 {
	if partition.ValidateGroup(req.Group) != nil {
		return kerr.InvalidGroupID.Code
	}
	return c.changeOffsets(ctx, "offset delete", req.Group, func(b *mainstem.Batch) (fence, int16) {
		resp.Topics = nil
		subscribed, f, code := c.subscribed(ctx, req.Group)
		if code != 0 {
			return f, code
		}
		if err := c.forgetOffsets(ctx, b, req, resp, subscribed); err != nil {
			return f, c.code("offset delete", req.Group, err)
		}
		return f, 0
	})
}

// forgetOffsets adds to b the removal of the offsets of the request that may be removed, and the
// error codes of all into resp.
func (c *Coordinator) forgetOffsets(ctx context.Context, b *mainstem.Batch, req *kmsg.OffsetDeleteRequest, resp *kmsg.OffsetDeleteResponse, subscribed func(string) bool) error {
	for _, in := range req.Topics {
		out := kmsg.NewOffsetDeleteResponseTopic()
		out.Topic = in.Topic
		t, missing, err := c.resolve(ctx, false, in.Topic, topic.ID{})
		if err != nil {
			return err
		}
		for _, p := range in.Partitions {
			part := kmsg.NewOffsetDeleteResponseTopicPartition()
			part.Partition = p.Partition
			switch {
			case missing != 0 || p.Partition < 0 || p.Partition >= t.Partitions:
				part.ErrorCode = kerr.UnknownTopicOrPartition.Code
			case subscribed(in.Topic):
				part.ErrorCode = kerr.GroupSubscribedToTopic.Code
			default:
				t.Offsets(req.Group).ForgetTo(b, p.Partition)
			}
			out.Partitions = append(out.Partitions, part)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return nil
}

// subscribed returns a function that reports whether a member of a group is subscribed to a topic,
// and the condition that this has not changed; or the error code for the group. When a member joins
// or changes its subscription, a new version of the header is stored before it may commit offsets.
func (c *Coordinator) subscribed(ctx context.Context, name string) (func(string) bool, fence, int16) {
	g, err := c.acquire(ctx, name, false)
	if err != nil {
		return nil, fence{}, c.code("offset delete", name, err)
	}
	f := fence{key: groupKey(name)}
	nothing := func(string) bool { return false }
	if g == nil {
		if ok, err := c.hasOffsets(ctx, name); err != nil {
			return nil, fence{}, c.code("offset delete", name, err)
		} else if ok {
			return nothing, f, 0
		}
		return nil, fence{}, kerr.GroupIDNotFound.Code
	}
	defer g.unlock()
	f.version = g.version
	if len(g.members) == 0 {
		return nothing, f, 0
	}
	topics, ok := g.subscriptions()
	if !ok {
		return nil, fence{}, kerr.NonEmptyGroup.Code
	}
	return func(name string) bool { return topics[name] }, f, 0
}

// hasOffsets reports whether an offset of a group is stored.
func (c *Coordinator) hasOffsets(ctx context.Context, group string) (bool, error) {
	for _, err := range partition.StoredOffsets(ctx, c.log, group) {
		return err == nil, err
	}
	return false, nil
}

// subscriptions returns the names of the topics that members are subscribed to; false if they are
// not known: the members of a classic group are not Kafka's consumers or have sent metadata that
// cannot be decoded, or regular expressions of a consumer group were not matched yet.
func (g *group) subscriptions() (map[string]bool, bool) {
	out := map[string]bool{}
	if g.kind == consumer {
		for name := range g.topics {
			out[name] = true
		}
		for _, m := range g.members {
			if m.re != nil && g.looked.IsZero() {
				return nil, false // until the next heartbeat
			}
			for _, name := range m.names {
				out[name] = true
			}
		}
		return out, true
	}
	if g.protocolType != consumerProtocol {
		return nil, false
	}
	for _, m := range g.members {
		protocol := g.protocol
		if m.metadata(protocol) == nil && len(m.protocols) > 0 {
			protocol = m.protocols[0].name
		}
		sub, err := parseSubscription(m.metadata(protocol))
		if err != nil {
			return nil, false
		}
		for _, name := range sub.Topics {
			out[name] = true
		}
	}
	return out, true
}

// consumerProtocol is the protocol type of Kafka's consumers. The form of their metadata and
// assignments is known.
const consumerProtocol = "consumer"

// parseSubscription decodes the metadata of a consumer in JoinGroup.
func parseSubscription(metadata []byte) (kmsg.ConsumerMemberMetadata, error) {
	var sub kmsg.ConsumerMemberMetadata
	err := sub.ReadFrom(metadata)
	return sub, err
}
