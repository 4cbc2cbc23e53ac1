package kv

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/mainstemdev/mainstem"
	view "github.com/mainstemdev/mainstem/kv"
)

// buckets remembers the handle of each table, as a program would that works on it.
type buckets[T any] struct{ known sync.Map }

func (b *buckets[T]) get(table string, open func() (T, error)) (T, error) {
	if h, ok := b.known.Load(table); ok {
		return h.(T), nil
	}
	h, err := open()
	if err != nil {
		return h, err
	}
	actual, _ := b.known.LoadOrStore(table, h)
	return actual.(T), nil
}

func (b *buckets[T]) forget(table string) { b.known.Delete(table) }

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
