package kv

import (
	"context"
	"errors"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/contrib/natskv"
	view "github.com/mainstemdev/mainstem/kv"

	"github.com/mainstemdev/mainstem/bench/contenders/peers"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/kv"
)

// natsView is Mainstem's kv view on native JetStream buckets.
func natsView(name string, server suite.Server, d suite.Durability) kv.Factory {
	return kv.Factory{
		Name: "mainstem-natskv-" + name, Durability: d, Transport: suite.LoopbackTCP, ScaleKeys: slowScale,
		Note: "package natskv on JetStream buckets in their native layout, without its cache",
		Open: func(ctx context.Context, env *suite.Env, dir string) (kv.Store, error) {
			conn, stop, err := peers.DialNATS(ctx, env, server, dir)
			if err != nil {
				return nil, err
			}
			store, err := natskv.OpenStore(ctx, conn, nil)
			if err != nil {
				return nil, errors.Join(err, stop())
			}
			return &natsViewStore{store: store, stop: stop}, nil
		},
	}
}

type natsViewStore struct {
	store   *natskv.Store
	stop    func() error
	buckets buckets[*natskv.Bucket[[]byte]]
}

func (s *natsViewStore) bucket(table string) (*natskv.Bucket[[]byte], error) {
	return s.buckets.get(table, func() (*natskv.Bucket[[]byte], error) { return natskv.Open[[]byte](s.store, table, nil) })
}

func (s *natsViewStore) Set(ctx context.Context, table, key string, value []byte) error {
	b, err := s.bucket(table)
	if err != nil {
		return err
	}
	_, err = b.Put(ctx, key, value)
	return err
}

func (s *natsViewStore) Get(ctx context.Context, table, key string) ([]byte, error) {
	v, err := s.Read(ctx, table, key)
	return v.Value, err
}

func (s *natsViewStore) Delete(ctx context.Context, table, key string) error {
	b, err := s.bucket(table)
	if err != nil {
		return err
	}
	return b.Delete(ctx, key)
}

func (s *natsViewStore) SetMany(ctx context.Context, table string, pairs []kv.Pair) error {
	b, err := s.bucket(table)
	if err != nil {
		return err
	}
	all := make([]view.Pair[[]byte], len(pairs))
	for i, p := range pairs {
		all[i] = view.Pair[[]byte](p)
	}
	_, err = b.PutMany(ctx, all)
	return err
}

func (s *natsViewStore) GetMany(ctx context.Context, table string, keys []string) ([][]byte, error) {
	b, err := s.bucket(table)
	if err != nil {
		return nil, err
	}
	entries, err := b.GetMany(ctx, keys...)
	values := make([][]byte, len(entries))
	for i := range entries {
		values[i] = entries[i].Value
	}
	return values, err
}

func (s *natsViewStore) Keys(ctx context.Context, table string) ([]string, error) {
	return s.keys(ctx, table, nil)
}

func (s *natsViewStore) Page(ctx context.Context, table string, offset, limit int) ([]string, error) {
	return s.keys(ctx, table, &view.Query{Offset: offset, Limit: limit})
}

func (s *natsViewStore) keys(ctx context.Context, table string, q *view.Query) ([]string, error) {
	b, err := s.bucket(table)
	if err != nil {
		return nil, err
	}
	var keys []string
	for key, err := range b.Keys(ctx, q) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func (s *natsViewStore) Drop(ctx context.Context, table string) error {
	s.buckets.forget(table)
	return ignore(s.store.DropTable(ctx, "", table), mainstem.ErrNotFound)
}

// Read implements [kv.Swapper].
func (s *natsViewStore) Read(ctx context.Context, table, key string) (kv.Version, error) {
	b, err := s.bucket(table)
	if err != nil {
		return kv.Version{}, err
	}
	e, err := b.Get(ctx, key)
	return kv.Version{Revision: uint64(e.Revision), Value: e.Value}, answer(err)
}

// Swap implements [kv.Swapper].
func (s *natsViewStore) Swap(ctx context.Context, table, key string, old kv.Version, value []byte) (kv.Version, error) {
	b, err := s.bucket(table)
	if err != nil {
		return kv.Version{}, err
	}
	revision, err := b.Update(ctx, key, value, view.Revision(old.Revision))
	return kv.Version{Revision: uint64(revision), Value: value}, answer(err)
}

// Watch implements [kv.Watcher].
func (s *natsViewStore) Watch(ctx context.Context, table string, ready func(), each func(key string, value []byte)) error {
	b, err := s.bucket(table)
	if err != nil {
		return err
	}
	return tell(b.Watch(ctx, &view.WatchOptions{UpdatesOnly: true}), ready, each)
}

func (s *natsViewStore) Close() error { return errors.Join(s.store.Close(), s.stop()) }
