package sarama

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"

	"github.com/mainstemdev/mainstem/interop/kafka"
)

// Consumer opens one.
func (c client) Consumer(ctx context.Context, o kafka.ConsumerOptions) (kafka.Consumer, error) {
	k, err := c.config()
	if err != nil {
		return nil, err
	}
	k.Consumer.Offsets.AutoCommit.Enable = false
	k.Consumer.Offsets.Initial = sarama.OffsetOldest
	k.Consumer.Group.Session.Timeout = o.Session()
	k.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	k.Consumer.Group.InstanceId = o.InstanceID
	k.Consumer.Return.Errors = false
	k.Consumer.MaxWaitTime = 100 * time.Millisecond
	if o.ReadCommitted {
		k.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	if o.Group != "" {
		return c.member(ctx, k, o)
	}
	return c.reader(k, o)
}

// reader reads one partition.
type reader struct {
	client sarama.Client
	all    sarama.Consumer
	one    sarama.PartitionConsumer
}

func (c client) reader(k *sarama.Config, o kafka.ConsumerOptions) (kafka.Consumer, error) {
	cl, err := sarama.NewClient([]string{c.at.Address}, k)
	if err != nil {
		return nil, err
	}
	offset := sarama.OffsetOldest
	switch o.Start {
	case kafka.AtEnd:
		offset = sarama.OffsetNewest
	case kafka.AtTime:
		offset, err = cl.GetOffset(o.Topic, 0, o.Time.UnixMilli())
	}
	r := &reader{client: cl}
	if err == nil {
		r.all, err = sarama.NewConsumerFromClient(cl)
	}
	if err == nil {
		r.one, err = r.all.ConsumePartition(o.Topic, 0, offset)
	}
	if err != nil {
		return nil, errors.Join(err, cl.Close())
	}
	return r, nil
}

func (r *reader) Poll(ctx context.Context) ([]kafka.Record, error) {
	select {
	case m := <-r.one.Messages():
		return []kafka.Record{record(m)}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *reader) Commit(context.Context) error { return errors.New("no group") }

func (r *reader) Close() error {
	return errors.Join(r.one.Close(), r.all.Close(), r.client.Close())
}

// member is a member of a group.
type member struct {
	group    sarama.ConsumerGroup
	cancel   context.CancelFunc
	done     chan struct{}
	err      error // once done is closed
	messages chan delivery
	polled   []delivery
}

// delivery is a message with the session it came in.
type delivery struct {
	session sarama.ConsumerGroupSession
	message *sarama.ConsumerMessage
}

func (c client) member(ctx context.Context, k *sarama.Config, o kafka.ConsumerOptions) (*member, error) {
	group, err := sarama.NewConsumerGroup([]string{c.at.Address}, o.Group, k)
	if err != nil {
		return nil, err
	}
	m := &member{group: group, done: make(chan struct{}), messages: make(chan delivery, 100)}
	ctx, m.cancel = context.WithCancel(ctx)
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			// A session ends whenever partitions move; an error ends it too.
			if err := group.Consume(ctx, []string{o.Topic}, m); errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			} else if err != nil {
				m.err = err
			}
		}
	}()
	return m, nil
}

// Setup is part of sarama's handler.
func (m *member) Setup(sarama.ConsumerGroupSession) error { return nil }

// Cleanup is part of sarama's handler.
func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim hands over what a session reads.
func (m *member) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			select {
			case m.messages <- delivery{s, message}:
			case <-s.Context().Done():
				return nil
			}
		case <-s.Context().Done():
			return nil
		}
	}
}

// Poll returns what sarama has already, so that not every record is committed on
// its own: a commit waits behind a fetch of the same connection.
func (m *member) Poll(ctx context.Context) ([]kafka.Record, error) {
	var got []kafka.Record
	for more := true; more; {
		select {
		case d := <-m.messages:
			m.polled = append(m.polled, d)
			got = append(got, record(d.message))
		default:
			more = false
		}
	}
	if len(got) > 0 {
		return got, nil
	}
	select {
	case d := <-m.messages:
		m.polled = append(m.polled, d)
		return []kafka.Record{record(d.message)}, nil
	case <-m.done:
		return nil, errors.Join(errors.New("the group ended"), m.err)
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), m.err)
	}
}

// Commit marks and commits what was polled in sessions that still live.
func (m *member) Commit(context.Context) error {
	sessions := map[sarama.ConsumerGroupSession]bool{}
	for _, d := range m.polled {
		if d.session.Context().Err() == nil {
			d.session.MarkMessage(d.message, "")
			sessions[d.session] = true
		}
	}
	m.polled = nil
	for s := range sessions {
		s.Commit()
	}
	return nil
}

// Close leaves the group.
func (m *member) Close() error {
	m.cancel()
	err := m.group.Close()
	<-m.done
	return err
}
