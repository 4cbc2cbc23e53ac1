package kv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// Modify atomically replaces the value of key with the result of change. If another write to the
// key commits between the read and the write, Modify calls change again with the new value. If the
// key has no value, found is false and old is the zero T. It returns the new entry. An error of
// change is returned as it is, and nothing is written. The options are [TTL] and [Metadata];
// without TTL the value gets the bucket's TTL, whatever was left of the old value's.
//
// A time to live counts from the time of the engine's clock, which is earlier than Modified while
// the clock is behind. So for a value that expires, Modify reads Expires back, which costs one more
// read. If another write has already replaced the value, or that read fails, Expires counts from
// Modified and may be too late.
//
// Writers that conflict repeatedly pause for random short times, so that each succeeds in turn; the
// attempts end with ctx.
func (b *Bucket[T]) Modify(ctx context.Context, key string, change func(old T, found bool) (T, error), opts ...ValueOption) (Entry[T], error) {
	e, err := b.modify(ctx, key, change, opts)
	if err != nil {
		return Entry[T]{}, err
	}
	b.complete(ctx, &e, collect(b.valueIf(Condition{}), opts))
	return e, nil
}

// complete sets Expires and Metadata of e, which was written with s.
func (b *Bucket[T]) complete(ctx context.Context, e *Entry[T], s settings) {
	if s.ttl > 0 {
		e.Expires = b.expiry(ctx, e, s.ttl)
	}
	e.Metadata = metadataOf(s.headers)
}

// written returns the entry of key after the commit of its value.
func written[T any](r mainstem.Receipt, key string, value T, found bool) Entry[T] {
	e := Entry[T]{Key: key, Value: value, Revision: revisionOf(r), Position: r.First, Op: OpCreate, Modified: r.Time}
	if found {
		e.Op = OpUpdate
	}
	return e
}

// modify is Modify without Expires and Metadata in the entry.
func (b *Bucket[T]) modify(ctx context.Context, key string, change func(old T, found bool) (T, error), opts []ValueOption) (Entry[T], error) {
	for attempt := 0; ; attempt++ {
		old, value, err := b.changed(ctx, key, change)
		if err != nil {
			return Entry[T]{}, err
		}
		o := collect(b.valueIf(IfRevision(old.Revision)), opts)
		r, err := b.putNow(ctx, "update", key, value, o)
		if err == nil {
			return written(r, key, value, old.Live()), nil
		}
		if !errors.Is(err, mainstem.ErrConflict) {
			return Entry[T]{}, err
		}
		if err := pause(ctx, attempt); err != nil {
			return Entry[T]{}, err
		}
	}
}

// ModifyTo reads the value of key and adds to batch the write of the result of change, on condition
// that the key is not written meanwhile: otherwise Commit fails with Conflict, and the caller
// builds the batch again. ModifyTo does not see writes of the batch itself, so a key that the batch
// writes already is Invalid. Otherwise it is like [Bucket.Modify]. An error is returned here and by
// Commit.
func (b *Bucket[T]) ModifyTo(ctx context.Context, batch *mainstem.Batch, key string, change func(old T, found bool) (T, error), opts ...ValueOption) error {
	err := b.modifyTo(ctx, batch, key, change, opts)
	if err != nil {
		batch.Fail(err)
	}
	return err
}

func (b *Bucket[T]) modifyTo(ctx context.Context, batch *mainstem.Batch, key string, change func(old T, found bool) (T, error), opts []ValueOption) error {
	writes := batch.Writes()
	for i := range writes {
		if w := &writes[i]; w.Space == b.space && string(w.Key) == key {
			return b.encodeError("modify", key, errors.New("the batch writes the key already: change the value before it is put there"))
		}
	}
	old, value, err := b.changed(ctx, key, change)
	if err != nil {
		return err
	}
	_, err = b.put(batch, nil, "update", key, value, collect(b.valueIf(IfRevision(old.Revision)), opts))
	return err
}

// changed reads the entry of key and returns it together with the result of change for its value.
func (b *Bucket[T]) changed(ctx context.Context, key string, change func(old T, found bool) (T, error)) (old Entry[T], value T, err error) {
	old, err = b.Get(ctx, key)
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		return old, value, err
	}
	value, err = change(old.Value, old.Live())
	return old, value, err
}

// expiry returns when e, which was just written, expires, as Get would report it. It must ask the
// log: a receipt has the time of the commit, not that of the engine's clock.
func (b *Bucket[T]) expiry(ctx context.Context, e *Entry[T], ttl time.Duration) time.Time {
	versions := mainstem.Versions{From: e.Revision, To: e.Revision, Limit: 1}
	for r, err := range b.log.Read(ctx, b.space, []byte(e.Key), versions) {
		if err == nil && r.Position == e.Position && r.Live() {
			return r.Expires
		}
		break
	}
	return e.Modified.Add(ttl)
}

// pauseAfter is the number of attempts before the first pause.
const pauseAfter = 3

// contention is the pause that lets other writers of the key commit.
var contention = backoff.Policy{First: 50 * time.Microsecond, Max: 20 * time.Millisecond, Jitter: 1}

func pause(ctx context.Context, attempt int) error {
	if attempt < pauseAfter {
		return nil
	}
	began := time.Now()
	if contention.Wait(ctx, attempt-pauseAfter+1) {
		return nil
	}
	return mainstem.Ended(ctx, "modify", began, "other writers of the key").WithOutcome(mainstem.NotWritten)
}

// Integer is the constraint of the type of a counter.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Increment atomically adds delta to the counter at key and returns the new value. A key without a
// value counts as 0. A sum out of T's range is Invalid and leaves the counter as it is. The options
// are those of [Bucket.Modify]. If the error says that the outcome is unknown, trying again might
// count twice.
func Increment[T Integer](ctx context.Context, b *Bucket[T], key string, delta T, opts ...ValueOption) (T, error) {
	e, err := b.modify(ctx, key, adder(b, key, delta), opts)
	return e.Value, err
}

// IncrementTo reads the counter at key and adds to batch the write of the sum with delta, with the
// conditions and errors of [Bucket.ModifyTo].
func IncrementTo[T Integer](ctx context.Context, batch *mainstem.Batch, b *Bucket[T], key string, delta T, opts ...ValueOption) error {
	return b.ModifyTo(ctx, batch, key, adder(b, key, delta), opts...)
}

func adder[T Integer](b *Bucket[T], key string, delta T) func(old T, found bool) (T, error) {
	return func(old T, _ bool) (T, error) {
		sum := old + delta
		if (delta > 0) != (sum > old) && delta != 0 {
			return 0, b.encodeError("increment", key, fmt.Errorf("%d + %d is out of range for %T", old, delta, old))
		}
		return sum, nil
	}
}
