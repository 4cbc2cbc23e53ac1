package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListPartitionReassignments, version 0 (KIP-455).

// listPartitionReassignments answers that no partition is being moved.
func (s *Server) listPartitionReassignments(_ context.Context, _ *conn, req *kmsg.ListPartitionReassignmentsRequest) *kmsg.ListPartitionReassignmentsResponse {
	return req.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
}
