package kafka

import (
	"context"
	"errors"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// source returns the topic called name, or with the given ID if name is empty: a topic of the
// catalog or a shown topic. A topic of the catalog hides a shown one with the same name. The
// error is NotFound if there is none, Invalid if no topic can have the name.
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

// sourceByID returns the topic with an ID. It asks the sources first, because the form of an
// ID shows, without a read, whether it may be theirs.
func (s *Server) sourceByID(ctx context.Context, id topic.ID) (partition.Reader, error) {
	for _, from := range s.o.Sources {
		t, err := from.ByID(ctx, id)
		if !errors.Is(err, mainstem.ErrNotFound) {
			return t, err
		}
	}
	return s.topics.ByID(ctx, id)
}

// projectedFrom returns the first source that has reserved a name, for something that it
// shows or may show later; nil if none has. Clients may not create a topic of such a name.
func (s *Server) projectedFrom(name string) partition.Source {
	for _, from := range s.o.Sources {
		if from.Reserved(name) {
			return from
		}
	}
	return nil
}

// contents describes the records of a topic that clients cannot write, for messages.
func contents(src partition.Reader) string {
	if t, ok := src.(partition.Shown); ok {
		return t.Contents()
	}
	return "its own records"
}

// leaderEpoch is the leader epoch of every partition, whose leader never changes.
const leaderEpoch = 0

// partitionKey names a partition. A topic that is created again under the same name has
// another ID.
type partitionKey struct {
	id  topic.ID
	num int32
}
