package kv

import (
	"bytes"
	"context"

	"go.etcd.io/bbolt"

	"github.com/mainstemdev/mainstem/bench/contenders/peers"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/kv"
)

// boltDB is bbolt, a B+ tree in one file.
func boltDB(name string, d suite.Durability) kv.Factory {
	return kv.Factory{
		Name: "bbolt-" + name, Durability: d, Transport: suite.InProcess, ScaleKeys: slowScale,
		Note: "a bbolt bucket for each table, a transaction for each write; it compares values, having no revisions",
		Open: func(_ context.Context, _ *suite.Env, dir string) (kv.Store, error) {
			db, err := peers.OpenBolt(dir, d)
			if err != nil {
				return nil, err
			}
			return &boltStore{db}, nil
		},
	}
}

type boltStore struct{ db *bbolt.DB }

func (s *boltStore) Set(ctx context.Context, table, key string, value []byte) error {
	return s.SetMany(ctx, table, []kv.Pair{{Key: key, Value: value}})
}

func (s *boltStore) SetMany(_ context.Context, table string, pairs []kv.Pair) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(table))
		if err != nil {
			return err
		}
		for _, p := range pairs {
			if err := b.Put([]byte(p.Key), p.Value); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *boltStore) Get(_ context.Context, table, key string) (value []byte, err error) {
	err = s.view(table, func(b *bbolt.Bucket) error {
		if value = bytes.Clone(b.Get([]byte(key))); value == nil {
			return kv.ErrNotFound
		}
		return nil
	})
	return value, err
}

func (s *boltStore) GetMany(_ context.Context, table string, keys []string) ([][]byte, error) {
	values := make([][]byte, len(keys))
	err := s.view(table, func(b *bbolt.Bucket) error {
		for i, key := range keys {
			values[i] = bytes.Clone(b.Get([]byte(key)))
		}
		return nil
	})
	return values, err
}

// view reads a table. One that does not exist is ErrNotFound.
func (s *boltStore) view(table string, read func(*bbolt.Bucket) error) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(table))
		if b == nil {
			return kv.ErrNotFound
		}
		return read(b)
	})
}

func (s *boltStore) Delete(_ context.Context, table, key string) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		if b := tx.Bucket([]byte(table)); b != nil {
			return b.Delete([]byte(key))
		}
		return nil
	})
}

func (s *boltStore) Keys(_ context.Context, table string) (keys []string, err error) {
	err = s.view(table, func(b *bbolt.Bucket) error {
		return b.ForEach(func(k, _ []byte) error {
			keys = append(keys, string(k))
			return nil
		})
	})
	return keys, ignore(err, kv.ErrNotFound)
}

func (s *boltStore) Page(_ context.Context, table string, offset, limit int) (keys []string, err error) {
	err = s.view(table, func(b *bbolt.Bucket) error {
		c, at := b.Cursor(), 0
		for k, _ := c.First(); k != nil && len(keys) < limit; k, _ = c.Next() {
			if at++; at > offset {
				keys = append(keys, string(k))
			}
		}
		return nil
	})
	return keys, ignore(err, kv.ErrNotFound)
}

func (s *boltStore) Drop(_ context.Context, table string) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		if tx.Bucket([]byte(table)) == nil {
			return nil
		}
		return tx.DeleteBucket([]byte(table))
	})
}

// Read implements [kv.Swapper].
func (s *boltStore) Read(ctx context.Context, table, key string) (kv.Version, error) {
	v, err := s.Get(ctx, table, key)
	return kv.Version{Value: v}, err
}

// Swap implements [kv.Swapper].
func (s *boltStore) Swap(_ context.Context, table, key string, old kv.Version, value []byte) (kv.Version, error) {
	err := s.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(table))
		if b == nil || !bytes.Equal(b.Get([]byte(key)), old.Value) {
			return kv.ErrConflict
		}
		return b.Put([]byte(key), value)
	})
	return kv.Version{Value: value}, err
}

func (s *boltStore) Close() error { return s.db.Close() }
