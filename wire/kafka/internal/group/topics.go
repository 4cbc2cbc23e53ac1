package group

import (
	"context"

	"github.com/mainstemdev/mainstem/topic"
)

// Client is who sends a request.
type Client struct {
	ID        string // the client.id
	Host      string // where it connects from
	Principal string // who it has authenticated as, or ""
}

// Topics is what a [Coordinator] knows about topics. Its methods may be called
// from many goroutines, also while a group is locked: they must not call the
// coordinator.
type Topics interface {
	// Topic returns the topic called name, or an error that is [mainstem.ErrNotFound]
	// or, for a name that no topic can have, [mainstem.ErrInvalid].
	Topic(ctx context.Context, name string) (Topic, error)
	// ByID returns the topic with an ID, or an error that is [mainstem.ErrNotFound].
	ByID(ctx context.Context, id topic.ID) (Topic, error)
	// All returns all topics.
	All(ctx context.Context) ([]Topic, error)
}

// Topic is a topic as groups see it.
type Topic struct {
	Name       string
	ID         topic.ID
	Partitions int32
	// Offsets returns what a group has stored for the topic.
	Offsets func(group string) *topic.Offsets
}

// Pending tells about offsets in open transactions. No lock is held while it is
// asked.
type Pending interface {
	// Pending reports whether an open transaction holds an offset of the group for
	// the partition: then what is stored may change without the group doing anything.
	Pending(group string, id topic.ID, partition int32) bool
}
