package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/internal/wake"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/group"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/producer"
)

// openCoordinators opens the coordinators of groups and of transactions. They refer to each
// other, because a transaction may include offsets of a group: the coordinator of transactions
// checks the group's members, that of groups finds offsets of open transactions.
func (s *Server) openCoordinators(ctx context.Context) error {
	stable := func(id topic.ID, num int32) { s.stable.Wake(partitionKey{id, num}, wake.Signal) }
	var err error
	s.producers, err = producer.Open(ctx, s.topics, &producer.Options{
		Now: s.o.Now, Logger: s.o.Logger, OnStable: stable, Topics: serverTopics{s},
	})
	if err != nil {
		return err
	}
	s.groups, err = group.Open(s.log, serverTopics{s}, &group.Options{
		Now: s.o.Now, Logger: s.o.Logger, OffsetRetention: s.o.OffsetRetention,
		Session: s.o.GroupSession, Heartbeat: s.o.GroupHeartbeat,
	})
	if err != nil {
		return errors.Join(err, s.producers.Close())
	}
	s.producers.SetGroups(s.groups)
	s.groups.SetPending(s.producers)
	return nil
}

// closeCoordinators closes both, groups first: closing twice is allowed.
func (s *Server) closeCoordinators() error {
	return errors.Join(s.groups.Close(), s.producers.Close())
}

// serverTopics is the server's topics, shown topics included, as [coord.Topics].
type serverTopics struct{ s *Server }

func (g serverTopics) Topic(ctx context.Context, name string) (coord.Topic, error) {
	src, err := g.s.source(ctx, name, topic.ID{})
	if err != nil {
		return coord.Topic{}, err
	}
	return g.of(src), nil
}

func (g serverTopics) ByID(ctx context.Context, id topic.ID) (coord.Topic, error) {
	src, err := g.s.source(ctx, "", id)
	if err != nil {
		return coord.Topic{}, err
	}
	return g.of(src), nil
}

func (g serverTopics) All(ctx context.Context) ([]coord.Topic, error) {
	all, err := g.s.sources(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]coord.Topic, len(all))
	for i, src := range all {
		out[i] = g.of(src)
	}
	return out, nil
}

func (g serverTopics) of(src partition.Reader) coord.Topic {
	return coord.Topic{
		Name: src.Name(), ID: src.ID(), Partitions: src.Partitions(),
		Offsets: func(name string) coord.Offsets { return g.s.offsets(src, name) },
	}
}

// offsets returns the stored offsets of a group for a topic, which may be a shown one.
func (s *Server) offsets(src partition.Reader, name string) coord.Offsets {
	if t, ok := src.(*topic.Topic); ok {
		return t.Offsets(name)
	}
	return partition.NewOffsets(s.log, name, src.Name(), src.ID())
}

// joining makes a method of the coordinator of groups that waits for other members an entry
// of the table. Its context ends when the client disconnects, when the server shuts down, or
// when others need the memory of the request.
func joining[Q kmsg.Request, R kmsg.Response](f func(*group.Coordinator, context.Context, coord.Client, Q) R) func(*conn, kmsg.Request) kmsg.Response {
	return func(c *conn, req kmsg.Request) (resp kmsg.Response) {
		c.waiting(func(ctx context.Context) {
			ctx, stop := c.yielding(ctx)
			defer stop()
			resp = answered(f(c.s.groups, ctx, c.client, req.(Q)))
		})
		return resp
	}
}

// byGroups makes a method of the coordinator of groups an entry of the table. Its context does
// not end when the client disconnects: the request is served to its end.
func byGroups[Q kmsg.Request, R kmsg.Response](f func(*group.Coordinator, context.Context, coord.Client, Q) R) func(*conn, kmsg.Request) kmsg.Response {
	return plain(func(s *Server, ctx context.Context, c *conn, req Q) R {
		return f(s.groups, context.WithoutCancel(ctx), c.client, req)
	})
}

// byProducers is byGroups for the coordinator of transactions.
func byProducers[Q kmsg.Request, R kmsg.Response](f func(*producer.Manager, context.Context, coord.Client, Q) R) func(*conn, kmsg.Request) kmsg.Response {
	return plain(func(s *Server, ctx context.Context, c *conn, req Q) R {
		return f(s.producers, context.WithoutCancel(ctx), c.client, req)
	})
}
