package kv

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem/bench/contenders/peers"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/kv"
)

// pebbleDB is Pebble as it is, the storage engine below mainstem-pebble.
func pebbleDB(name string, d suite.Durability) kv.Factory {
	f := kv.Factory{
		Name: "pebble-" + name, Durability: d, Transport: suite.InProcess,
		Note: "keys of Pebble and nothing else: no revisions, no order of writes, no watch; compare-and-set is a mutex around get and set",
		Open: func(_ context.Context, _ *suite.Env, dir string) (kv.Store, error) {
			db, err := peers.OpenPebble(dir, d)
			if err != nil {
				return nil, err
			}
			return &pebbleStore{db: db}, nil
		},
	}
	if d == suite.Fsync {
		f.ScaleKeys = slowScale
	}
	return f
}

type pebbleStore struct {
	db   *peers.Pebble
	swap sync.Mutex
}

func (s *pebbleStore) Set(_ context.Context, table, key string, value []byte) error {
	return s.db.Set(keyOf(table, key), value, s.db.Write)
}

func (s *pebbleStore) SetMany(_ context.Context, table string, pairs []kv.Pair) error {
	b := s.db.NewBatch()
	for _, p := range pairs {
		if err := b.Set(keyOf(table, p.Key), p.Value, nil); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	return errors.Join(b.Commit(s.db.Write), b.Close())
}

func (s *pebbleStore) Get(_ context.Context, table, key string) ([]byte, error) {
	v, closer, err := s.db.Get(keyOf(table, key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, kv.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	v = bytes.Clone(v)
	return v, closer.Close()
}

func (s *pebbleStore) GetMany(ctx context.Context, table string, keys []string) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for i, key := range keys {
		var err error
		if values[i], err = s.Get(ctx, table, key); ignore(err, kv.ErrNotFound) != nil {
			return nil, err
		}
	}
	return values, nil
}

func (s *pebbleStore) Delete(_ context.Context, table, key string) error {
	return s.db.Delete(keyOf(table, key), s.db.Write)
}

func (s *pebbleStore) Keys(_ context.Context, table string) ([]string, error) {
	return s.keys(table, 0, -1)
}

func (s *pebbleStore) Page(_ context.Context, table string, offset, limit int) ([]string, error) {
	return s.keys(table, offset, limit)
}

func (s *pebbleStore) keys(table string, offset, limit int) (keys []string, err error) {
	prefix := prefixOf(table)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: endOf(table)})
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok && len(keys) != limit; ok = it.Next() {
		if offset--; offset < 0 {
			keys = append(keys, string(it.Key()[len(prefix):]))
		}
	}
	return keys, it.Close()
}

// endOf is behind all keys of table.
func endOf(table string) []byte {
	end := prefixOf(table)
	end[len(end)-1] = cut + 1
	return end
}

func (s *pebbleStore) Drop(_ context.Context, table string) error {
	return s.db.DeleteRange(prefixOf(table), endOf(table), s.db.Write)
}

// Read implements [kv.Swapper].
func (s *pebbleStore) Read(ctx context.Context, table, key string) (kv.Version, error) {
	v, err := s.Get(ctx, table, key)
	return kv.Version{Value: v}, err
}

// Swap implements [kv.Swapper].
func (s *pebbleStore) Swap(ctx context.Context, table, key string, old kv.Version, value []byte) (kv.Version, error) {
	s.swap.Lock()
	defer s.swap.Unlock()
	now, err := s.Get(ctx, table, key)
	if err != nil {
		return kv.Version{}, err
	}
	if !bytes.Equal(now, old.Value) {
		return kv.Version{}, kv.ErrConflict
	}
	return kv.Version{Value: value}, s.Set(ctx, table, key, value)
}

func (s *pebbleStore) Close() error { return s.db.Close() }
