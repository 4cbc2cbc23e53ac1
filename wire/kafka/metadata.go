package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// Metadata, versions 0 to 13.
//
//	v1   no topics, instead of all, for an empty list; the controller
//	v4   whether topics may be created
//	v7   leader epochs (KIP-320)
//	v8   the operations that the client may do (KIP-430)
//	v10  topics by ID (KIP-516)
//	v13  an error for the whole answer (KIP-1102): only if the ID of the cluster cannot be read
//
// There is one broker: it is the controller and the leader of all partitions.

// metadata answers with the topics asked for, and this server as the leader of all
// partitions. A topic that does not exist is created, if that is allowed, see auto_create.go.
// If all topics are asked for and cannot be listed, there is no answer, and the connection ends.
func (s *Server) metadata(ctx context.Context, c *conn, req *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	broker := kmsg.NewMetadataResponseBroker()
	broker.NodeID = s.o.NodeID
	broker.Host, broker.Port = c.advertised()
	resp.Brokers = append(resp.Brokers, broker)
	if id, err := s.cluster.get(ctx, s.log); err == nil {
		resp.ClusterID = &id
	} else {
		resp.ErrorCode = s.failure(c, "Metadata", err)
	}
	resp.ControllerID = s.o.NodeID
	// Version 0 has no null: there, no topics means all topics.
	if req.Topics == nil || req.Version == 0 && len(req.Topics) == 0 {
		all, err := s.sources(ctx)
		if err != nil {
			// Clients would take a part of the list for the whole: a consumer that subscribes to
			// a pattern would give up the partitions of the other topics. Versions before 13 have
			// no error for the list, and since then Java's client ignores any but
			// REBOOTSTRAP_REQUIRED. So there is no answer: when the connection is closed, a client
			// keeps the list that it has, and asks again.
			c.failed = fmt.Errorf("list all topics: %w", err)
			s.failure(c, "Metadata", err)
			return nil
		}
		for _, t := range all {
			resp.Topics = append(resp.Topics, s.topicMetadata(t))
		}
		return resp
	}
	create := req.Version < 4 || req.AllowAutoTopicCreation
	created := 0
	done := make(map[topicKey]bool, len(req.Topics))
	for _, asked := range req.Topics {
		k := topicKey{id: asked.TopicID}
		if asked.Topic != nil {
			k.name = *asked.Topic
		}
		if done[k] {
			continue // a small request that repeats a large topic must not get a huge answer
		}
		done[k] = true
		resp.Topics = append(resp.Topics, s.metadataOf(ctx, c, asked, create, &created))
	}
	return resp
}

// metadataOf returns the entry of one topic. create allows to create it. created counts the
// topics that the request has created.
func (s *Server) metadataOf(ctx context.Context, c *conn, asked kmsg.MetadataRequestTopic, create bool, created *int) kmsg.MetadataResponseTopic {
	var name string
	if asked.Topic != nil {
		name = *asked.Topic
	}
	t, err := s.source(ctx, name, asked.TopicID)
	if name != "" && errors.Is(err, mainstem.ErrNotFound) && create {
		t, err = s.autoCreate(ctx, name, created, err)
	}
	if err == nil {
		return s.topicMetadata(t)
	}
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID = asked.Topic, asked.TopicID
	switch kind := mainstem.KindOf(err); {
	case kind == mainstem.KindNotFound && name == "":
		out.ErrorCode = kerr.UnknownTopicID.Code
	case kind == mainstem.KindInvalid:
		out.ErrorCode = kerr.InvalidTopicException.Code
	default:
		out.ErrorCode = s.outcomeOf(c, "Metadata", err)
	}
	return out
}

// sources returns all topics, those of the catalog and those that sources show, in the order
// of their names. A topic of the catalog hides one of a source. With an error, it returns those
// that could be listed.
func (s *Server) sources(ctx context.Context) ([]partition.Reader, error) {
	var out []partition.Reader
	hidden := map[string]bool{}
	for t, err := range s.topics.All(ctx) {
		if err != nil {
			return out, err
		}
		out = append(out, t)
		hidden[t.Name()] = s.projectedFrom(t.Name()) != nil
	}
	var errs []error
	for _, from := range s.o.Sources {
		shown, err := from.All(ctx)
		errs = append(errs, err)
		for _, t := range shown {
			if !hidden[t.Name()] {
				out = append(out, t)
			}
		}
	}
	slices.SortFunc(out, func(a, b partition.Reader) int { return strings.Compare(a.Name(), b.Name()) })
	return out, errors.Join(errs...)
}

// topicMetadata returns the entry of a topic that exists.
func (s *Server) topicMetadata(t partition.Reader) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID = kmsg.StringPtr(t.Name()), t.ID()
	self := []int32{s.o.NodeID}
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, t.Partitions())
	for i := range out.Partitions {
		p := &out.Partitions[i]
		p.Default()
		p.Partition, p.Leader, p.LeaderEpoch = int32(i), s.o.NodeID, leaderEpoch
		p.Replicas, p.ISR = self, self
	}
	return out
}
