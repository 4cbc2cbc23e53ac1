package kv

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// mapStore is an honest store.
type mapStore struct {
	mu       sync.Mutex
	tables   map[string]map[string][]byte // under mu
	watchers []chan change                // under mu
}

func newMapStore() *mapStore { return &mapStore{tables: map[string]map[string][]byte{}} }

func (s *mapStore) Set(ctx context.Context, table, key string, value []byte) error {
	return s.SetMany(ctx, table, []Pair{{key, value}})
}

func (s *mapStore) SetMany(_ context.Context, table string, pairs []Pair) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range pairs {
		s.setLocked(table, p)
	}
	return nil
}

func (s *mapStore) setLocked(table string, p Pair) {
	if s.tables[table] == nil {
		s.tables[table] = map[string][]byte{}
	}
	v := bytes.Clone(p.Value)
	s.tables[table][p.Key] = v
	for _, w := range s.watchers {
		w <- change{key: p.Key, value: v}
	}
}

func (s *mapStore) Get(_ context.Context, table, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.tables[table][key]
	if !ok {
		return nil, ErrNotFound
	}
	return bytes.Clone(v), nil
}

func (s *mapStore) GetMany(ctx context.Context, table string, keys []string) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for i, k := range keys {
		values[i], _ = s.Get(ctx, table, k)
	}
	return values, nil
}

func (s *mapStore) Delete(_ context.Context, table, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tables[table], key)
	return nil
}

func (s *mapStore) Keys(_ context.Context, table string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.tables[table])), nil
}

func (s *mapStore) Page(ctx context.Context, table string, offset, limit int) ([]string, error) {
	keys, err := s.Keys(ctx, table)
	slices.Sort(keys)
	return keys[offset : offset+limit], err
}

func (s *mapStore) Drop(_ context.Context, table string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tables, table)
	return nil
}

func (s *mapStore) Read(ctx context.Context, table, key string) (Version, error) {
	v, err := s.Get(ctx, table, key)
	return Version{Value: v}, err
}

func (s *mapStore) Swap(_ context.Context, table, key string, old Version, value []byte) (Version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !bytes.Equal(s.tables[table][key], old.Value) {
		return Version{}, ErrConflict
	}
	s.setLocked(table, Pair{key, value})
	return Version{Value: value}, nil
}

func (s *mapStore) Watch(ctx context.Context, _ string, ready func(), each func(string, []byte)) error {
	changes := make(chan change, 1024)
	s.mu.Lock()
	s.watchers = append(s.watchers, changes)
	s.mu.Unlock()
	ready()
	for {
		select {
		case c := <-changes:
			each(c.key, c.value)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *mapStore) Close() error { return nil }

func factory(name string, open func() Store) Factory {
	return Factory{Name: name, Durability: suite.Memory, ScaleKeys: 1000, Open: func(context.Context, *suite.Env, string) (Store, error) { return open(), nil }}
}
