package kv

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"

	"github.com/mainstemdev/mainstem/bench/contenders/peers"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/kv"
)

// badgerDB is Badger, an LSM tree with values apart.
func badgerDB(name string, d suite.Durability) kv.Factory {
	f := kv.Factory{
		Name: "badger-" + name, Durability: d, Transport: suite.InProcess,
		Note: "tables are prefixes of Badger's keys, a transaction for each write",
		Open: func(_ context.Context, _ *suite.Env, dir string) (kv.Store, error) {
			db, err := peers.OpenBadger(dir, d)
			if err != nil {
				return nil, err
			}
			return &badgerStore{db}, nil
		},
	}
	if d == suite.Fsync {
		f.ScaleKeys = slowScale
	}
	if d == suite.Memory {
		const reason = "in memory Badger takes no value of 1 MiB: there is no value log"
		f.Lacks = map[string]string{"set-large": reason, "get-large": reason, "set-get-large": reason, "delete-large": reason}
	}
	return f
}

type badgerStore struct{ db *badger.DB }

// cut separates the table from the key.
const cut = 0

func keyOf(table, key string) []byte {
	return append(append(append(make([]byte, 0, len(table)+1+len(key)), table...), cut), key...)
}

func prefixOf(table string) []byte { return keyOf(table, "") }

func (s *badgerStore) Set(_ context.Context, table, key string, value []byte) error {
	return s.db.Update(func(tx *badger.Txn) error { return tx.Set(keyOf(table, key), value) })
}

func (s *badgerStore) SetMany(_ context.Context, table string, pairs []kv.Pair) error {
	return s.db.Update(func(tx *badger.Txn) error {
		for _, p := range pairs {
			if err := tx.Set(keyOf(table, p.Key), p.Value); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *badgerStore) Get(ctx context.Context, table, key string) ([]byte, error) {
	v, err := s.Read(ctx, table, key)
	return v.Value, err
}

func (s *badgerStore) GetMany(_ context.Context, table string, keys []string) ([][]byte, error) {
	values := make([][]byte, len(keys))
	err := s.db.View(func(tx *badger.Txn) error {
		for i, key := range keys {
			v, err := read(tx, table, key)
			if ignore(err, kv.ErrNotFound) != nil {
				return err
			}
			values[i] = v.Value
		}
		return nil
	})
	return values, err
}

func read(tx *badger.Txn, table, key string) (kv.Version, error) {
	item, err := tx.Get(keyOf(table, key))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return kv.Version{}, kv.ErrNotFound
	}
	if err != nil {
		return kv.Version{}, err
	}
	value, err := item.ValueCopy(nil)
	return kv.Version{Revision: item.Version(), Value: value}, err
}

func (s *badgerStore) Delete(_ context.Context, table, key string) error {
	return s.db.Update(func(tx *badger.Txn) error { return tx.Delete(keyOf(table, key)) })
}

func (s *badgerStore) Keys(_ context.Context, table string) ([]string, error) {
	return s.keys(table, 0, -1)
}

func (s *badgerStore) Page(_ context.Context, table string, offset, limit int) ([]string, error) {
	return s.keys(table, offset, limit)
}

func (s *badgerStore) keys(table string, offset, limit int) (keys []string, err error) {
	prefix := prefixOf(table)
	err = s.db.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.IteratorOptions{Prefix: prefix})
		defer it.Close()
		for it.Rewind(); it.Valid() && len(keys) != limit; it.Next() {
			if offset--; offset < 0 {
				keys = append(keys, string(it.Item().Key()[len(prefix):]))
			}
		}
		return nil
	})
	return keys, err
}

func (s *badgerStore) Drop(_ context.Context, table string) error {
	return s.db.DropPrefix(prefixOf(table))
}

// Read implements [kv.Swapper].
func (s *badgerStore) Read(_ context.Context, table, key string) (v kv.Version, err error) {
	err = s.db.View(func(tx *badger.Txn) (err error) {
		v, err = read(tx, table, key)
		return err
	})
	return v, err
}

// Swap implements [kv.Swapper]. The version that it returns has no revision: a
// transaction of Badger does not tell its own.
func (s *badgerStore) Swap(_ context.Context, table, key string, old kv.Version, value []byte) (kv.Version, error) {
	err := s.db.Update(func(tx *badger.Txn) error {
		now, err := read(tx, table, key)
		if err != nil {
			return err
		}
		if !bytes.Equal(now.Value, old.Value) {
			return kv.ErrConflict
		}
		return tx.Set(keyOf(table, key), value)
	})
	if errors.Is(err, badger.ErrConflict) {
		err = kv.ErrConflict
	}
	return kv.Version{Value: value}, err
}

// probeEvery is how often a watch writes to see whether it is told of it.
const probeEvery = time.Millisecond

// Watch implements [kv.Watcher]. Badger does not say from when on it tells, so a
// key beside the table is written until it arrives.
func (s *badgerStore) Watch(ctx context.Context, table string, ready func(), each func(key string, value []byte)) error {
	ctx, cancel := context.WithCancel(ctx)
	prefix, probe := prefixOf(table), keyOf("probe", table)
	seen, stopped := make(chan struct{}), make(chan error, 1)
	go func() { stopped <- s.probe(ctx, probe, seen) }()
	notified := false
	err := s.db.Subscribe(ctx, func(l *badger.KVList) error {
		for _, e := range l.Kv {
			switch {
			case bytes.HasPrefix(e.Key, prefix):
				each(string(e.Key[len(prefix):]), e.Value)
			case !notified:
				notified = true
				close(seen)
				ready()
			}
		}
		return nil
	}, []pb.Match{{Prefix: prefix}, {Prefix: probe}})
	cancel()
	return errors.Join(err, <-stopped)
}

// probe writes key again and again until it was seen.
func (s *badgerStore) probe(ctx context.Context, key []byte, seen <-chan struct{}) error {
	for t := time.NewTicker(probeEvery); ; {
		select {
		case <-seen:
			t.Stop()
			return nil
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
			if err := s.db.Update(func(tx *badger.Txn) error { return tx.Set(key, nil) }); err != nil {
				return err
			}
		}
	}
}

func (s *badgerStore) Close() error { return s.db.Close() }
