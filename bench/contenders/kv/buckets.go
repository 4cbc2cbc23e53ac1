package kv

import "sync"

// buckets remembers the handle of each table, as a program would that works on it.
type buckets[T any] struct{ known sync.Map } // of *T

func (b *buckets[T]) get(table string, open func() (T, error)) (T, error) {
	if h, ok := b.known.Load(table); ok {
		return *h.(*T), nil
	}
	h, err := open()
	if err != nil {
		return h, err
	}
	actual, _ := b.known.LoadOrStore(table, &h)
	return *actual.(*T), nil
}

func (b *buckets[T]) forget(table string) { b.known.Delete(table) }
