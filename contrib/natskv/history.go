package natskv

import (
	"context"
	"errors"
	"iter"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// History yields the messages of key that the bucket keeps, deletions included, the
// oldest first: at most [TableOptions.History]. A key or bucket that does not exist
// yields nothing. Values that cannot be read are as in [Bucket.List].
func (b *Bucket[T]) History(ctx context.Context, key string) iter.Seq2[kv.Entry[T], error] {
	return func(yield func(kv.Entry[T], error) bool) {
		full, token, err := b.locate("history", key)
		var f *facts
		if err == nil {
			f, err = b.stream.find(ctx)
		}
		after := false // a deletion
		for from := uint64(1); err == nil; {
			var m message
			m, err = b.stream.fetch(ctx, map[string]any{"seq": from, "next_by_subj": b.stream.subject + token})
			if err != nil {
				break
			}
			from = m.seq + 1
			b.stream.index.tell(f, full, delivery{seq: m.seq, time: m.time.UnixNano()}, operation(m.header), ttlOf(m.header))
			e, bad := b.value(ctx, key, &m, false)
			ended := e.Op != kv.OpUpdate
			if after && !ended {
				e.Op = kv.OpCreate
			}
			after = ended
			if !yield(e, bad) {
				return
			}
		}
		if !errors.Is(err, errNoMessage) && !errors.Is(err, errNoBucket) {
			yield(kv.Entry[T]{}, b.stream.fail("history", key, err))
		}
	}
}

// Modify replaces the value of key by what change makes of it, atomically: if
// another write came between, it calls change again on what is there then. found
// is false, and old the zero T, if the key has no value. It returns the new
// revision. An error of change is returned as it is, and nothing is written. It takes
// [TTL] and [Metadata].
func (b *Bucket[T]) Modify(ctx context.Context, key string, change func(old T, found bool) (T, error), opts ...WriteOption) (kv.Revision, error) {
	for {
		old, err := b.Get(ctx, key)
		if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
			return 0, notWritten(err)
		}
		value, err := change(old.Value, err == nil)
		if err != nil {
			return 0, err
		}
		rev, err := b.Update(ctx, key, value, old.Revision, opts...)
		if !errors.Is(err, mainstem.ErrConflict) {
			return rev, err
		}
	}
}
