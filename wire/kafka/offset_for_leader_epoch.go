package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic"
)

// OffsetForLeaderEpoch, versions 2 to 4 (KIP-320).
//
// There is one leader and one epoch, 0.

// offsetForLeaderEpoch answers with the end of the partition as the end of epoch 0, and with
// -1 for any other epoch.
func (s *Server) offsetForLeaderEpoch(ctx context.Context, c *conn, req *kmsg.OffsetForLeaderEpochRequest) *kmsg.OffsetForLeaderEpochResponse {
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for _, t := range req.Topics {
		out := kmsg.NewOffsetForLeaderEpochResponseTopic()
		out.Topic = t.Topic
		src, err := s.source(ctx, t.Topic, topic.ID{})
		for _, p := range t.Partitions {
			one := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			one.Partition, one.LeaderEpoch, one.EndOffset = p.Partition, -1, -1
			if one.ErrorCode = epochCode(p.CurrentLeaderEpoch); err != nil {
				one.ErrorCode = s.failure(c, "OffsetForLeaderEpoch", err)
			}
			if one.ErrorCode == 0 {
				end, err := bound(ctx, src, p.Partition)
				one.ErrorCode = s.failure(c, "OffsetForLeaderEpoch", err)
				if err == nil && p.LeaderEpoch == leaderEpoch {
					one.LeaderEpoch, one.EndOffset = leaderEpoch, end
				}
			}
			out.Partitions = append(out.Partitions, one)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
