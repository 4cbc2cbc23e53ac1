package stream

import (
	"context"
	"errors"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/recordbatch"

	"github.com/mainstemdev/mainstem/bench/suites/stream"
	"github.com/mainstemdev/mainstem/topic/partition"
)

const partitionTopic = "storage"

// partition creates a topic and returns the storage of its one partition.
func (t *topics) partition(ctx context.Context) (stream.Log, error) {
	tp, err := t.catalog.Create(ctx, partitionTopic, topic.Spec{Partitions: 1})
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return &storage{topics: t, reader: reader{topic: tp}}, nil
}

type storage struct {
	*topics
	reader
	builder recordbatch.Builder
}

func (p *storage) Append(ctx context.Context, ms ...stream.Message) error {
	p.builder.Reset()
	for _, m := range ms {
		p.builder.Append(&recordbatch.Record{Timestamp: recordbatch.NoTimestamp, Key: m.Key, Value: m.Value})
	}
	batch, err := p.builder.Finish(recordbatch.None)
	if err != nil {
		return err
	}
	_, err = p.topic.Append(ctx, 0, batch)
	return err
}

// errEnough ends a read that has what was asked for.
var errEnough = errors.New("enough")

// batchRatio is how many bytes of record batches are read for one that was asked
// for, as long as they are few: small messages are mostly header.
const batchRatio = 10

func (p *storage) Read(ctx context.Context, from int64, most int, f func(stream.Message) error) error {
	got := 0
	for {
		next, err := p.read(ctx, from, min(most*batchRatio, max(most, partition.DefaultReadBytes)), func(m stream.Message) error {
			if got >= most {
				return errEnough
			}
			got += len(m.Key) + len(m.Value)
			return f(m)
		})
		switch {
		case errors.Is(err, errEnough):
			return nil
		case err != nil:
			return err
		case next == from || got >= most:
			return nil
		}
		from = next
	}
}

const spaceName = "bench/table"

// space is a table: a space that keeps the newest record of a key.
type space struct {
	log   mainstem.Log
	batch *mainstem.Batch
}

func newSpace(ctx context.Context, log mainstem.Log) (stream.Table, error) {
	if err := log.CreateSpace(ctx, spaceName, mainstem.Policy{History: 1}); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return &space{log, mainstem.NewBatch()}, nil
}

func (s *space) Close() error { return s.log.Close() }

func (s *space) Put(ctx context.Context, key, value []byte) error {
	s.batch.Reset()
	s.batch.Put(spaceName, key, value)
	_, err := s.log.Commit(ctx, s.batch)
	return err
}

func (s *space) Get(ctx context.Context, key []byte) ([]byte, error) {
	r, err := s.log.Get(ctx, spaceName, key)
	return r.Value, err
}

func (s *space) Scan(ctx context.Context, f func(key, value []byte) error) error {
	for r, err := range s.log.Scan(ctx, spaceName, mainstem.Range{}) {
		if err == nil {
			err = f(r.Key, r.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
