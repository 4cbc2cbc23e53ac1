package kafka

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// refusal is an error with a Kafka error code and a message, both for the client. The client
// has caused it, so it is not logged.
type refusal struct {
	code *kerr.Error
	text string
}

// Error returns the text that goes to the client.
func (r *refusal) Error() string { return r.text }

// refuse returns a refusal whose message is formatted as by fmt.Sprintf.
func refuse(code *kerr.Error, text string, args ...any) error {
	return &refusal{code: code, text: fmt.Sprintf(text, args...)}
}

// outcome returns the error code and the message for err, 0 and nil for nil. It logs an err
// that the client has not caused, see failure.
func (s *Server) outcome(c *conn, request string, err error) (int16, *string) {
	if err == nil {
		return 0, nil
	}
	var r *refusal
	if errors.As(err, &r) {
		return r.code.Code, &r.text
	}
	text := err.Error()
	return s.failure(c, request, err), &text
}

// outcomeOf is outcome without the message, for answers that have no field for it.
func (s *Server) outcomeOf(c *conn, request string, err error) int16 {
	code, _ := s.outcome(c, request, err)
	return code
}

// described returns a topic of the catalog or of a source by its name, or by its ID if the
// name is empty. If there is none, the error is a refusal.
func (s *Server) described(ctx context.Context, name string, id topic.ID) (partition.Reader, error) {
	if name != "" {
		if err := topic.ValidateName(name); err != nil {
			return nil, refuse(kerr.InvalidTopicException, "%v", err)
		}
	}
	src, err := s.source(ctx, name, id)
	if err == nil {
		return src, nil
	}
	if errors.Is(err, mainstem.ErrNotFound) {
		if name == "" {
			return nil, refuse(kerr.UnknownTopicID, "no topic has the ID %s", id)
		}
		return nil, refuse(kerr.UnknownTopicOrPartition, "no topic is called %q", name)
	}
	return nil, err
}

// owned is described for a topic that clients may change: one of the catalog. Others are
// refused.
func (s *Server) owned(ctx context.Context, name string, id topic.ID) (*topic.Topic, error) {
	src, err := s.described(ctx, name, id)
	if err != nil {
		if from := s.projectedFrom(name); from != nil {
			return nil, refuse(kerr.UnknownTopicOrPartition, "none of the %s is shown as %q", from.Of(), name)
		}
		return nil, err
	}
	t, ok := src.(*topic.Topic)
	if !ok {
		return nil, refuse(kerr.InvalidTopicException, "%s shows %s: it can be read, not changed", src.Name(), contents(src))
	}
	return t, nil
}

// partitionOf returns a refusal if a topic does not have a partition.
func partitionOf(src partition.Reader, num int32) error {
	if num < 0 || num >= src.Partitions() {
		return refuse(kerr.UnknownTopicOrPartition, "%s has no partition %d: it has %d", src.Name(), num, src.Partitions())
	}
	return nil
}

// assignedHere returns a refusal unless a manual assignment of replicas puts a partition on
// this broker alone.
func (s *Server) assignedHere(partition int32, replicas []int32) error {
	if len(replicas) == 1 && replicas[0] == s.o.NodeID {
		return nil
	}
	return refuse(kerr.InvalidReplicaAssignment, "partition %d is assigned to brokers %v: there is one broker, %d", partition, replicas, s.o.NodeID)
}

// once yields the index of the first occurrence of each key, and whether the key occurs again.
// A request that names something twice gets one entry for it in the answer.
func once[K comparable](keys []K) iter.Seq2[int, bool] {
	return func(yield func(int, bool) bool) {
		count := make(map[K]int, len(keys))
		for _, k := range keys {
			count[k]++
		}
		for i, k := range keys {
			n := count[k]
			if count[k] = 0; n > 0 && !yield(i, n > 1) {
				return
			}
		}
	}
}
