package kv

import (
	"context"
	"errors"
	"iter"

	"github.com/mainstemdev/mainstem"
	view "github.com/mainstemdev/mainstem/kv"

	"github.com/mainstemdev/mainstem/bench/suites/kv"
)

// bucket is what a bucket of Mainstem's kv view offers, on a log (package kv) or on a
// bucket of JetStream (package natskv). Their options of Put, of Update and of Delete
// have types of their own; the bench passes none.
type bucket[P, V, D any] interface {
	Put(ctx context.Context, key string, value []byte, opts ...P) (view.Revision, error)
	PutMany(ctx context.Context, pairs []view.Pair[[]byte], opts ...P) ([]view.Revision, error)
	Update(ctx context.Context, key string, value []byte, revision view.Revision, opts ...V) (view.Revision, error)
	Delete(ctx context.Context, key string, opts ...D) error
	Get(ctx context.Context, key string) (view.Entry[[]byte], error)
	GetMany(ctx context.Context, keys ...string) ([]view.Entry[[]byte], error)
	Watch(ctx context.Context, o *view.WatchOptions) iter.Seq2[view.Entry[[]byte], error]
}

// table is an open bucket.
type table[P, V, D any] struct {
	bucket[P, V, D]
	// keys lists keys. It is a function of the bucket's own type, so that the compiler
	// sees the loop as it does in a program.
	keys func(ctx context.Context, q view.Query) ([]string, error)
}

// collect returns the keys that seq yields.
func collect(seq iter.Seq2[string, error]) ([]string, error) {
	var keys []string
	for key, err := range seq {
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// viewStore is the kv view, with a bucket for each table.
type viewStore[P, V, D any] struct {
	open    func(name string) (table[P, V, D], error)
	drop    func(ctx context.Context, table string) error
	close   func() error
	buckets buckets[table[P, V, D]]
}

func (s *viewStore[P, V, D]) bucket(name string) (table[P, V, D], error) {
	return s.buckets.get(name, func() (table[P, V, D], error) { return s.open(name) })
}

func (s *viewStore[P, V, D]) Set(ctx context.Context, table, key string, value []byte) error {
	b, err := s.bucket(table)
	if err != nil {
		return err
	}
	_, err = b.Put(ctx, key, value)
	return err
}

func (s *viewStore[P, V, D]) Get(ctx context.Context, table, key string) ([]byte, error) {
	v, err := s.Read(ctx, table, key)
	return v.Value, err
}

func (s *viewStore[P, V, D]) Delete(ctx context.Context, table, key string) error {
	b, err := s.bucket(table)
	if err != nil {
		return err
	}
	return b.Delete(ctx, key)
}

func (s *viewStore[P, V, D]) SetMany(ctx context.Context, table string, pairs []kv.Pair) error {
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

func (s *viewStore[P, V, D]) GetMany(ctx context.Context, table string, keys []string) ([][]byte, error) {
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

func (s *viewStore[P, V, D]) Keys(ctx context.Context, table string) ([]string, error) {
	return s.keys(ctx, table, view.Query{})
}

func (s *viewStore[P, V, D]) Page(ctx context.Context, table string, offset, limit int) ([]string, error) {
	return s.keys(ctx, table, view.Query{Offset: offset, Limit: limit})
}

func (s *viewStore[P, V, D]) keys(ctx context.Context, table string, q view.Query) ([]string, error) {
	b, err := s.bucket(table)
	if err != nil {
		return nil, err
	}
	return b.keys(ctx, q)
}

func (s *viewStore[P, V, D]) Drop(ctx context.Context, table string) error {
	s.buckets.forget(table)
	return ignore(s.drop(ctx, table), mainstem.ErrNotFound)
}

// Read implements [kv.Swapper].
func (s *viewStore[P, V, D]) Read(ctx context.Context, table, key string) (kv.Version, error) {
	b, err := s.bucket(table)
	if err != nil {
		return kv.Version{}, err
	}
	e, err := b.Get(ctx, key)
	return kv.Version{Revision: uint64(e.Revision), Value: e.Value}, answer(err)
}

// Swap implements [kv.Swapper].
func (s *viewStore[P, V, D]) Swap(ctx context.Context, table, key string, old kv.Version, value []byte) (kv.Version, error) {
	b, err := s.bucket(table)
	if err != nil {
		return kv.Version{}, err
	}
	revision, err := b.Update(ctx, key, value, view.Revision(old.Revision))
	return kv.Version{Revision: uint64(revision), Value: value}, answer(err)
}

// Watch implements [kv.Watcher].
func (s *viewStore[P, V, D]) Watch(ctx context.Context, table string, ready func(), each func(key string, value []byte)) error {
	b, err := s.bucket(table)
	if err != nil {
		return err
	}
	return tell(b.Watch(ctx, &view.WatchOptions{UpdatesOnly: true}), ready, each)
}

func (s *viewStore[P, V, D]) Close() error { return s.close() }

// tell passes on what a watch of Mainstem's kv yields after its marker.
func tell(entries iter.Seq2[view.Entry[[]byte], error], ready func(), each func(key string, value []byte)) error {
	for e, err := range entries {
		switch {
		case errors.Is(err, mainstem.ErrCanceled):
			return context.Canceled
		case err != nil:
			return err
		case e.Op == view.OpSynced:
			ready()
		default:
			each(e.Key, e.Value)
		}
	}
	return nil
}

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
