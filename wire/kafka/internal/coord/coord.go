// Package coord has the types that the coordinator of groups and that of transactions share:
// the [Client] that sends a request, the [Topics] for which offsets can be stored, and the patterns
// of clients.
package coord

import (
	"context"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
)

// Client is the client that sends a request.
type Client struct {
	ID        string // the client.id of the request
	Host      string // the address of the client, after a slash
	Principal string // "User:" and the name as which it has authenticated; "" if it has not
}

// Topics finds topics, and other data that is shown as topics. Its methods may be called
// from many goroutines, also while a group is locked: they must not call a coordinator.
type Topics interface {
	// Topic returns the topic called name. The error is NotFound if there is none, Invalid
	// if no topic can have the name.
	Topic(ctx context.Context, name string) (Topic, error)
	// ByID returns the topic with an ID. The error is NotFound if there is none.
	ByID(ctx context.Context, id topic.ID) (Topic, error)
	// All returns all topics.
	All(ctx context.Context) ([]Topic, error)
}

// Topic is a topic, or other data that is shown as one, at the time of the call that returned
// it.
type Topic struct {
	Name       string
	ID         topic.ID
	Partitions int32
	// Offsets returns the stored offsets of a group for the topic.
	Offsets func(group string) Offsets
}

// Offsets are the stored offsets of a group for a topic: a [topic.Offsets], or for what is shown
// as a topic a [partition.Offsets]. The methods are those of these types.
type Offsets interface {
	// CommitOffsetTo puts an offset of a partition into b.
	CommitOffsetTo(b *mainstem.Batch, partition int32, off topic.Offset)
	// ForgetTo puts the removal of the offset of a partition into b.
	ForgetTo(b *mainstem.Batch, partition int32)
	// Load returns the stored offsets by partition.
	Load(ctx context.Context) (map[int32]topic.Offset, error)
}

// Catalog returns the topics of c, without other data that is shown as topics.
func Catalog(c *topic.Catalog) Topics { return catalog{c} }

type catalog struct{ c *topic.Catalog }

// shown returns t as a Topic, or err.
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
