package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
)

// DeleteRecords, versions 0 to 2 (KIP-107).

// deleteRecords moves the start of partitions to a later offset, -1 for their end. Each
// partition is a commit of its own.
func (s *Server) deleteRecords(ctx context.Context, c *conn, req *kmsg.DeleteRecordsRequest) *kmsg.DeleteRecordsResponse {
	resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	for _, asked := range req.Topics {
		out := kmsg.NewDeleteRecordsResponseTopic()
		out.Topic = asked.Topic
		t, err := s.owned(ctx, asked.Topic, topic.ID{})
		for _, p := range asked.Partitions {
			one := kmsg.NewDeleteRecordsResponseTopicPartition()
			one.Partition, one.LowWatermark = p.Partition, -1
			start, err := int64(-1), err
			if err == nil {
				start, err = deleteBefore(ctx, t, p.Partition, p.Offset)
			}
			if one.ErrorCode = s.outcomeOf(c, "DeleteRecords", err); err == nil {
				one.LowWatermark = start
			}
			out.Partitions = append(out.Partitions, one)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// deleteBefore moves the start of one partition and returns the new one.
func deleteBefore(ctx context.Context, t *topic.Topic, partition int32, offset int64) (int64, error) {
	if err := partitionOf(t, partition); err != nil {
		return 0, err
	}
	start, err := t.DeleteRecords(ctx, partition, offset)
	var outside *topic.OutOfRangeError
	if errors.Is(err, mainstem.ErrInvalid) && !errors.As(err, &outside) {
		return 0, refuse(kerr.PolicyViolation, "%v", err) // its cleanup.policy keeps the newest record of each key
	}
	return start, err
}
