package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/group"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/producer"
)

// openCoordinators opens the coordinators of groups and of transactions, which know
// each other: a transaction may hold offsets of a group.
func (s *Server) openCoordinators(ctx context.Context) error {
	var err error
	s.producers, err = producer.Open(ctx, s.topics, &producer.Options{
		Now: s.o.Now, Logger: s.o.Logger, OnStable: s.stable.wake, Topics: offsetTopics{s},
	})
	if err != nil {
		return err
	}
	s.groups, err = group.Open(s.log, groupTopics{s}, &group.Options{
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

func (s *Server) closeCoordinators() error {
	return errors.Join(s.groups.Close(), s.producers.Close())
}

// groupTopics shows the server's topics to the coordinator of groups.
type groupTopics struct{ s *Server }

func (g groupTopics) Topic(ctx context.Context, name string) (group.Topic, error) {
	src, err := g.s.source(ctx, name, topic.ID{})
	if err != nil {
		return group.Topic{}, err
	}
	return g.of(src), nil
}

func (g groupTopics) ByID(ctx context.Context, id topic.ID) (group.Topic, error) {
	src, err := g.s.source(ctx, "", id)
	if err != nil {
		return group.Topic{}, err
	}
	return g.of(src), nil
}

func (g groupTopics) All(ctx context.Context) ([]group.Topic, error) {
	all, err := g.s.sources(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]group.Topic, len(all))
	for i, src := range all {
		out[i] = g.of(src)
	}
	return out, nil
}

func (g groupTopics) of(src source) group.Topic {
	return group.Topic{
		Name: src.Name(), ID: src.ID(), Partitions: src.Partitions(),
		Offsets: func(name string) *topic.Offsets { return g.s.offsets(src, name) },
	}
}

// offsets returns what a group has stored for a topic or what looks like one.
func (s *Server) offsets(src source, name string) *topic.Offsets {
	if t, ok := src.(*topic.Topic); ok {
		return t.Offsets(name)
	}
	return topic.ForeignOffsets(s.log, name, src.Name(), src.ID())
}

// offsetTopics shows the server's topics to the coordinator of transactions.
type offsetTopics struct{ s *Server }

func (o offsetTopics) Topic(ctx context.Context, name string) (producer.Topic, error) {
	t, err := groupTopics(o).Topic(ctx, name)
	return producer.Topic(t), err
}

func (o offsetTopics) ByID(ctx context.Context, id topic.ID) (producer.Topic, error) {
	t, err := groupTopics(o).ByID(ctx, id)
	return producer.Topic(t), err
}

// joining makes a method of the coordinator of groups that waits for other members
// an entry of the table.
func joining[Q kmsg.Request, R kmsg.Response](f func(*group.Coordinator, context.Context, group.Client, Q) R) func(*conn, kmsg.Request) kmsg.Response {
	return func(c *conn, req kmsg.Request) (resp kmsg.Response) {
		c.waiting(func(ctx context.Context) {
			resp = answered(f(c.s.groups, ctx, group.Client(c.client), req.(Q)))
		})
		return resp
	}
}

// byGroups makes a method of the coordinator of groups an entry of the table. What a
// client has asked for is done also if it goes away meanwhile.
func byGroups[Q kmsg.Request, R kmsg.Response](f func(*group.Coordinator, context.Context, group.Client, Q) R) func(*conn, kmsg.Request) kmsg.Response {
	return plain(func(s *Server, ctx context.Context, c *conn, req Q) R {
		return f(s.groups, context.WithoutCancel(ctx), group.Client(c.client), req)
	})
}

// byProducers does the same for the coordinator of transactions.
func byProducers[Q kmsg.Request, R kmsg.Response](f func(*producer.Manager, context.Context, producer.Client, Q) R) func(*conn, kmsg.Request) kmsg.Response {
	return plain(func(s *Server, ctx context.Context, c *conn, req Q) R {
		return f(s.producers, context.WithoutCancel(ctx), producer.Client(c.client), req)
	})
}
