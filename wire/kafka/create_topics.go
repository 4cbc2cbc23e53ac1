package kafka

import (
	"context"
	"errors"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
)

// CreateTopics, versions 2 to 7.
//
//	v4  -1 for the default number of partitions and of replicas (KIP-464)
//	v5  the configurations of the new topic (KIP-525)
//	v7  its ID (KIP-516)
//
// There is one broker: a replication factor above 1 is refused, not lowered.

// createTopics creates topics. Each is a commit of its own: one that is refused does not
// prevent the others.
func (s *Server) createTopics(ctx context.Context, c *conn, req *kmsg.CreateTopicsRequest) *kmsg.CreateTopicsResponse {
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	names := make([]string, len(req.Topics))
	for i := range req.Topics {
		names[i] = req.Topics[i].Topic
	}
	for i, double := range once(names) {
		asked := &req.Topics[i]
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic, out.NumPartitions, out.ReplicationFactor = asked.Topic, -1, -1
		out.Configs = []kmsg.CreateTopicsResponseTopicConfig{} // Kafka's brokers never send null
		err := error(nil)
		if double {
			err = refuse(kerr.InvalidRequest, "the request names the topic %q more than once", asked.Topic)
		} else {
			err = s.createTopic(ctx, asked, req.ValidateOnly, &out)
		}
		out.ErrorCode, out.ErrorMessage = s.outcome(c, "CreateTopics", err)
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// createTopic creates one topic, or only checks the request, and puts its properties into
// out.
func (s *Server) createTopic(ctx context.Context, asked *kmsg.CreateTopicsRequestTopic, validateOnly bool, out *kmsg.CreateTopicsResponseTopic) error {
	if err := s.newName(ctx, asked.Topic); err != nil {
		return err
	}
	spec, err := s.topicSpec(asked)
	if err != nil {
		return err
	}
	if !validateOnly {
		t, err := s.topics.Create(ctx, asked.Topic, spec)
		s.groups.TopicsChanged()
		switch {
		case errors.Is(err, mainstem.ErrExists):
			return refuse(kerr.TopicAlreadyExists, "topic %q exists already", asked.Topic)
		case errors.Is(err, mainstem.ErrInvalid): // a topic with a colliding name was created since
			return refuse(kerr.InvalidTopicException, "%v", err)
		case err != nil:
			return err
		}
		out.TopicID = t.ID()
	}
	out.NumPartitions, out.ReplicationFactor = spec.Partitions, 1
	for _, e := range topicEntries(spec.Config, false) {
		one := kmsg.NewCreateTopicsResponseTopicConfig()
		one.Name, one.Value, one.Source = e.name, kmsg.StringPtr(e.value), int8(e.source)
		out.Configs = append(out.Configs, one)
	}
	return nil
}

// newName returns a refusal if no topic of that name can be created. It lists all topics only
// for a name that can collide with another, one with '.' or '_'.
func (s *Server) newName(ctx context.Context, name string) error {
	if err := topic.ValidateName(name); err != nil {
		return refuse(kerr.InvalidTopicException, "%v", err)
	}
	if from := s.projectedFrom(name); from != nil {
		return refuse(kerr.InvalidTopicException, "names like %q are those of %s: it cannot be created", name, from.Of())
	}
	_, err := s.topics.Topic(ctx, name)
	if err == nil {
		return refuse(kerr.TopicAlreadyExists, "topic %q exists already", name)
	}
	if !errors.Is(err, mainstem.ErrNotFound) {
		return err
	}
	if !strings.ContainsAny(name, "._") {
		return nil
	}
	plain := strings.ReplaceAll(name, ".", "_")
	for info, err := range s.log.Spaces(ctx, topic.SpacePrefix) {
		if err != nil {
			return err
		}
		other := strings.TrimPrefix(info.Name, topic.SpacePrefix)
		if strings.ReplaceAll(other, ".", "_") == plain {
			return refuse(kerr.InvalidTopicException, "topic %q collides with the topic %q: Kafka's metrics cannot tell '.' from '_'", name, other)
		}
	}
	return nil
}

// topicSpec returns the properties of a topic to be created, with defaults filled in, or a
// refusal.
func (s *Server) topicSpec(asked *kmsg.CreateTopicsRequestTopic) (topic.Spec, error) {
	spec := topic.Spec{Partitions: asked.NumPartitions, Config: topic.Config{}}
	if len(asked.ReplicaAssignment) > 0 {
		if asked.NumPartitions != -1 || asked.ReplicationFactor != -1 {
			return spec, refuse(kerr.InvalidRequest, "topic %q has a manual assignment and also %d partitions with replication factor %d: want -1 for both",
				asked.Topic, asked.NumPartitions, asked.ReplicationFactor)
		}
		if err := s.manualAssignment(asked.ReplicaAssignment); err != nil {
			return spec, err
		}
		spec.Partitions = int32(len(asked.ReplicaAssignment))
	} else if rf := asked.ReplicationFactor; rf != -1 && rf != 1 {
		return spec, refuse(kerr.InvalidReplicationFactor, "replication factor %d: want 1 or -1, for there is one broker", rf)
	}
	if spec.Partitions == -1 {
		spec.Partitions = s.o.Partitions
	}
	if spec.Partitions < 1 || spec.Partitions > topic.MaxPartitions {
		return spec, refuse(kerr.InvalidPartitions, "%d partitions: want 1 to %d, or -1 for the default", spec.Partitions, topic.MaxPartitions)
	}
	for _, cfg := range asked.Configs {
		if cfg.Value == nil {
			return spec, refuse(kerr.InvalidConfig, "configuration %q has no value", cfg.Name)
		}
		spec.Config[cfg.Name] = *cfg.Value
	}
	if err := s.topics.Validate(asked.Topic, spec); err != nil { // name and partitions are valid
		return spec, refuse(kerr.InvalidConfig, "%v", err)
	}
	return spec, nil
}

// manualAssignment returns a refusal unless the partitions are 0, 1, 2 … in any order, each on
// this broker.
func (s *Server) manualAssignment(as []kmsg.CreateTopicsRequestTopicReplicaAssignment) error {
	seen := make(map[int32]bool, len(as))
	for _, a := range as {
		if a.Partition < 0 || int(a.Partition) >= len(as) || seen[a.Partition] {
			return refuse(kerr.InvalidReplicaAssignment, "the assignment has %d partitions and among them %d: want each of 0 to %d once", len(as), a.Partition, len(as)-1)
		}
		seen[a.Partition] = true
		if err := s.assignedHere(a.Partition, a.Replicas); err != nil {
			return err
		}
	}
	return nil
}
