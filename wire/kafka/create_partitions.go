package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic"
)

// CreatePartitions, versions 0 to 3 (KIP-195).

// createPartitions adds partitions to topics. Each topic is a commit of its own: one that is
// refused does not prevent the others.
func (s *Server) createPartitions(ctx context.Context, c *conn, req *kmsg.CreatePartitionsRequest) *kmsg.CreatePartitionsResponse {
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	names := make([]string, len(req.Topics))
	for i := range req.Topics {
		names[i] = req.Topics[i].Topic
	}
	for i, double := range once(names) {
		asked := &req.Topics[i]
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic = asked.Topic
		err := error(nil)
		if double {
			err = refuse(kerr.InvalidRequest, "the request names the topic %q more than once", asked.Topic)
		} else {
			err = s.addPartitions(ctx, asked, req.ValidateOnly)
		}
		out.ErrorCode, out.ErrorMessage = s.outcome(c, "CreatePartitions", err)
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// addPartitions adds partitions to one topic, or only checks the request.
func (s *Server) addPartitions(ctx context.Context, asked *kmsg.CreatePartitionsRequestTopic, validateOnly bool) error {
	t, err := s.owned(ctx, asked.Topic, topic.ID{})
	if err != nil {
		return err
	}
	have := t.Partitions()
	if asked.Count <= have || asked.Count > topic.MaxPartitions {
		return refuse(kerr.InvalidPartitions, "topic %q has %d partitions and is to have %d: want more than there are and at most %d", t.Name(), have, asked.Count, topic.MaxPartitions)
	}
	if asked.Assignment != nil {
		if len(asked.Assignment) != int(asked.Count-have) {
			return refuse(kerr.InvalidReplicaAssignment, "topic %q gets %d partitions, %d are assigned", t.Name(), asked.Count-have, len(asked.Assignment))
		}
		for i, a := range asked.Assignment {
			if err := s.assignedHere(have+int32(i), a.Replicas); err != nil {
				return err
			}
		}
	}
	if validateOnly {
		return nil
	}
	defer s.groups.TopicsChanged()
	return s.topics.AddPartitions(ctx, t.Name(), asked.Count)
}
