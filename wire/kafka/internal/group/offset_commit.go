package group

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// OffsetCommit, versions 1 to 10.
//
//	v1   generation and member; without them (-1) only a group without members accepts offsets
//	v2   a retention time, removed in v5: it is ignored, see Options.OffsetRetention
//	v6   the leader epoch
//	v7   static members
//	v9   members of consumer groups (KIP-848), STALE_MEMBER_EPOCH
//	v10  topics by ID
//
// A negative offset removes the stored offset of the partition. kafkajs resets offsets that way.
// Kafka stores the number and returns it; clients handle every negative offset as none, and begin
// where their configuration says.

// OffsetCommit stores offsets, in one batch. When it returns they have the durability of [Options].
// A partition with an error stores nothing and does not keep the others from being stored.
func (c *Coordinator) OffsetCommit(ctx context.Context, _ coord.Client, req *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, t := range req.Topics {
		out := kmsg.NewOffsetCommitResponseTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			part := kmsg.NewOffsetCommitResponseTopicPartition()
			part.Partition = p.Partition
			out.Partitions = append(out.Partitions, part)
		}
		resp.Topics = append(resp.Topics, out)
	}
	if code := c.commitOffsets(ctx, req, resp); code != 0 {
		failCommit(resp, code)
	}
	return resp
}

// failCommit gives the error code to every partition that has no error yet.
func failCommit(resp *kmsg.OffsetCommitResponse, code int16) {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if p := &resp.Topics[i].Partitions[j]; p.ErrorCode == 0 {
				p.ErrorCode = code
			}
		}
	}
}

func (c *Coordinator) commitOffsets(ctx context.Context, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse) int16 {
	if !c.enter() {
		return kerr.CoordinatorNotAvailable.Code
	}
	defer c.wg.Done()
	if partition.ValidateGroup(req.Group) != nil {
		return kerr.InvalidGroupID.Code
	}
	by := committer{member: req.MemberID, instance: req.InstanceID, generation: req.Generation, version: req.Version}
	return c.changeOffsets(ctx, "offset commit", req.Group, func(b *mainstem.Batch) (fence, int16) {
		f, code := c.fence(ctx, req.Group, by)
		if code != 0 {
			return f, code
		}
		if err := c.putOffsets(ctx, b, req, resp); err != nil {
			return f, c.code("offset commit", req.Group, err)
		}
		return f, 0
	})
}

// changeOffsets commits what change adds to a batch, on the condition that change returns, unless it
// returns an error code. If the condition does not hold any more, the group is read again, and change
// is called again.
func (c *Coordinator) changeOffsets(ctx context.Context, op, group string, change func(b *mainstem.Batch) (fence, int16)) int16 {
	for range maxTries {
		b := mainstem.NewBatch()
		b.Durability = c.o.Durability
		f, code := change(b)
		if code != 0 || b.Len() == 0 {
			return code
		}
		f.put(b)
		_, err := c.log.Commit(ctx, b)
		if err == nil {
			return 0
		}
		if errors.Is(err, mainstem.ErrConflict) {
			err = c.refresh(ctx, group)
		}
		if err != nil {
			return c.code(op, group, err)
		}
	}
	return kerr.CoordinatorLoadInProgress.Code // the client tries again
}

// putOffsets adds the valid offsets of the request to b, and the error codes of all into resp.
func (c *Coordinator) putOffsets(ctx context.Context, b *mainstem.Batch, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse) error {
	for i := range req.Topics {
		in, out := &req.Topics[i], &resp.Topics[i]
		t, missing, err := c.resolve(ctx, req.Version >= 10, in.Topic, in.TopicID)
		if err != nil {
			return err
		}
		if missing != 0 {
			for j := range out.Partitions {
				out.Partitions[j].ErrorCode = missing
			}
			continue
		}
		offsets := t.Offsets(req.Group)
		for j := range in.Partitions {
			out.Partitions[j].ErrorCode = putOffset(b, t, offsets, &in.Partitions[j])
		}
	}
	return nil
}

// putOffset adds one offset to b, or returns its error code.
func putOffset(b *mainstem.Batch, t coord.Topic, offsets coord.Offsets, p *kmsg.OffsetCommitRequestTopicPartition) int16 {
	off := topic.Offset{Next: p.Offset, LeaderEpoch: p.LeaderEpoch}
	if p.Metadata != nil {
		off.Metadata = *p.Metadata
	}
	switch {
	case p.Partition < 0 || p.Partition >= t.Partitions:
		return kerr.UnknownTopicOrPartition.Code
	case len(off.Metadata) > partition.MaxOffsetMetadata:
		return kerr.OffsetMetadataTooLarge.Code
	case off.Next < 0:
		offsets.ForgetTo(b, p.Partition)
		return 0
	}
	offsets.CommitOffsetTo(b, p.Partition, off)
	return 0
}

// resolve finds a topic by its name or ID. It returns an error code for its partitions if there is
// none, and an error if the look-up failed.
func (c *Coordinator) resolve(ctx context.Context, byID bool, name string, id topic.ID) (coord.Topic, int16, error) {
	if byID {
		t, err := c.topics.ByID(ctx, id)
		if errors.Is(err, mainstem.ErrNotFound) {
			return coord.Topic{}, kerr.UnknownTopicID.Code, nil
		}
		return t, 0, err
	}
	t, err := c.topics.Topic(ctx, name)
	if errors.Is(err, mainstem.ErrNotFound) || errors.Is(err, mainstem.ErrInvalid) {
		return coord.Topic{}, kerr.UnknownTopicOrPartition.Code, nil
	}
	return t, 0, err
}
