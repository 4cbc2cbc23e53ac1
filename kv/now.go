package kv

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/mainstemdev/mainstem"
)

// maxScratch is the size, in bytes, of the largest buffer that is kept for later writes.
const maxScratch = 64 << 10

// scratch is the reusable memory of one write that commits by itself.
type scratch struct {
	batch mainstem.Batch
	buf   []byte // key and encoded value
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// release returns s to the pool. Call it only after a commit that succeeded: an error may still
// refer to the batch's keys.
func (s *scratch) release() {
	s.batch.Reset()
	if cap(s.buf) > maxScratch {
		s.buf = nil
	}
	s.buf = s.buf[:0]
	scratches.Put(s)
}

// commit commits the batch of s alone.
func (b *Bucket[T]) commit(ctx context.Context, s *scratch) (mainstem.Receipt, error) {
	s.batch.Durability = b.durability
	r, err := b.log.Commit(ctx, &s.batch)
	if err != nil {
		err = atOnce(err)
	}
	return r, err
}

// Put writes value to key and returns its revision. When it returns, the write has the bucket's
// durability. If a condition in opts does not hold, the error is a Conflict that carries the
// revision found.
func (b *Bucket[T]) Put(ctx context.Context, key string, value T, opts ...PutOption) (Revision, error) {
	r, err := b.putNow(ctx, "put", key, value, collect(b.valueIf(Condition{}), opts))
	return revisionOf(r), err
}

// Create writes value to key if the key has no value, and returns its revision. Otherwise the error
// is Exists; its Got is the present revision.
func (b *Bucket[T]) Create(ctx context.Context, key string, value T, opts ...ValueOption) (Revision, error) {
	r, err := b.putNow(ctx, "create", key, value, collect(b.valueIf(IfAbsent()), opts))
	return revisionOf(r), b.existsError(key, err)
}

// existsError returns err, or Exists for the Conflict of a Create.
func (b *Bucket[T]) existsError(key string, err error) error {
	var e *mainstem.Error
	if !errors.As(err, &e) || e.Kind != mainstem.KindConflict {
		return err
	}
	return &mainstem.Error{Kind: mainstem.KindExists, Op: "create", Space: b.space, Key: []byte(key),
		Outcome: e.Outcome, Want: e.Want, Got: e.Got, GotLive: e.GotLive,
		Err: fmt.Errorf("the key has a value at revision %d", e.Got)}
}

// Update writes value to key if the key has a value and its revision is revision: a
// compare-and-set. Otherwise the error is a Conflict that carries the revision found. Revision 0
// stands for a key without a value.
func (b *Bucket[T]) Update(ctx context.Context, key string, value T, revision Revision, opts ...ValueOption) (Revision, error) {
	r, err := b.putNow(ctx, "update", key, value, collect(b.valueIf(IfRevision(revision)), opts))
	return revisionOf(r), err
}

// Delete deletes key. A key without a value is no error, unless a condition requires a value; a
// table that does not exist is not created.
func (b *Bucket[T]) Delete(ctx context.Context, key string, opts ...DeleteOption) error {
	_, err := b.endNow(ctx, mainstem.OpDelete, key, opts)
	return err
}

// Purge deletes key together with its history. If the key was deleted before, Purge removes all its
// revisions except the tombstone. Otherwise it is like Delete.
func (b *Bucket[T]) Purge(ctx context.Context, key string, opts ...DeleteOption) error {
	for {
		ended, err := b.endNow(ctx, mainstem.OpPurge, key, opts)
		if err != nil || ended {
			return err
		}
		if err := b.truncate(ctx, key); !errors.Is(err, mainstem.ErrConflict) {
			return err
		} // a value was written meanwhile
	}
}

// truncate removes the revisions of key, which has no value, up to its tombstone.
func (b *Bucket[T]) truncate(ctx context.Context, key string) error {
	k := []byte(key)
	for r, err := range b.log.Read(ctx, b.space, k, mainstem.Versions{Reverse: true, Limit: 1}) {
		if err != nil {
			if errors.Is(err, mainstem.ErrNotFound) {
				return nil
			}
			return notWritten(err)
		}
		before := r.First()
		if r.Live() { // the newest record, a tombstone or a value that has expired since, is not yielded
			before = r.Version + 1
		}
		batch := mainstem.NewBatch()
		batch.Durability = b.durability
		batch.IfAbsent(b.space, k)
		batch.Truncate(b.space, k, before)
		_, err = b.log.Commit(ctx, batch)
		return err
	}
	return nil
}

func (b *Bucket[T]) putNow(ctx context.Context, op, key string, value T, o settings) (mainstem.Receipt, error) {
	s := scratches.Get().(*scratch)
	var err error
	if s.buf, err = b.put(&s.batch, s.buf, op, key, value, o); err != nil {
		s.release() // b.put added nothing, and its errors hold copies of the keys
		return mainstem.Receipt{}, err
	}
	r, err := b.commit(ctx, s)
	if err != nil {
		return mainstem.Receipt{}, err
	}
	s.release()
	return r, nil
}

// endNow reports whether key had a value.
func (b *Bucket[T]) endNow(ctx context.Context, op mainstem.Op, key string, opts []DeleteOption) (bool, error) {
	s := scratches.Get().(*scratch)
	if err := b.end(&s.batch, op, key, opts); err != nil {
		return false, err
	}
	r, err := b.commit(ctx, s)
	if err != nil {
		if errors.Is(err, mainstem.ErrNotFound) {
			return false, nil // the conditions hold, and there is no table, so no value
		}
		return false, err
	}
	s.release()
	return revisionOf(r) > 0, nil
}

func revisionOf(r mainstem.Receipt) Revision {
	if len(r.Versions) == 0 {
		return 0
	}
	return r.Versions[0]
}
