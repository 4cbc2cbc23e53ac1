package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeACLs, CreateACLs and DeleteACLs, versions 1 to 3 (KIP-140).
//
// There is no access control yet: a client that is let in may do everything. Each is answered
// with SECURITY_DISABLED, as by a broker of Kafka without an authorizer, so that tools
// say so instead of "unsupported".

var errNoACLs = refuse(kerr.SecurityDisabled, "there are no ACLs: a client that is let in may do everything")

// describeACLs answers that there is no access control.
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
