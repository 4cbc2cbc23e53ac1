package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mainstemdev/mainstem/topic"
)

// kafkaProduce is topic produce for a cluster.
func (m *Main) kafkaProduce(cmd *cobra.Command, k *kafkaFlags, name string, maker *recordMaker, values []string, tombstone bool) error {
	o := []kgo.Opt{kgo.DefaultProduceTopic(name), kgo.ProducerBatchCompression(codecOf(maker.options.Compression))}
	if maker.flags.withPartition {
		o = append(o, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	return m.withKafka(cmd, k, o, func(ctx context.Context, cl *kgo.Client) error {
		t, err := findTopic(ctx, cl, name)
		if err != nil {
			return hint(err, fmt.Sprintf("create it with mainstem topic create %s --bootstrap %s", name, k.bootstrap[0]))
		}
		if maker.flags.withPartition {
			if err := t.has(maker.flags.partition); err != nil {
				return err
			}
		}
		return m.produce(ctx, name, &kafkaSender{cl: cl}, maker, values, tombstone)
	})
}

func codecOf(c topic.Codec) kgo.CompressionCodec {
	switch c {
	case topic.Gzip:
		return kgo.GzipCompression()
	case topic.Snappy:
		return kgo.SnappyCompression()
	case topic.LZ4:
		return kgo.Lz4Compression()
	case topic.Zstd:
		return kgo.ZstdCompression()
	}
	return kgo.NoCompression()
}

// kafkaSender produces to a cluster.
type kafkaSender struct{ cl *kgo.Client }

func (s *kafkaSender) Produce(ctx context.Context, r topic.Record, done func(topic.Sent, error)) {
	s.cl.Produce(ctx, foreign(&r), func(sent *kgo.Record, err error) {
		done(topic.Sent{Partition: sent.Partition, Offset: sent.Offset}, kafkaError(ctx, err))
	})
}

func (s *kafkaSender) ProduceSync(ctx context.Context, records ...topic.Record) ([]topic.Sent, error) {
	list := make([]*kgo.Record, len(records))
	for i := range records {
		list[i] = foreign(&records[i])
	}
	out := make([]topic.Sent, len(list))
	err := s.cl.ProduceSync(ctx, list...).FirstErr()
	for i, r := range list { // they are filled in, in the order given
		out[i] = topic.Sent{Partition: r.Partition, Offset: r.Offset}
	}
	return out, err
}

func (s *kafkaSender) Flush(ctx context.Context) error { return s.cl.Flush(ctx) }

// Close does nothing: the client belongs to the command.
func (s *kafkaSender) Close() error { return nil }

func foreign(r *topic.Record) *kgo.Record {
	out := &kgo.Record{Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: r.Time}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return out
}

// native is the inverse of foreign.
func native(r *kgo.Record) topic.Record {
	out := topic.Record{Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value}
	if r.Timestamp.UnixMilli() >= 0 {
		out.Time = r.Timestamp.UTC().Truncate(time.Millisecond)
	}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, topic.Header{Key: h.Key, Value: h.Value})
	}
	return out
}
