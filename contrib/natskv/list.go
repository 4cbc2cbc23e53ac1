package natskv

import (
	"context"
	"errors"
	"iter"
	"math"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// listPortion is how many values List fetches at once.
const listPortion = 256

// List yields the entries that q selects (nil: all) in the order of their keys. Which
// keys there are is that of one moment, see [Bucket.Sync]; each value is the newest
// when it is fetched, and a key that was deleted meanwhile is left out. With
// KeysOnly no value is fetched. A bucket that does not exist yields nothing. An
// entry whose value cannot be read comes with a Corrupt error and all but its
// value; the loop may go on. Any other error is the last.
func (b *Bucket[T]) List(ctx context.Context, q *kv.Query) iter.Seq2[kv.Entry[T], error] {
	return func(yield func(kv.Entry[T], error) bool) {
		if q == nil {
			q = &kv.Query{}
		}
		keys, err := b.collect(ctx, "list", q)
		if err != nil {
			yield(kv.Entry[T]{}, err)
			return
		}
		if q.KeysOnly {
			for i := range keys {
				if !yield(keyEntry[T](&keys[i]), nil) {
					return
				}
			}
			return
		}
		for len(keys) > 0 {
			n := min(len(keys), listPortion)
			if !b.yieldValues(ctx, keys[:n], yield) {
				return
			}
			keys = keys[n:]
		}
	}
}

// yieldValues fetches and yields the entries of keys; false ends the list.
func (b *Bucket[T]) yieldValues(ctx context.Context, keys []found, yield func(kv.Entry[T], error) bool) bool {
	names := make([]string, len(keys))
	for i := range keys {
		names[i] = keys[i].key
	}
	messages, shared, err := b.getMany(ctx, names)
	if err != nil {
		yield(kv.Entry[T]{}, err)
		return false
	}
	for i, m := range messages {
		if m == nil || operation(m.header) != kv.OpUpdate {
			continue
		}
		e, err := b.value(ctx, names[i], m, shared)
		if errors.Is(err, mainstem.ErrNotFound) {
			continue
		}
		if !yield(e, err) || err != nil && !errors.Is(err, mainstem.ErrCorrupt) {
			return false
		}
	}
	return true
}

// collect returns the keys that q selects.
func (b *Bucket[T]) collect(ctx context.Context, op string, q *kv.Query) ([]found, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	for {
		if err := b.stream.index.ready(ctx); err != nil {
			if errors.Is(err, errNoBucket) {
				return nil, nil
			}
			return nil, b.stream.fail(op, "", err)
		}
		if keys, ok := b.stream.index.collect(b.prefix, q); ok { // else it has begun anew since it was ready
			return keys, nil
		}
	}
}

func keyEntry[T any](f *found) kv.Entry[T] {
	e := kv.Entry[T]{Key: f.key, Revision: kv.Revision(f.seq), Position: mainstem.Position(f.seq), Op: kv.OpUpdate, Modified: time.Unix(0, f.time)}
	if f.expires != 0 {
		e.Expires = time.Unix(0, f.expires)
	}
	return e
}

// Keys yields the keys that q selects (nil: all) in order, those of one moment.
func (b *Bucket[T]) Keys(ctx context.Context, q *kv.Query) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if q == nil {
			q = &kv.Query{}
		}
		keys, err := b.collect(ctx, "keys", q)
		if err != nil {
			yield("", err)
			return
		}
		for i := range keys {
			if !yield(keys[i].key, nil) {
				return
			}
		}
	}
}

// Count returns the number of keys that q selects (nil: all).
func (b *Bucket[T]) Count(ctx context.Context, q *kv.Query) (int64, error) {
	if q == nil {
		q = &kv.Query{}
	}
	keys, err := b.collect(ctx, "count", q)
	return int64(len(keys)), err
}

// Page returns the entries that q selects (nil: all), at most q.Limit (default
// kv.DefaultPage), and the cursor to give as q.After for those that follow, or ""
// if there are none. A page may be shorter than asked for, because a key was
// deleted while its value was fetched, and still have a cursor. Offset counts
// within each page: leave it 0 after the first.
func (b *Bucket[T]) Page(ctx context.Context, q *kv.Query) (entries []kv.Entry[T], next string, err error) {
	one := kv.Query{}
	if q != nil {
		one = *q
	}
	if one.Limit == 0 {
		one.Limit = kv.DefaultPage
	}
	limit := one.Limit
	if limit > 0 && limit < math.MaxInt {
		one.Limit++ // the one too many tells whether there are more
	}
	keys, err := b.collect(ctx, "page", &one)
	if err != nil {
		return nil, "", err
	}
	if len(keys) > limit {
		keys = keys[:limit]
		next = keys[limit-1].key
	}
	entries = make([]kv.Entry[T], 0, len(keys))
	if one.KeysOnly {
		for i := range keys {
			entries = append(entries, keyEntry[T](&keys[i]))
		}
		return entries, next, nil
	}
	b.yieldValues(ctx, keys, func(e kv.Entry[T], failed error) bool {
		if err = failed; err == nil {
			entries = append(entries, e)
		}
		return err == nil
	})
	if err != nil {
		return nil, "", err
	}
	return entries, next, nil
}
