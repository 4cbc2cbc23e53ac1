package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// FindCoordinator, versions 0 to 6.
//
//	v1  coordinators of transactions (KIP-98)
//	v4  several at once (KIP-699)
//	v6  share groups (KIP-932), which are refused

// Kinds of coordinators.
const (
	coordinatorGroup       = 0
	coordinatorTransaction = 1
)

// findCoordinator answers that this server coordinates every group and transaction.
func (s *Server) findCoordinator(_ context.Context, c *conn, req *kmsg.FindCoordinatorRequest) *kmsg.FindCoordinatorResponse {
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	host, port := c.advertised()
	known := req.CoordinatorType == coordinatorGroup || req.CoordinatorType == coordinatorTransaction
	if req.Version < 4 {
		resp.ErrorMessage = new(string) // Kafka's brokers never send null
		resp.NodeID, resp.Host, resp.Port = s.o.NodeID, host, port
		if !known {
			resp.NodeID, resp.Host, resp.Port = -1, "", -1
			resp.ErrorCode, resp.ErrorMessage = kerr.InvalidRequest.Code, kmsg.StringPtr("unknown kind of coordinator")
		}
		return resp
	}
	for _, key := range req.CoordinatorKeys {
		one := kmsg.NewFindCoordinatorResponseCoordinator()
		one.Key, one.NodeID, one.Host, one.Port = key, s.o.NodeID, host, port
		one.ErrorMessage = new(string)
		if !known {
			one.NodeID, one.Host, one.Port = -1, "", -1
			one.ErrorCode, one.ErrorMessage = kerr.InvalidRequest.Code, kmsg.StringPtr("unknown kind of coordinator")
		}
		resp.Coordinators = append(resp.Coordinators, one)
	}
	return resp
}
