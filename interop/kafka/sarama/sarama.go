// Package sarama is IBM/sarama behind the interface of package kafka.
//
//	kafka.Run(t, sarama.Library(), broker)
//
// # Concurrency and ownership
//
// As package kafka says. A consumer of a group owns the goroutine that sarama's
// sessions run in; Close ends it.
//
// # Testing
//
// The scenarios of package kafka.
//
//snippet:var broker kafka.Broker
package sarama

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"github.com/mainstemdev/mainstem/interop/kafka"
)

// Library is sarama.
func Library() kafka.Library {
	return kafka.Library{
		Name: "sarama", New: func(at kafka.Endpoint) kafka.Client { return client{at} },
		Cannot: map[string]string{
			"group-next": "it has only the classic group protocol",
		},
	}
}

type client struct{ at kafka.Endpoint }

func (c client) config() (*sarama.Config, error) {
	t, err := c.at.TLS()
	k := sarama.NewConfig()
	k.Net.TLS.Enable, k.Net.TLS.Config = t != nil, t
	if c.at.Mechanism != "" {
		k.Net.SASL.Enable, k.Net.SASL.Mechanism = true, sarama.SASLMechanism(c.at.Mechanism)
		k.Net.SASL.User, k.Net.SASL.Password = c.at.User, c.at.Password
		k.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{mechanism: c.at.Mechanism} }
	}
	k.Version = sarama.V4_0_0_0
	k.Metadata.Retry.Backoff = 50 * time.Millisecond
	k.Producer.Retry.Backoff = 20 * time.Millisecond
	return k, err
}

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

// Producer is a SyncProducer.
type Producer struct {
	p     sarama.SyncProducer
	topic string
}

// Producer opens one.
func (c client) Producer(_ context.Context, o kafka.ProducerOptions) (kafka.Producer, error) {
	k, err := c.config()
	if err != nil {
		return nil, err
	}
	k.Producer.RequiredAcks = sarama.RequiredAcks(o.Acks)
	k.Producer.Compression = codecs[o.Codec]
	k.Producer.Partitioner = sarama.NewManualPartitioner
	k.Producer.Return.Successes = true
	if o.Idempotent {
		k.Producer.Idempotent = true
		k.Producer.Retry.Max = 1000 // 20 s
		k.Metadata.Retry.Max = 400  // 20 s: a batch is failed at once if metadata cannot be had when it is retried
		k.Net.MaxOpenRequests = 1
	}
	if o.TransactionalID != "" {
		k.Producer.Transaction.ID = o.TransactionalID
	}
	p, err := sarama.NewSyncProducer([]string{c.at.Address}, k)
	return &Producer{p, o.Topic}, err
}

// Send waits for all records.
func (p *Producer) Send(_ context.Context, records []kafka.Record) error {
	var out []*sarama.ProducerMessage
	for _, r := range records {
		m := &sarama.ProducerMessage{Topic: p.topic, Partition: r.Partition, Timestamp: r.Time}
		if r.Key != nil {
			m.Key = sarama.ByteEncoder(r.Key)
		}
		if r.Value != nil {
			m.Value = sarama.ByteEncoder(r.Value)
		}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h.Name), Value: h.Value})
		}
		out = append(out, m)
	}
	err := p.p.SendMessages(out)
	for i, m := range out {
		records[i].Offset = m.Offset
	}
	var failed sarama.ProducerErrors
	if errors.As(err, &failed) { // it says only how many
		err = fmt.Errorf("%w: the first: %w", err, failed[0].Err)
	}
	return err
}

// Begin begins a transaction.
func (p *Producer) Begin() error { return p.p.BeginTxn() }

// Commit commits it.
func (p *Producer) Commit(context.Context) error { return p.p.CommitTxn() }

// Abort aborts it.
func (p *Producer) Abort(context.Context) error { return p.p.AbortTxn() }

// Close flushes.
func (p *Producer) Close() error { return p.p.Close() }

func record(m *sarama.ConsumerMessage) kafka.Record {
	r := kafka.Record{Partition: m.Partition, Offset: m.Offset, Key: m.Key, Value: m.Value, Time: m.Timestamp}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, kafka.Header{Name: string(h.Key), Value: h.Value})
	}
	return r
}
