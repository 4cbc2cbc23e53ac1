// Package coord holds what the coordinator of groups and that of transactions share:
// who sends a request, and the topics that offsets can be stored for.
package coord

import (
	"context"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
)

// Client is who sends a request.
type Client struct {
	ID        string // the client.id of the last request
	Host      string // where it connects from, with a slash before the address
	Principal string // who it has authenticated as, or ""
}

// Topics finds topics, and things that are shown as topics. Its methods may be called
// from many goroutines, also while a group is locked: they must not call a coordinator.
type Topics interface {
	// Topic returns the topic called name, or an error that is [mainstem.ErrNotFound]
	// or, for a name that no topic can have, [mainstem.ErrInvalid].
	Topic(ctx context.Context, name string) (Topic, error)
	// ByID returns the topic with an ID, or an error that is [mainstem.ErrNotFound].
	ByID(ctx context.Context, id topic.ID) (Topic, error)
	// All returns all topics.
	All(ctx context.Context) ([]Topic, error)
}

// Topic is something that offsets can be stored for.
type Topic struct {
	Name       string
	ID         topic.ID
	Partitions int32
	// Offsets returns what a group has stored for the topic.
	Offsets func(group string) Offsets
}

// Offsets are what a group has stored for a topic: a [topic.Offsets], or for what is shown
// as a topic a [partition.Offsets].
type Offsets interface {
	CommitOffsetTo(b *mainstem.Batch, partition int32, off topic.Offset)
	ForgetTo(b *mainstem.Batch, partition int32)
	Load(ctx context.Context) (map[int32]topic.Offset, error)
}

// Catalog returns the topics of c.
func Catalog(c *topic.Catalog) Topics { return catalog{c} }

type catalog struct{ c *topic.Catalog }

func shown(t *topic.Topic, err error) (Topic, error) {
	if err != nil {
		return Topic{}, err
	}
	return Topic{Name: t.Name(), ID: t.ID(), Partitions: t.Partitions(), Offsets: func(group string) Offsets { return t.Offsets(group) }}, nil
}

func (c catalog) Topic(ctx context.Context, name string) (Topic, error) {
	return shown(c.c.Topic(ctx, name))
}

func (c catalog) ByID(ctx context.Context, id topic.ID) (Topic, error) {
	return shown(c.c.ByID(ctx, id))
}

func (c catalog) All(ctx context.Context) ([]Topic, error) {
	var out []Topic
	for t, err := range c.c.All(ctx) {
		s, err := shown(t, err)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}
