package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeACLs, CreateACLs and DeleteACLs, versions 1 to 3 (KIP-140).
//
// There is no access control: a client that may connect may do everything. Each request is
// answered with SECURITY_DISABLED, as by a broker of Kafka without an authorizer, so that
// tools report that instead of an unsupported request.

var errNoACLs = refuse(kerr.SecurityDisabled, "there are no ACLs: a client that is let in may do everything")

// describeACLs answers with SECURITY_DISABLED.
func (s *Server) describeACLs(_ context.Context, c *conn, req *kmsg.DescribeACLsRequest) *kmsg.DescribeACLsResponse {
	resp := req.ResponseKind().(*kmsg.DescribeACLsResponse)
	resp.ErrorCode, resp.ErrorMessage = s.outcome(c, "DescribeACLs", errNoACLs)
	return resp
}

// createACLs refuses each ACL.
func (s *Server) createACLs(_ context.Context, c *conn, req *kmsg.CreateACLsRequest) *kmsg.CreateACLsResponse {
	resp := req.ResponseKind().(*kmsg.CreateACLsResponse)
	for range req.Creations {
		one := kmsg.NewCreateACLsResponseResult()
		one.ErrorCode, one.ErrorMessage = s.outcome(c, "CreateACLs", errNoACLs)
		resp.Results = append(resp.Results, one)
	}
	return resp
}

// deleteACLs refuses each filter.
func (s *Server) deleteACLs(_ context.Context, c *conn, req *kmsg.DeleteACLsRequest) *kmsg.DeleteACLsResponse {
	resp := req.ResponseKind().(*kmsg.DeleteACLsResponse)
	for range req.Filters {
		one := kmsg.NewDeleteACLsResponseResult()
		one.ErrorCode, one.ErrorMessage = s.outcome(c, "DeleteACLs", errNoACLs)
		resp.Results = append(resp.Results, one)
	}
	return resp
}
