// Package segmentio is segmentio/kafka-go behind the interface of package kafka.
//
//	kafka.Run(t, segmentio.Library(), broker)
//
// # Concurrency and ownership
//
// As package kafka says. Every part has a transport of its own, closed with it.
//
// # Testing
//
// The scenarios of package kafka.
//
//snippet:var broker kafka.Broker
package segmentio

import (
	"context"
	"errors"
	"time"

	segment "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/mainstemdev/mainstem/interop/kafka"
)

// Library is kafka-go.
func Library() kafka.Library {
	const (
		noProducer = "its Writer has neither producer ids nor transactions"
		noMarkers  = "its Reader returns control records as if they were records, and ignores the list of aborted transactions"
	)
	return kafka.Library{
		Name: "kafka-go", New: func(at kafka.Endpoint) kafka.Client { return client{at} },
		Cannot: map[string]string{
			"empty-value":         "its Reader returns empty values as nil",
			"read-uncommitted":    noMarkers,
			"read-committed":      noMarkers,
			"group-next":          "it has only the classic group protocol",
			"static-member":       "its Reader has no setting for an instance id",
			"idempotent-resets":   noProducer,
			"transaction":         noProducer,
			"transaction-offsets": noProducer,
			"admin-records":       "its Client has no call to delete records",
		},
	}
}

type client struct{ at kafka.Endpoint }

func (c client) mechanism() (sasl.Mechanism, error) {
	switch c.at.Mechanism {
	case "PLAIN":
		return plain.Mechanism{Username: c.at.User, Password: c.at.Password}, nil
	case "SCRAM-SHA-256":
		return scram.Mechanism(scram.SHA256, c.at.User, c.at.Password)
	case "SCRAM-SHA-512":
		return scram.Mechanism(scram.SHA512, c.at.User, c.at.Password)
	}
	return nil, nil
}

// transport is for Writer and Client.
func (c client) transport() (*segment.Transport, error) {
	t, err := c.at.TLS()
	m, merr := c.mechanism()
	return &segment.Transport{TLS: t, SASL: m}, errors.Join(err, merr)
}

var codecs = map[string]segment.Compression{
	"gzip": segment.Gzip, "snappy": segment.Snappy, "lz4": segment.Lz4, "zstd": segment.Zstd,
}

// Producer is a Writer.
type Producer struct {
	w         *segment.Writer
	transport *segment.Transport
}

// Producer opens one.
func (c client) Producer(_ context.Context, o kafka.ProducerOptions) (kafka.Producer, error) {
	t, err := c.transport()
	return &Producer{transport: t, w: &segment.Writer{
		Addr: segment.TCP(c.at.Address), Topic: o.Topic, RequiredAcks: segment.RequiredAcks(o.Acks), Compression: codecs[o.Codec],
		BatchTimeout: 5 * time.Millisecond, Transport: t,
		Balancer: segment.BalancerFunc(func(m segment.Message, _ ...int) int { return m.Partition }),
	}}, err
}

// Send waits for all records. The Writer does not tell offsets.
func (p *Producer) Send(ctx context.Context, records []kafka.Record) error {
	var out []segment.Message
	for _, r := range records {
		m := segment.Message{Partition: int(r.Partition), Key: r.Key, Value: r.Value, Time: r.Time}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, segment.Header{Key: h.Name, Value: h.Value})
		}
		out = append(out, m)
	}
	return p.w.WriteMessages(ctx, out...)
}

var errNoTransactions = errors.New("kafka-go's Writer has no transactions")

// Begin fails.
func (p *Producer) Begin() error { return errNoTransactions }

// Commit fails.
func (p *Producer) Commit(context.Context) error { return errNoTransactions }

// Abort fails.
func (p *Producer) Abort(context.Context) error { return errNoTransactions }

// Close flushes.
func (p *Producer) Close() error {
	defer p.transport.CloseIdleConnections()
	return p.w.Close()
}

// Move fails.
func (c client) Move(context.Context, kafka.MoveOptions) ([]kafka.Record, error) {
	return nil, errNoTransactions
}

// Consumer is a Reader.
type Consumer struct {
	r      *segment.Reader
	polled []segment.Message
}

// Consumer opens one.
func (c client) Consumer(ctx context.Context, o kafka.ConsumerOptions) (kafka.Consumer, error) {
	t, err := c.at.TLS()
	m, merr := c.mechanism()
	if err := errors.Join(err, merr); err != nil {
		return nil, err
	}
	k := segment.ReaderConfig{
		Dialer:  &segment.Dialer{Timeout: 10 * time.Second, DualStack: true, TLS: t, SASLMechanism: m},
		Brokers: []string{c.at.Address}, Topic: o.Topic, GroupID: o.Group, MinBytes: 1, MaxBytes: 10e6, MaxWait: 100 * time.Millisecond,
		SessionTimeout: o.Session(), HeartbeatInterval: 500 * time.Millisecond, RebalanceTimeout: o.Session(),
		JoinGroupBackoff: 100 * time.Millisecond, StartOffset: segment.FirstOffset,
		ReadBackoffMin: 10 * time.Millisecond, ReadBackoffMax: 100 * time.Millisecond,
	}
	if o.ReadCommitted {
		k.IsolationLevel = segment.ReadCommitted
	}
	r := segment.NewReader(k)
	switch {
	case o.Group != "":
	case o.Start == kafka.AtEnd:
		err = r.SetOffset(segment.LastOffset)
	case o.Start == kafka.AtTime:
		err = r.SetOffsetAt(ctx, o.Time)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return &Consumer{r: r}, nil
}

// Poll returns one record.
func (c *Consumer) Poll(ctx context.Context) ([]kafka.Record, error) {
	m, err := c.r.FetchMessage(ctx)
	if err != nil {
		return nil, err
	}
	c.polled = append(c.polled, m)
	r := kafka.Record{Partition: int32(m.Partition), Offset: m.Offset, Key: m.Key, Value: m.Value, Time: m.Time}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, kafka.Header{Name: h.Key, Value: h.Value})
	}
	return []kafka.Record{r}, nil
}

// Commit commits what was polled.
func (c *Consumer) Commit(ctx context.Context) error {
	err := c.r.CommitMessages(ctx, c.polled...)
	c.polled = nil
	if errors.Is(err, segment.RebalanceInProgress) || errors.Is(err, segment.IllegalGeneration) || errors.Is(err, segment.UnknownMemberId) {
		return nil
	}
	return err
}

// Close leaves the group.
func (c *Consumer) Close() error { return c.r.Close() }
