package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeClientQuotas and AlterClientQuotas, versions 0 and 1 (KIP-546).
//
// There are no quotas of clients: none are described, and none can be set. Describing is
// served for tools such as kafka-configs, which ask for the quotas of a user or client along
// with other things.

var errNoQuotas = refuse(kerr.InvalidRequest, "there are no quotas of clients: they can be described, which shows none, and not altered")

// describeClientQuotas answers that no quotas are set.
func (s *Server) describeClientQuotas(_ context.Context, _ *conn, req *kmsg.DescribeClientQuotasRequest) *kmsg.DescribeClientQuotasResponse {
	resp := req.ResponseKind().(*kmsg.DescribeClientQuotasResponse)
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{} // null would mean an error
	return resp
}

// alterClientQuotas refuses each change.
func (s *Server) alterClientQuotas(_ context.Context, c *conn, req *kmsg.AlterClientQuotasRequest) *kmsg.AlterClientQuotasResponse {
	resp := req.ResponseKind().(*kmsg.AlterClientQuotasResponse)
	for _, asked := range req.Entries {
		one := kmsg.NewAlterClientQuotasResponseEntry()
		one.ErrorCode, one.ErrorMessage = s.outcome(c, "AlterClientQuotas", errNoQuotas)
		for _, e := range asked.Entity {
			one.Entity = append(one.Entity, kmsg.AlterClientQuotasResponseEntryEntity{Type: e.Type, Name: e.Name})
		}
		resp.Entries = append(resp.Entries, one)
	}
	return resp
}
