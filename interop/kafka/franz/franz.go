// Package franz is franz-go (kgo and kadm) behind the interface of package kafka.
//
//	kafka.Run(t, franz.Library(), broker)
//
// # Concurrency and ownership
//
// As package kafka says. [Consumer.Close] and [Producer.Close] end what was opened.
//
// # Testing
//
// The scenarios of package kafka.
//
//snippet:var broker kafka.Broker
package franz

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/mainstemdev/mainstem/interop/kafka"
)

// Library is franz-go, which can do everything.
func Library() kafka.Library {
	return kafka.Library{Name: "franz-go", New: func(at kafka.Endpoint) kafka.Client { return client{at} }}
}

type client struct{ at kafka.Endpoint }

// options connect to the endpoint.
func (c client) options(more ...kgo.Opt) ([]kgo.Opt, error) {
	opts := append([]kgo.Opt{kgo.SeedBrokers(c.at.Address)}, more...)
	t, err := c.at.TLS()
	if t != nil {
		opts = append(opts, kgo.DialTLSConfig(t))
	}
	switch c.at.Mechanism {
	case "PLAIN":
		opts = append(opts, kgo.SASL(plain.Auth{User: c.at.User, Pass: c.at.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		opts = append(opts, kgo.SASL(scram.Auth{User: c.at.User, Pass: c.at.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		opts = append(opts, kgo.SASL(scram.Auth{User: c.at.User, Pass: c.at.Password}.AsSha512Mechanism()))
	}
	return opts, err
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

var acks = map[kafka.Acks]kgo.Acks{kafka.AcksAll: kgo.AllISRAcks(), kafka.AcksOne: kgo.LeaderAck(), kafka.AcksNone: kgo.NoAck()}

// Producer sends with ProduceSync.
type Producer struct {
	cl    *kgo.Client
	topic string
}

// Producer opens one.
func (c client) Producer(_ context.Context, o kafka.ProducerOptions) (kafka.Producer, error) {
	opts, err := c.options(
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[o.Codec]), kgo.RequiredAcks(acks[o.Acks]),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	)
	if err != nil {
		return nil, err
	}
	if !o.Idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	if o.TransactionalID != "" {
		opts = append(opts, kgo.TransactionalID(o.TransactionalID))
	}
	cl, err := kgo.NewClient(opts...)
	return &Producer{cl, o.Topic}, err
}

// Send waits for all records.
func (p *Producer) Send(ctx context.Context, records []kafka.Record) error {
	var out []*kgo.Record
	for _, r := range records {
		k := &kgo.Record{Topic: p.topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: r.Time}
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
		out = append(out, k)
	}
	err := p.cl.ProduceSync(ctx, out...).FirstErr()
	for i, k := range out {
		records[i].Offset = k.Offset
	}
	return err
}

// Begin begins a transaction.
func (p *Producer) Begin() error { return p.cl.BeginTransaction() }

// Commit commits it.
func (p *Producer) Commit(ctx context.Context) error { return p.cl.EndTransaction(ctx, kgo.TryCommit) }

// Abort aborts it.
func (p *Producer) Abort(ctx context.Context) error { return p.cl.EndTransaction(ctx, kgo.TryAbort) }

// Close waits for nothing.
func (p *Producer) Close() error {
	p.cl.Close()
	return nil
}

// Consumer polls.
type Consumer struct {
	cl    *kgo.Client
	group string
}

// Consumer opens one.
func (c client) Consumer(_ context.Context, o kafka.ConsumerOptions) (kafka.Consumer, error) {
	level := kgo.ReadUncommitted()
	if o.ReadCommitted {
		level = kgo.ReadCommitted()
	}
	opts, err := c.options(kgo.FetchIsolationLevel(level), kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		return nil, err
	}
	start := kgo.NewOffset().AtStart()
	switch o.Start {
	case kafka.AtEnd:
		start = kgo.NewOffset().AtEnd()
	case kafka.AtTime:
		start = kgo.NewOffset().AfterMilli(o.Time.UnixMilli())
	}
	if o.Group == "" {
		opts = append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{o.Topic: {0: start}}))
	} else {
		opts = append(opts, kgo.DisableAutoCommit(), kgo.ConsumeTopics(o.Topic), kgo.ConsumerGroup(o.Group), kgo.ConsumeResetOffset(start),
			kgo.SessionTimeout(o.Session()), kgo.HeartbeatInterval(500*time.Millisecond))
	}
	if o.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(o.InstanceID))
	}
	if o.Next {
		opts = append(opts, kgo.ServerSideBalancer())
	}
	cl, err := kgo.NewClient(opts...)
	return &Consumer{cl, o.Group}, err
}

// Poll returns what has been fetched. Errors that the client gets over by itself
// are not returned.
func (c *Consumer) Poll(ctx context.Context) ([]kafka.Record, error) {
	for {
		fetches := c.cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return nil, err
		}
		var out []kafka.Record
		fetches.EachRecord(func(r *kgo.Record) { out = append(out, record(r)) })
		if len(out) > 0 {
			return out, nil
		}
		for _, e := range fetches.Errors() {
			if !kerr.IsRetriable(e.Err) {
				return nil, fmt.Errorf("fetch %s %d: %w", e.Topic, e.Partition, e.Err)
			}
		}
	}
}

// Commit commits what was polled.
func (c *Consumer) Commit(ctx context.Context) error {
	err := c.cl.CommitUncommittedOffsets(ctx)
	if errors.Is(err, kerr.RebalanceInProgress) || errors.Is(err, kerr.IllegalGeneration) ||
		errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.StaleMemberEpoch) {
		return nil
	}
	return err
}

// Close leaves the group.
func (c *Consumer) Close() error {
	c.cl.CloseAllowingRebalance()
	return nil
}

func record(r *kgo.Record) kafka.Record {
	k := kafka.Record{Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value, Time: r.Timestamp}
	for _, h := range r.Headers {
		k.Headers = append(k.Headers, kafka.Header{Name: h.Key, Value: h.Value})
	}
	return k
}
