package kafka

import (
	"context"
	"errors"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// source returns the topic called name, or with the given ID if name is empty. A
// topic hides what would be shown under its name.
func (s *Server) source(ctx context.Context, name string, id topic.ID) (partition.Reader, error) {
	if name == "" {
		return s.sourceByID(ctx, id)
	}
	t, err := s.topics.Topic(ctx, name)
	if !errors.Is(err, mainstem.ErrNotFound) {
		return t, err
	}
	if from := s.projectedFrom(name); from != nil {
		return from.Topic(ctx, name)
	}
	return t, err
}

// sourceByID asks the sources first: the form of an ID shows whether it is theirs.
func (s *Server) sourceByID(ctx context.Context, id topic.ID) (partition.Reader, error) {
	for _, from := range s.o.Sources {
		t, err := from.ByID(ctx, id)
		if !errors.Is(err, mainstem.ErrNotFound) {
			return t, err
		}
	}
	return s.topics.ByID(ctx, id)
}

// projectedFrom returns the source that shows something under this name, or may; nil if
// none does. Clients may not create a topic of such a name.
func (s *Server) projectedFrom(name string) partition.Source {
	for _, from := range s.o.Sources {
		if from.Reserved(name) {
			return from
		}
	}
	return nil
}

// contents says what the records of a topic are that clients cannot write.
func contents(src partition.Reader) string {
	if t, ok := src.(partition.Shown); ok {
		return t.Contents()
	}
	return "its own records"
}

// leaderEpoch is the only leader epoch there is: a partition never has another leader.
const leaderEpoch = 0

// partitionKey names a partition for good.
type partitionKey struct {
	id  topic.ID
	num int32
}
