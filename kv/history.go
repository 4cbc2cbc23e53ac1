package kv

import (
	"context"
	"errors"
	"iter"

	"github.com/mainstemdev/mainstem"
)

// History yields the revisions of key that the table keeps, tombstones included, in the order and
// within the bounds of v; the zero v selects all, oldest first. With v.Follow it then waits for new
// revisions. [Options.History] says how many are kept; expired revisions are gone. A key or table
// that does not exist yields nothing. Values that cannot be decoded are handled as in
// [Bucket.List].
func (b *Bucket[T]) History(ctx context.Context, key string, v mainstem.Versions) iter.Seq2[Entry[T], error] {
	return func(yield func(Entry[T], error) bool) {
		if err := validateKey("history", b.space, key); err != nil {
			yield(Entry[T]{}, err)
			return
		}
		if v.Reverse {
			b.historyReverse(ctx, key, v, yield)
			return
		}
		var ended Revision // version of the tombstone just before, or 0
		for r, err := range b.log.Read(ctx, b.space, []byte(key), v) {
			if err != nil {
				if !errors.Is(err, mainstem.ErrNotFound) {
					yield(Entry[T]{}, err)
				}
				return
			}
			op := opOf(&r)
			if op == OpUpdate && ended > 0 && r.First() == ended+1 {
				op = OpCreate
			}
			if ended = 0; !r.Live() {
				ended = r.Version
			}
			if !yield(b.entry("history", key, &r, op, lent)) {
				return
			}
		}
	}
}

// historyReverse yields the newest revision first. It holds each revision back until the next older
// one shows whether it created the key.
func (b *Bucket[T]) historyReverse(ctx context.Context, key string, v mainstem.Versions, yield func(Entry[T], error) bool) {
	var held Entry[T]
	var heldErr error
	for r, err := range b.log.Read(ctx, b.space, []byte(key), v) {
		if err == nil && held.Op == OpUpdate && !r.Live() && held.Revision == r.Version+1 {
			held.Op = OpCreate
		}
		if held.Op != OpNone {
			if !yield(held, heldErr) {
				return
			}
			held = Entry[T]{}
		}
		if err != nil {
			if !errors.Is(err, mainstem.ErrNotFound) {
				yield(Entry[T]{}, err)
			}
			return
		}
		held, heldErr = b.entry("history", key, &r, opOf(&r), lent)
	}
	if held.Op != OpNone {
		yield(held, heldErr)
	}
}
