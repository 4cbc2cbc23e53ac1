package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic"
)

// DeleteTopics, versions 1 to 6.
//
//	v5  an error message (KIP-599)
//	v6  topics by ID (KIP-516)

// deleteTopics deletes topics with their records, by name or, since version 6, by ID. Each is
// deleted on its own: one that is refused does not prevent the others.
func (s *Server) deleteTopics(ctx context.Context, c *conn, req *kmsg.DeleteTopicsRequest) *kmsg.DeleteTopicsResponse {
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	asked := req.Topics
	for _, name := range req.TopicNames { // versions 1 to 5
		asked = append(asked, kmsg.DeleteTopicsRequestTopic{Topic: &name})
	}
	keys := make([]topicKey, len(asked))
	for i := range asked {
		keys[i] = topicKey{id: asked[i].TopicID}
		if asked[i].Topic != nil {
			keys[i].name = *asked[i].Topic
		}
	}
	for i, double := range once(keys) {
		k := keys[i]
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic, out.TopicID = asked[i].Topic, k.id
		var err error
		switch {
		case double:
			err = refuse(kerr.InvalidRequest, "the request names a topic more than once")
		case (k.name == "") == (k.id == topic.ID{}):
			err = refuse(kerr.InvalidRequest, "want either the name of a topic or its ID")
		default:
			err = s.deleteTopic(ctx, k, &out)
		}
		out.ErrorCode, out.ErrorMessage = s.outcome(c, "DeleteTopics", err)
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// topicKey is how a request names a topic: by name, or by ID if the name is empty.
type topicKey struct {
	name string
	id   topic.ID
}

// deleteTopic deletes one topic and puts its name and ID into out.
func (s *Server) deleteTopic(ctx context.Context, k topicKey, out *kmsg.DeleteTopicsResponseTopic) error {
	t, err := s.owned(ctx, k.name, k.id)
	if err != nil {
		return err
	}
	out.Topic, out.TopicID = kmsg.StringPtr(t.Name()), t.ID()
	defer s.groups.TopicsChanged()
	return s.topics.Delete(ctx, t.Name())
}
