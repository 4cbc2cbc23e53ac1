package kv

import (
	"context"
	"errors"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem/bench/contenders/peers"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/kv"
)

// natsKeyValue is the KeyValue API of nats.go.
func natsKeyValue(name string, server suite.Server, d suite.Durability) kv.Factory {
	return kv.Factory{
		Name: "nats-kv-" + name, Durability: d, Transport: suite.LoopbackTCP, ScaleKeys: slowScale,
		Note: "nats.go KeyValue, a bucket for each table; pages list all keys and sort them; get-many is a get for each key, set-many publishes ahead of the acknowledgements",
		Open: func(ctx context.Context, env *suite.Env, dir string) (kv.Store, error) {
			conn, stop, err := peers.DialNATS(ctx, env, server, dir)
			if err != nil {
				return nil, err
			}
			js, err := peers.JetStream(conn)
			if err != nil {
				return nil, errors.Join(err, stop())
			}
			return &natsStore{js: js, stop: stop}, nil
		},
	}
}

type natsStore struct {
	js      jetstream.JetStream
	stop    func() error
	buckets buckets[jetstream.KeyValue]
}

func (s *natsStore) bucket(ctx context.Context, table string) (jetstream.KeyValue, error) {
	return s.buckets.get(table, func() (jetstream.KeyValue, error) {
		return s.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: table})
	})
}

func (s *natsStore) Set(ctx context.Context, table, key string, value []byte) error {
	b, err := s.bucket(ctx, table)
	if err != nil {
		return err
	}
	_, err = b.Put(ctx, key, value)
	return err
}

func (s *natsStore) Get(ctx context.Context, table, key string) ([]byte, error) {
	v, err := s.Read(ctx, table, key)
	return v.Value, err
}

func (s *natsStore) Delete(ctx context.Context, table, key string) error {
	b, err := s.bucket(ctx, table)
	if err != nil {
		return err
	}
	return b.Purge(ctx, key)
}

// SetMany publishes as KeyValue does, without waiting for each acknowledgement.
func (s *natsStore) SetMany(ctx context.Context, table string, pairs []kv.Pair) error {
	if _, err := s.bucket(ctx, table); err != nil {
		return err
	}
	acks := make([]jetstream.PubAckFuture, len(pairs))
	for i, p := range pairs {
		ack, err := s.js.PublishMsgAsync(&nats.Msg{Subject: "$KV." + table + "." + p.Key, Data: p.Value})
		if err != nil {
			return err
		}
		acks[i] = ack
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (s *natsStore) GetMany(ctx context.Context, table string, keys []string) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for i, key := range keys {
		var err error
		if values[i], err = s.Get(ctx, table, key); ignore(err, kv.ErrNotFound) != nil {
			return nil, err
		}
	}
	return values, nil
}

func (s *natsStore) Keys(ctx context.Context, table string) ([]string, error) {
	b, err := s.bucket(ctx, table)
	if err != nil {
		return nil, err
	}
	keys, err := b.Keys(ctx)
	return keys, ignore(err, jetstream.ErrNoKeysFound)
}

func (s *natsStore) Page(ctx context.Context, table string, offset, limit int) ([]string, error) {
	keys, err := s.Keys(ctx, table)
	slices.Sort(keys)
	return keys[min(offset, len(keys)):min(offset+limit, len(keys))], err
}

func (s *natsStore) Drop(ctx context.Context, table string) error {
	s.buckets.forget(table)
	return ignore(s.js.DeleteKeyValue(ctx, table), jetstream.ErrBucketNotFound, jetstream.ErrStreamNotFound)
}

// Read implements [kv.Swapper].
func (s *natsStore) Read(ctx context.Context, table, key string) (kv.Version, error) {
	b, err := s.bucket(ctx, table)
	if err != nil {
		return kv.Version{}, err
	}
	e, err := b.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return kv.Version{}, kv.ErrNotFound
	}
	if err != nil {
		return kv.Version{}, err
	}
	return kv.Version{Revision: e.Revision(), Value: e.Value()}, nil
}

// Swap implements [kv.Swapper].
func (s *natsStore) Swap(ctx context.Context, table, key string, old kv.Version, value []byte) (kv.Version, error) {
	b, err := s.bucket(ctx, table)
	if err != nil {
		return kv.Version{}, err
	}
	revision, err := b.Update(ctx, key, value, old.Revision)
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
		return kv.Version{}, kv.ErrConflict
	}
	return kv.Version{Revision: revision, Value: value}, err
}

// Watch implements [kv.Watcher].
func (s *natsStore) Watch(ctx context.Context, table string, ready func(), each func(key string, value []byte)) (err error) {
	b, err := s.bucket(ctx, table)
	if err != nil {
		return err
	}
	w, err := b.WatchAll(ctx, jetstream.UpdatesOnly())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ignore(w.Stop(), nats.ErrBadSubscription, nats.ErrConnectionClosed)) }()
	ready()
	for {
		select {
		case e := <-w.Updates():
			if e != nil {
				each(e.Key(), e.Value())
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *natsStore) Close() error { return s.stop() }
