package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeCluster, versions 0 to 2 (KIP-700).
//
//	v1  the kind of endpoint (KIP-919)
//	v2  fenced brokers (KIP-1073): there are none

// Kinds of endpoints, see KIP-919.
const (
	endpointBrokers     = 1
	endpointControllers = 2
)

// clusterOperations is the operations that a client may do on the cluster: all, as there are
// no ACLs. It is a set of bits, whose numbers are those of Kafka's ACL operations: create (5),
// alter (7), describe (8), cluster action (9), describe configs (10), alter configs (11) and
// idempotent write (12).
const clusterOperations = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12

// describeCluster answers with a cluster of one broker, this server, which is the controller.
func (s *Server) describeCluster(ctx context.Context, c *conn, req *kmsg.DescribeClusterRequest) *kmsg.DescribeClusterResponse {
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	var err error
	if resp.ClusterID, err = s.cluster.get(ctx, s.log); err != nil {
		resp.ErrorCode = s.failure(c, "DescribeCluster", err)
		return resp
	}
	resp.ControllerID = s.o.NodeID
	if req.Version >= 1 {
		resp.EndpointType = req.EndpointType
		switch req.EndpointType {
		case endpointBrokers:
		case endpointControllers:
			resp.ErrorCode, resp.ErrorMessage = kerr.MismatchedEndpointType.Code, kmsg.StringPtr("this is the endpoint of a broker, not of a controller")
			return resp
		default:
			resp.ErrorCode, resp.ErrorMessage = kerr.UnsupportedEndpointType.Code, kmsg.StringPtr("unknown kind of endpoint")
			return resp
		}
	}
	broker := kmsg.NewDescribeClusterResponseBroker()
	broker.NodeID = s.o.NodeID
	broker.Host, broker.Port = c.advertised()
	resp.Brokers = append(resp.Brokers, broker)
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	return resp
}
