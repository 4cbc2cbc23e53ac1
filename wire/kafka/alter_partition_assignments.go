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

// alterPartitionAssignments accepts an assignment to this broker alone, which changes nothing,
// and refuses any other. A request to cancel a move (null replicas) is answered with
// NO_REASSIGNMENT_IN_PROGRESS.
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

// reassign returns a refusal unless the assignment of a partition is the present one.
func (s *Server) reassign(src partition.Reader, num int32, replicas []int32) error {
	if err := partitionOf(src, num); err != nil {
		return err
	}
	if replicas == nil {
		return refuse(kerr.NoReassignmentInProgress, "partition %d is not being moved", num)
	}
	return s.assignedHere(num, replicas)
}
