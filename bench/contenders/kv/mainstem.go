package kv

import (
	"context"
	"errors"

	"github.com/mainstemdev/mainstem"
	view "github.com/mainstemdev/mainstem/kv"

	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/kv"
)

// mainstemLogs are the kv view on every engine.
func mainstemLogs() []kv.Factory {
	var all []kv.Factory
	for _, e := range engines.All() {
		f := kv.Factory{
			Name: e.Name, Durability: e.Durability, Transport: e.Transport, Address: e.Address, Note: e.Note, Skip: e.Skip,
			Open: func(ctx context.Context, env *suite.Env, dir string) (kv.Store, error) {
				log, err := e.Open(ctx, env, dir)
				if err != nil {
					return nil, err
				}
				return &mainstemStore{log: log}, nil
			},
		}
		if e.Server || e.Durability == suite.Fsync {
			f.ScaleKeys = slowScale
		}
		all = append(all, f)
	}
	return all
}

// mainstemStore is the kv view on a log.
type mainstemStore struct {
	log     mainstem.Log
	buckets buckets[*view.Bucket[[]byte]]
}

func (s *mainstemStore) bucket(table string) (*view.Bucket[[]byte], error) {
	return s.buckets.get(table, func() (*view.Bucket[[]byte], error) { return view.Open[[]byte](s.log, table, nil) })
}

func (s *mainstemStore) Set(ctx context.Context, table, key string, value []byte) error {
	b, err := s.bucket(table)
	if err != nil {
		return err
	}
	_, err = b.Put(ctx, key, value)
	return err
}

func (s *mainstemStore) Get(ctx context.Context, table, key string) ([]byte, error) {
	v, err := s.Read(ctx, table, key)
	return v.Value, err
}

func (s *mainstemStore) Delete(ctx context.Context, table, key string) error {
	b, err := s.bucket(table)
	if err != nil {
		return err
	}
	return b.Delete(ctx, key)
}

func (s *mainstemStore) SetMany(ctx context.Context, table string, pairs []kv.Pair) error {
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

func (s *mainstemStore) GetMany(ctx context.Context, table string, keys []string) ([][]byte, error) {
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

func (s *mainstemStore) Keys(ctx context.Context, table string) ([]string, error) {
	return s.keys(ctx, table, nil)
}

func (s *mainstemStore) Page(ctx context.Context, table string, offset, limit int) ([]string, error) {
	return s.keys(ctx, table, &view.Query{Offset: offset, Limit: limit})
}

func (s *mainstemStore) keys(ctx context.Context, table string, q *view.Query) ([]string, error) {
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

func (s *mainstemStore) Drop(ctx context.Context, table string) error {
	return ignore(view.DropTable(ctx, s.log, view.DefaultDatabase, table), mainstem.ErrNotFound)
}

// Read implements [kv.Swapper].
func (s *mainstemStore) Read(ctx context.Context, table, key string) (kv.Version, error) {
	b, err := s.bucket(table)
	if err != nil {
		return kv.Version{}, err
	}
	e, err := b.Get(ctx, key)
	return kv.Version{Revision: uint64(e.Revision), Value: e.Value}, answer(err)
}

// Swap implements [kv.Swapper].
func (s *mainstemStore) Swap(ctx context.Context, table, key string, old kv.Version, value []byte) (kv.Version, error) {
	b, err := s.bucket(table)
	if err != nil {
		return kv.Version{}, err
	}
	revision, err := b.Update(ctx, key, value, view.Revision(old.Revision))
	return kv.Version{Revision: uint64(revision), Value: value}, answer(err)
}

// Watch implements [kv.Watcher].
func (s *mainstemStore) Watch(ctx context.Context, table string, ready func(), each func(key string, value []byte)) error {
	b, err := s.bucket(table)
	if err != nil {
		return err
	}
	return tell(b.Watch(ctx, &view.WatchOptions{UpdatesOnly: true}), ready, each)
}

func (s *mainstemStore) Close() error { return s.log.Close() }

// answer turns the errors of Mainstem that are answers into those of the suite.
func answer(err error) error {
	switch {
	case errors.Is(err, mainstem.ErrNotFound):
		return kv.ErrNotFound
	case errors.Is(err, mainstem.ErrConflict):
		return kv.ErrConflict
	}
	return err
}

// ignore returns err, unless it is one of those that are no error here.
func ignore(err error, those ...error) error {
	for _, e := range those {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}
