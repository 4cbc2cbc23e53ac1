package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic"
)

// ElectLeaders, versions 0 to 2 (KIP-183).
//
//	v1  unclean elections (KIP-460)
//
// There is one broker: an election is never needed.

// electLeaders answers with ELECTION_NOT_NEEDED for each partition that the request names. The
// answer to a request for all partitions has only those whose leader changed: none.
func (s *Server) electLeaders(ctx context.Context, c *conn, req *kmsg.ElectLeadersRequest) *kmsg.ElectLeadersResponse {
	resp := req.ResponseKind().(*kmsg.ElectLeadersResponse)
	for _, asked := range req.Topics {
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = asked.Topic
		src, err := s.described(ctx, asked.Topic, topic.ID{})
		for _, num := range asked.Partitions {
			one := kmsg.NewElectLeadersResponseTopicPartition()
			one.Partition = num
			err := err
			if err == nil {
				err = partitionOf(src, num)
			}
			if err == nil {
				err = refuse(kerr.ElectionNotNeeded, "broker %d leads every partition", s.o.NodeID)
			}
			one.ErrorCode, one.ErrorMessage = s.outcome(c, "ElectLeaders", err)
			out.Partitions = append(out.Partitions, one)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
