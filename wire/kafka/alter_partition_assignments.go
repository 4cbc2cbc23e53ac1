package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// AlterPartitionAssignments, versions 0 and 1 (KIP-455).
//
//	v1  whether the number of replicas may change (KIP-860): it cannot

// alterPartitionAssignments accepts that partitions are to be where they are: on this
// broker. There is nothing to move, and never a move to cancel.
func (s *Server) alterPartitionAssignments(ctx context.Context, c *conn, req *kmsg.AlterPartitionAssignmentsRequest) *kmsg.AlterPartitionAssignmentsResponse {
	resp := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	for _, asked := range req.Topics {
		out := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		out.Topic = asked.Topic
		src, err := s.described(ctx, asked.Topic, topic.ID{})
		for _, p := range asked.Partitions {
			one := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			one.Partition = p.Partition
			err := err
			if err == nil {
				err = s.reassign(src, p.Partition, p.Replicas)
			}
			one.ErrorCode, one.ErrorMessage = s.outcome(c, "AlterPartitionAssignments", err)
			out.Partitions = append(out.Partitions, one)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func (s *Server) reassign(src partition.Reader, num int32, replicas []int32) error {
	if err := partitionOf(src, num); err != nil {
		return err
	}
	if replicas == nil {
		return refuse(kerr.NoReassignmentInProgress, "partition %d is not being moved", num)
	}
	return s.assignedHere(num, replicas)
}
