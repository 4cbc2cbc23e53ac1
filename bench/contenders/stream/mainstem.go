package stream

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/recordbatch"

	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/stream"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// embedded is the topics of every engine that is in the process.
func embedded() []stream.Factory {
	var fs []stream.Factory
	for _, e := range engines.All() {
		if e.Server {
			continue
		}
		open := func(ctx context.Context, env *suite.Env, dir string) (*topics, error) {
			log, err := e.Open(ctx, env, dir)
			if err != nil {
				return nil, err
			}
			c, err := topic.Open(log, nil)
			if err != nil {
				return nil, errors.Join(err, log.Close())
			}
			return &topics{log, c}, nil
		}
		fs = append(fs, stream.Factory{
			Name: e.Name, Durability: e.Durability, Transport: e.Transport, Note: "a topic of the embedded engine, without a server; a table is a space that keeps the newest record", Skip: e.Skip,
			Client: func(ctx context.Context, env *suite.Env, dir string) (stream.Client, error) {
				return open(ctx, env, dir)
			},
			Log: func(ctx context.Context, env *suite.Env, dir string) (stream.Log, error) {
				t, err := open(ctx, env, dir)
				if err != nil {
					return nil, err
				}
				return t.partition(ctx)
			},
			Table: func(ctx context.Context, env *suite.Env, dir string) (stream.Table, error) {
				log, err := e.Open(ctx, env, dir)
				if err != nil {
					return nil, err
				}
				return newSpace(ctx, log)
			},
		})
	}
	return fs
}

// topics is a log with its topics.
type topics struct {
	log     mainstem.Log
	catalog *topic.Catalog
}

func (t *topics) Close() error { return errors.Join(t.catalog.Close(), t.log.Close()) }

func (t *topics) Create(ctx context.Context, name string) error {
	_, err := t.catalog.Create(ctx, name, topic.Spec{Partitions: 1})
	return err
}

func (t *topics) Producer(ctx context.Context, name string) (stream.Producer, error) {
	tp, err := t.catalog.Topic(ctx, name)
	if err != nil {
		return nil, err
	}
	p, err := tp.Producer(nil)
	return &producer{Producer: p}, err
}

type producer struct {
	*topic.Producer
	records []topic.Record
}

func (p *producer) Send(ctx context.Context, ms ...stream.Message) error {
	p.records = p.records[:0]
	for _, m := range ms {
		p.records = append(p.records, topic.Record{Key: m.Key, Value: m.Value})
	}
	_, err := p.ProduceSync(ctx, p.records...)
	return err
}

func (t *topics) Consumer(ctx context.Context, name string, from int64) (stream.Consumer, error) {
	tp, err := t.catalog.Topic(ctx, name)
	if err != nil {
		return nil, err
	}
	c := &consumer{reader: reader{topic: tp}, next: from, waiter: t.catalog.NewWaiter()}
	if err := c.waiter.Add(ctx, tp, 0); err != nil {
		c.waiter.Close()
		return nil, err
	}
	return c, nil
}

// consumer reads what is there and waits for more.
type consumer struct {
	reader
	next   int64
	waiter *topic.Waiter
	ms     []stream.Message
}

func (c *consumer) Close() error { c.waiter.Close(); return nil }

func (c *consumer) Fetch(ctx context.Context) ([]stream.Message, error) {
	c.ms = c.ms[:0]
	for {
		next, err := c.read(ctx, c.next, partition.DefaultReadBytes, func(m stream.Message) error {
			c.ms = append(c.ms, m) // it aliases the chunk, which stays until the next read
			return nil
		})
		if err != nil {
			return nil, err
		}
		c.next = next
		if len(c.ms) > 0 {
			return c.ms, nil
		}
		if err := c.waiter.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// reader reads the record batches of partition 0.
type reader struct {
	topic   *topic.Topic
	buf     []byte
	decoder recordbatch.Decoder
}

// read calls f for each record of a chunk from offset on, and returns the offset after it.
func (r *reader) read(ctx context.Context, offset int64, most int, f func(stream.Message) error) (next int64, err error) {
	chunk, err := r.topic.Read(ctx, 0, offset, &partition.ReadOptions{MaxBytes: most, Buffer: r.buf[:0]})
	if err != nil {
		return offset, err
	}
	r.buf = chunk.Data
	for data := chunk.Data; len(data) > 0; {
		size := 12 + int(binary.BigEndian.Uint32(data[8:]))
		base := int64(binary.BigEndian.Uint64(data))
		for rec, err := range r.decoder.Records(data[:size], base) {
			if err != nil {
				return offset, err
			}
			if rec.Offset < offset {
				continue
			}
			if err := f(stream.Message{Key: rec.Key, Value: rec.Value}); err != nil {
				return offset, err
			}
		}
		data = data[size:]
	}
	return chunk.Next, nil
}
