package group

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// OffsetFetch, versions 1 to 10.
//
//	v2   no topics means all; an error of its own for the group
//	v5   the leader epoch
//	v7   RequireStable: UNSTABLE_OFFSET_COMMIT while a transaction is open (KIP-447)
//	v8   several groups
//	v9   members of consumer groups (KIP-848), STALE_MEMBER_EPOCH
//	v10  topics by ID

// OffsetFetch returns stored offsets; the offset is -1 where none is stored. With RequireStable an
// offset that an open transaction may change gets UNSTABLE_OFFSET_COMMIT instead.
func (c *Coordinator) OffsetFetch(ctx context.Context, _ coord.Client, req *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse {
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	if req.Version >= 8 {
		for i := range req.Groups {
			resp.Groups = append(resp.Groups, c.fetchGroup(ctx, req, &req.Groups[i]))
		}
		return resp
	}
	in := kmsg.NewOffsetFetchRequestGroup()
	in.Group = req.Group
	for _, t := range req.Topics {
		in.Topics = append(in.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: t.Topic, Partitions: t.Partitions})
	}
	if req.Topics != nil && in.Topics == nil {
		in.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	out := c.fetchGroup(ctx, req, &in)
	resp.ErrorCode = out.ErrorCode
	if out.ErrorCode != 0 && req.Version < 2 {
		out.Topics = failFetch(in.Topics, out.ErrorCode)
	}
	for _, t := range out.Topics {
		resp.Topics = append(resp.Topics, singleTopic(t))
	}
	return resp
}

func singleTopic(t kmsg.OffsetFetchResponseGroupTopic) kmsg.OffsetFetchResponseTopic {
	out := kmsg.NewOffsetFetchResponseTopic()
	out.Topic = t.Topic
	for _, p := range t.Partitions {
		part := kmsg.NewOffsetFetchResponseTopicPartition()
		part.Partition, part.Offset, part.LeaderEpoch = p.Partition, p.Offset, p.LeaderEpoch
		part.Metadata, part.ErrorCode = p.Metadata, p.ErrorCode
		out.Partitions = append(out.Partitions, part)
	}
	return out
}

// failFetch gives every partition the error of its group, for versions without a field for it.
func failFetch(topics []kmsg.OffsetFetchRequestGroupTopic, code int16) []kmsg.OffsetFetchResponseGroupTopic {
	var out []kmsg.OffsetFetchResponseGroupTopic
	for _, t := range topics {
		of := kmsg.NewOffsetFetchResponseGroupTopic()
		of.Topic = t.Topic
		for _, p := range t.Partitions {
			of.Partitions = append(of.Partitions, noOffset(p, code))
		}
		out = append(out, of)
	}
	return out
}

func noOffset(partition int32, code int16) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode = partition, -1, -1, new(string), code
	return p
}

// fetchGroup answers for one group, in the form of version 8.
func (c *Coordinator) fetchGroup(ctx context.Context, req *kmsg.OffsetFetchRequest, in *kmsg.OffsetFetchRequestGroup) kmsg.OffsetFetchResponseGroup {
	out := kmsg.NewOffsetFetchResponseGroup()
	out.Group = in.Group
	if !c.enter() {
		out.ErrorCode = kerr.CoordinatorNotAvailable.Code
		return out
	}
	defer c.wg.Done()
	if partition.ValidateGroup(in.Group) != nil {
		out.ErrorCode = kerr.InvalidGroupID.Code
		return out
	}
	if out.ErrorCode = c.mayFetch(ctx, in); out.ErrorCode != 0 {
		return out
	}
	var err error
	if in.Topics == nil && req.Version >= 2 {
		out.Topics, err = c.fetchAll(ctx, in.Group, req.RequireStable)
	} else {
		out.Topics, err = c.fetchSome(ctx, in, req.Version >= 10, req.RequireStable)
	}
	if err != nil {
		out.Topics, out.ErrorCode = nil, c.code("offset fetch", in.Group, err)
	}
	return out
}

// mayFetch returns 0 or the error code for a request that names a member of a consumer group: the
// member epoch must be the current one. All other requests may read.
func (c *Coordinator) mayFetch(ctx context.Context, in *kmsg.OffsetFetchRequestGroup) int16 {
	if in.MemberID == nil || in.MemberEpoch < 0 && *in.MemberID == "" {
		return 0
	}
	g, err := c.acquire(ctx, in.Group, false)
	if err != nil {
		return c.code("offset fetch", in.Group, err)
	}
	if g == nil {
		return 0
	}
	defer g.unlock()
	if g.kind != consumer {
		return 0
	}
	m := g.members[*in.MemberID]
	switch {
	case m == nil:
		return kerr.UnknownMemberID.Code
	case m.classicInConsumer() && in.MemberEpoch != m.epoch:
		return kerr.IllegalGeneration.Code
	case in.MemberEpoch != m.epoch:
		return kerr.StaleMemberEpoch.Code
	}
	return 0
}

// fetchSome returns the offsets of the topics that were asked for.
func (c *Coordinator) fetchSome(ctx context.Context, in *kmsg.OffsetFetchRequestGroup, byID, stable bool) ([]kmsg.OffsetFetchResponseGroupTopic, error) {
	var out []kmsg.OffsetFetchResponseGroupTopic
	for i := range in.Topics {
		want := &in.Topics[i]
		of := kmsg.NewOffsetFetchResponseGroupTopic()
		of.Topic, of.TopicID = want.Topic, want.TopicID
		t, missing, err := c.resolve(ctx, byID, want.Topic, want.TopicID)
		if err != nil {
			return nil, err
		}
		if missing != kerr.UnknownTopicID.Code {
			missing = 0 // a topic named by its name that does not exist has no offsets, and no error
		}
		var stored map[int32]topic.Offset
		if t.Offsets != nil {
			if stored, err = t.Offsets(in.Group).Load(ctx); err != nil {
				return nil, err
			}
		}
		for _, n := range want.Partitions {
			p := noOffset(n, missing)
			if off, ok := stored[n]; ok {
				p = withOffset(n, off)
			}
			of.Partitions = append(of.Partitions, c.whenStable(p, stable, in.Group, t.ID))
		}
		out = append(out, of)
	}
	return out, nil
}

func withOffset(partition int32, off topic.Offset) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, off.Next, off.LeaderEpoch, &off.Metadata
	return p
}

// whenStable returns p, or with stable UNSTABLE_OFFSET_COMMIT if an open transaction may change it.
func (c *Coordinator) whenStable(p kmsg.OffsetFetchResponseGroupTopicPartition, stable bool, group string, id topic.ID) kmsg.OffsetFetchResponseGroupTopicPartition {
	if stable && p.ErrorCode == 0 && c.pending(group, id, p.Partition) {
		return noOffset(p.Partition, kerr.UnstableOffsetCommit.Code)
	}
	return p
}

// fetchAll returns all offsets of the group whose topics exist.
func (c *Coordinator) fetchAll(ctx context.Context, group string, stable bool) ([]kmsg.OffsetFetchResponseGroupTopic, error) {
	stored, err := c.committed(ctx, group)
	if err != nil {
		return nil, err
	}
	var out []kmsg.OffsetFetchResponseGroupTopic
	for i := range stored {
		s := &stored[i]
		if n := len(out); n == 0 || out[n-1].Topic != s.Topic {
			of := kmsg.NewOffsetFetchResponseGroupTopic()
			of.Topic, of.TopicID = s.Topic, s.ID
			out = append(out, of)
		}
		of := &out[len(out)-1]
		of.Partitions = append(of.Partitions, c.whenStable(withOffset(s.Partition, s.Offset), stable, group, s.ID))
	}
	return out, nil
}

// committed returns the offsets of a group whose topics exist, topic by topic.
func (c *Coordinator) committed(ctx context.Context, group string) ([]partition.StoredOffset, error) {
	stored, _, err := c.storedOffsets(ctx, group)
	return stored, err
}

// storedOffsets returns the offsets of a group: live are those of topics that exist, topic by
// topic, and stale those of topics that were deleted, even if another topic has the name by now.
func (c *Coordinator) storedOffsets(ctx context.Context, group string) (live, stale []partition.StoredOffset, err error) {
	var all []partition.StoredOffset // collected before the loop below reads the log again
	for s, err := range partition.StoredOffsets(ctx, c.log, group) {
		if err != nil {
			return nil, nil, err
		}
		all = append(all, s)
	}
	ids := map[string]topic.ID{}
	for _, s := range all {
		id, ok := ids[s.Topic]
		if !ok {
			t, missing, err := c.resolve(ctx, false, s.Topic, topic.ID{})
			if err != nil {
				return nil, nil, err
			}
			if missing == 0 {
				id = t.ID
			}
			ids[s.Topic] = id
		}
		if id == s.ID && id != (topic.ID{}) {
			live = append(live, s)
		} else {
			stale = append(stale, s)
		}
	}
	return live, stale, nil
}
