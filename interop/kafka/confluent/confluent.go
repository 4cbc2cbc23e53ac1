// Package confluent is confluent-kafka-go, and so librdkafka, behind the interface
// of package kafka. It needs cgo; librdkafka is linked statically from the module.
//
//	kafka.Run(t, confluent.Library(), broker)
//
// # Concurrency and ownership
//
// As package kafka says. Close ends the threads of librdkafka.
//
// # Testing
//
// The scenarios of package kafka, and once more in module interop/librdkafka, with
// a librdkafka from before 2.11.
//
//snippet:var broker kafka.Broker
package confluent

import (
	"context"
	"errors"
	"fmt"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	ours "github.com/mainstemdev/mainstem/interop/kafka"
)

// Library is confluent-kafka-go.
func Library() ours.Library {
	return ours.Library{Name: "confluent-kafka-go", New: func(at ours.Endpoint) ours.Client { return client{at} }}
}

type client struct{ at ours.Endpoint }

// callPatience bounds calls that take milliseconds instead of a ctx.
const callPatience = 30_000

func (c client) config(more kafka.ConfigMap) *kafka.ConfigMap {
	m := kafka.ConfigMap{
		"bootstrap.servers":        c.at.Address,
		"socket.timeout.ms":        10_000,
		"reconnect.backoff.ms":     10,
		"reconnect.backoff.max.ms": 100,
		"retry.backoff.ms":         20,
		"log_level":                0, // what is cut on purpose is no news
	}
	protocol := "PLAINTEXT"
	if c.at.CA != "" {
		protocol, m["ssl.ca.location"] = "SSL", c.at.CA
	}
	if c.at.Mechanism != "" {
		protocol = "SASL_" + protocol
		m["sasl.mechanisms"], m["sasl.username"], m["sasl.password"] = c.at.Mechanism, c.at.User, c.at.Password
	}
	m["security.protocol"] = protocol
	for k, v := range more {
		m[k] = v
	}
	return &m
}

// Producer is one with a delivery channel for each Send.
type Producer struct {
	p     *kafka.Producer
	topic string
}

// Producer opens one.
func (c client) Producer(ctx context.Context, o ours.ProducerOptions) (ours.Producer, error) {
	more := kafka.ConfigMap{
		"acks": int(o.Acks), "compression.type": o.Codec, "enable.idempotence": o.Idempotent, "linger.ms": 2,
	}
	if o.TransactionalID != "" {
		more["transactional.id"] = o.TransactionalID
	}
	p, err := kafka.NewProducer(c.config(more))
	if err != nil {
		return nil, err
	}
	if o.TransactionalID != "" {
		if err := p.InitTransactions(ctx); err != nil {
			p.Close()
			return nil, fmt.Errorf("init transactions: %w", err)
		}
	}
	return &Producer{p, o.Topic}, nil
}

// Send waits for all delivery reports.
func (p *Producer) Send(ctx context.Context, records []ours.Record) error {
	reports := make(chan kafka.Event, len(records))
	for i, r := range records {
		m := &kafka.Message{
			TopicPartition: kafka.TopicPartition{Topic: &p.topic, Partition: r.Partition},
			Key:            r.Key, Value: r.Value, Timestamp: r.Time, Opaque: i,
		}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, kafka.Header{Key: h.Name, Value: h.Value})
		}
		if err := p.p.Produce(m, reports); err != nil {
			return err
		}
	}
	var errs []error
	for range records {
		select {
		case e := <-reports:
			m := e.(*kafka.Message)
			errs = append(errs, m.TopicPartition.Error)
			records[m.Opaque.(int)].Offset = int64(m.TopicPartition.Offset)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.Join(errs...)
}

// Begin begins a transaction.
func (p *Producer) Begin() error { return p.p.BeginTransaction() }

// Commit commits it.
func (p *Producer) Commit(ctx context.Context) error { return p.p.CommitTransaction(ctx) }

// Abort aborts it.
func (p *Producer) Abort(ctx context.Context) error { return p.p.AbortTransaction(ctx) }

// Close gives up what was not delivered.
func (p *Producer) Close() error {
	p.p.Close()
	return nil
}

// Consumer polls.
type Consumer struct{ c *kafka.Consumer }

// Consumer opens one.
func (c client) Consumer(_ context.Context, o ours.ConsumerOptions) (ours.Consumer, error) {
	more := kafka.ConfigMap{
		"group.id": o.Group, "enable.auto.commit": false, "auto.offset.reset": "earliest", "isolation.level": "read_uncommitted",
		"fetch.wait.max.ms": 100,
	}
	if o.ReadCommitted {
		more["isolation.level"] = "read_committed"
	}
	if o.Next {
		more["group.protocol"] = "consumer"
	} else {
		more["session.timeout.ms"], more["heartbeat.interval.ms"] = int(o.Session().Milliseconds()), 500
	}
	if o.InstanceID != "" {
		more["group.instance.id"] = o.InstanceID
	}
	if o.Group == "" {
		more["group.id"] = "unused" // required, and used only by commits
	}
	cl, err := kafka.NewConsumer(c.config(more))
	if err != nil {
		return nil, err
	}
	if o.Group != "" {
		err = cl.Subscribe(o.Topic, nil)
	} else {
		err = assign(cl, o)
	}
	if err != nil {
		return nil, errors.Join(err, cl.Close())
	}
	return &Consumer{cl}, nil
}

func assign(c *kafka.Consumer, o ours.ConsumerOptions) error {
	p := kafka.TopicPartition{Topic: &o.Topic, Offset: kafka.OffsetBeginning}
	switch o.Start {
	case ours.AtEnd:
		p.Offset = kafka.OffsetEnd
	case ours.AtTime:
		p.Offset = kafka.Offset(o.Time.UnixMilli())
		found, err := c.OffsetsForTimes([]kafka.TopicPartition{p}, callPatience)
		if err != nil {
			return err
		}
		p = found[0]
	}
	return c.Assign([]kafka.TopicPartition{p})
}

// Poll returns one record. Errors that librdkafka gets over by itself are not
// returned.
func (c *Consumer) Poll(ctx context.Context) ([]ours.Record, error) {
	for ctx.Err() == nil {
		switch e := c.c.Poll(100).(type) {
		case *kafka.Message:
			if e.TopicPartition.Error != nil {
				return nil, e.TopicPartition.Error
			}
			r := ours.Record{
				Partition: e.TopicPartition.Partition, Offset: int64(e.TopicPartition.Offset), Key: e.Key, Value: e.Value, Time: e.Timestamp,
			}
			for _, h := range e.Headers {
				r.Headers = append(r.Headers, ours.Header{Name: h.Key, Value: h.Value})
			}
			return []ours.Record{r}, nil
		case kafka.Error:
			if e.IsFatal() {
				return nil, e
			}
		}
	}
	return nil, ctx.Err()
}

// Commit commits what was polled.
func (c *Consumer) Commit(context.Context) error {
	_, err := c.c.Commit()
	var k kafka.Error
	if errors.As(err, &k) {
		switch k.Code() {
		case kafka.ErrRebalanceInProgress, kafka.ErrIllegalGeneration, kafka.ErrUnknownMemberID, kafka.ErrNoOffset,
			kafka.ErrStaleMemberEpoch, kafka.ErrAssignmentLost:
			return nil
		}
	}
	return err
}

// Close leaves the group.
func (c *Consumer) Close() error { return c.c.Close() }

// Move sends the consumer's positions to the transaction.
func (c client) Move(ctx context.Context, o ours.MoveOptions) (moved []ours.Record, err error) {
	in, err := c.Consumer(ctx, ours.ConsumerOptions{Topic: o.From, Group: o.Group, ReadCommitted: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := c.Producer(ctx, ours.ProducerOptions{
		Topic: o.To, Acks: ours.AcksAll, Codec: "none", Idempotent: true, TransactionalID: o.TransactionalID,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := out.Begin(); err != nil {
		return nil, err
	}
	for len(moved) < o.N {
		records, err := in.Poll(ctx)
		if err != nil {
			return moved, err
		}
		moved = append(moved, records...)
	}
	if err := out.Send(ctx, moved); err != nil {
		return moved, err
	}
	if err := sendOffsets(ctx, in.(*Consumer).c, out.(*Producer).p); err != nil {
		return moved, err
	}
	if o.Commit {
		return moved, out.Commit(ctx)
	}
	return moved, out.Abort(ctx)
}

func sendOffsets(ctx context.Context, c *kafka.Consumer, p *kafka.Producer) error {
	assigned, err := c.Assignment()
	if err != nil {
		return err
	}
	positions, err := c.Position(assigned)
	if err != nil {
		return err
	}
	meta, err := c.GetConsumerGroupMetadata()
	if err != nil {
		return err
	}
	return p.SendOffsetsToTransaction(ctx, positions, meta)
}
