package kv

import (
	"context"
	"reflect"

	"github.com/mainstemdev/mainstem"
)

// PutTo adds to batch the write of value to key. Errors are reported by Commit. A []byte value is
// borrowed until Commit has returned; any other value is encoded now.
func (b *Bucket[T]) PutTo(batch *mainstem.Batch, key string, value T, opts ...PutOption) {
	b.putTo(batch, "put", key, value, collect(b.valueIf(Condition{}), opts))
}

// CreateTo adds to batch the write of value to key, on condition that the key has
// no value: otherwise Commit fails with Conflict. It is PutTo with [IfAbsent].
func (b *Bucket[T]) CreateTo(batch *mainstem.Batch, key string, value T, opts ...ValueOption) {
	b.putTo(batch, "create", key, value, collect(b.valueIf(IfAbsent()), opts))
}

// UpdateTo adds to batch the write of value to key, on condition that the key has a
// value and its revision is revision. It is PutTo with [IfRevision].
func (b *Bucket[T]) UpdateTo(batch *mainstem.Batch, key string, value T, revision Revision, opts ...ValueOption) {
	b.putTo(batch, "update", key, value, collect(b.valueIf(IfRevision(revision)), opts))
}

// PutManyTo adds to batch the writes of all pairs, in the order of pairs. The options apply to each
// pair. Values are borrowed and errors reported as by PutTo.
func (b *Bucket[T]) PutManyTo(batch *mainstem.Batch, pairs []Pair[T], opts ...PutOption) {
	s := collect(b.valueIf(Condition{}), opts)
	for i := range pairs {
		b.putTo(batch, "put", pairs[i].Key, pairs[i].Value, s)
	}
}

// DeleteTo adds to batch the deletion of key. It writes nothing if the key has no
// value.
func (b *Bucket[T]) DeleteTo(batch *mainstem.Batch, key string, opts ...DeleteOption) {
	b.endTo(batch, mainstem.OpDelete, key, opts)
}

// PurgeTo adds to batch the deletion of key together with its history. Like DeleteTo it does
// nothing for a key without a value: use [Bucket.Purge] to remove the history of a key that was
// deleted before.
func (b *Bucket[T]) PurgeTo(batch *mainstem.Batch, key string, opts ...DeleteOption) {
	b.endTo(batch, mainstem.OpPurge, key, opts)
}

// ExpectTo adds to batch a condition on key without a write to it, so that the other writes of the
// batch depend on it.
func (b *Bucket[T]) ExpectTo(batch *mainstem.Batch, key string, condition Condition) {
	s := collect(settings{}, []DeleteOption{condition})
	if err := b.check("expect", key, &s); err != nil {
		batch.Fail(err)
		return
	}
	s.addCondition(batch, b.space, []byte(key))
}

// valueIf returns the settings of a write of a value with condition c, empty for none.
func (b *Bucket[T]) valueIf(c Condition) settings {
	return settings{ttl: b.ttl, value: true, condition: c}
}

func (b *Bucket[T]) putTo(batch *mainstem.Batch, op, key string, value T, s settings) {
	if _, err := b.put(batch, nil, op, key, value, s); err != nil {
		batch.Fail(err)
	}
}

// put adds a write of value to batch. It appends the key and the encoded value to buf and returns
// buf, whose bytes the batch borrows.
func (b *Bucket[T]) put(batch *mainstem.Batch, buf []byte, op, key string, value T, s settings) ([]byte, error) {
	if err := b.check(op, key, &s); err != nil {
		return buf, err
	}
	buf, k, val, err := b.encode(buf, key, value)
	if err != nil {
		return buf, b.encodeError(op, key, err)
	}
	b.guard(batch)
	batch.Ensure(b.space, b.policy)
	s.addCondition(batch, b.space, k)
	batch.Add(mainstem.Write{Op: mainstem.OpPut, Space: b.space, Key: k, Value: val, Headers: s.headers, TTL: s.ttl})
	return buf, nil
}

// encode appends key and value to buf and returns their parts of it.
func (b *Bucket[T]) encode(buf []byte, key string, value T) (out, k, v []byte, err error) {
	start := len(buf)
	buf = append(buf, key...)
	end := len(buf)
	if b.bytes {
		return buf, buf[start:end:end], bytesOf(value), nil
	}
	if buf, err = b.codec.Append(buf, value); err != nil {
		return buf, nil, nil, err
	}
	return buf, buf[start:end:end], buf[end:len(buf):len(buf)], nil
}

// bytesOf returns value, a byte slice of some type, without copying: nil stays nil.
func bytesOf[T any](value T) []byte {
	if p, ok := any(&value).(*[]byte); ok {
		return *p
	}
	return reflect.ValueOf(value).Bytes()
}

func (b *Bucket[T]) endTo(batch *mainstem.Batch, op mainstem.Op, key string, opts []DeleteOption) {
	batch.Ensure(b.space, b.policy)
	if err := b.end(batch, op, key, opts); err != nil {
		batch.Fail(err)
	}
}

func (b *Bucket[T]) end(batch *mainstem.Batch, op mainstem.Op, key string, opts []DeleteOption) error {
	s := collect(settings{}, opts)
	if err := b.check(op.String(), key, &s); err != nil {
		return err
	}
	k := []byte(key)
	b.guard(batch)
	s.addCondition(batch, b.space, k)
	batch.Add(mainstem.Write{Op: op, Space: b.space, Key: k, Headers: s.headers})
	return nil
}

// check returns why key cannot be written with s, or nil.
func (b *Bucket[T]) check(op, key string, s *settings) error {
	if err := validateKey(op, b.space, key); err != nil {
		return notWritten(err)
	}
	if s.err != nil {
		return b.encodeError(op, key, s.err)
	}
	return nil
}

// guard makes batch depend on the table having no index, since this write would not maintain one.
// The condition costs almost nothing: without an index, the space of the condition does not exist.
// It is not enough to check when the bucket is opened, since an index may be declared later.
func (b *Bucket[T]) guard(batch *mainstem.Batch) {
	b.catalog.addCondition(batch, 0)
	batch.ExplainWith(b)
}

// ExplainConflict implements [mainstem.Explainer]: it returns an [*IndexedError] if the table has an index.
func (b *Bucket[T]) ExplainConflict(ctx context.Context, _ *mainstem.Batch, conflict *mainstem.Error) error {
	if conflict.Space != b.catalog.space || string(conflict.Key) != keyDeclared || conflict.Want.Test != mainstem.TestAbsent {
		return nil
	}
	e := &IndexedError{Table: b.Name(), conflict: conflict}
	if d, _, err := b.catalog.read(ctx, b.log); err == nil {
		for i := range d.Indexes {
			e.Indexes = append(e.Indexes, d.Indexes[i].Name)
		}
	}
	return e
}
