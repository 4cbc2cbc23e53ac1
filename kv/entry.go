package kv

import (
	"bytes"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Revision numbers the writes to a key, deletions included: 1, 2, 3 and so on. Revisions of a key
// never repeat, not even after it was deleted. A revision is the version of the record in the log.
type Revision = mainstem.Version

// Op is the effect of a write on its key.
type Op uint8

// The operations.
//
// OpCreate and OpUpdate are told apart with certainty for revision 1, for writes with a condition
// on it ([Bucket.Create], [Bucket.Update], [IfAbsent] and their like), in [Bucket.History] from the
// second entry on, and where the comment of [Bucket.Watch] says so. Elsewhere a value is reported
// as an update.
const (
	OpNone   Op = iota // there is no record, for a key that GetMany did not find
	OpCreate           // gave a value to a key that had none
	OpUpdate           // replaced the value of a key
	OpDelete           // removed the value
	OpPurge            // removed the value and all older revisions
	OpExpire           // the value's time to live ran out
	OpSynced           // not a write: the marker of Watch between current values and changes
)

var opNames = [...]string{"none", "create", "update", "delete", "purge", "expire", "synced"}

// String returns the operation's name in lower case.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return "unknown op"
}

// Entry is one revision of a key. It belongs to the caller that received it.
type Entry[T any] struct {
	Key      string
	Value    T // the zero T if the entry is not live, or its value was not requested
	Revision Revision
	Position mainstem.Position // place in the order of the whole log
	Op       Op
	Modified time.Time         // commit time, by the engine's clock
	Expires  time.Time         // zero: never
	Metadata map[string]string // given by the writer with [Metadata]; nil if none
}

// Live reports whether the entry is a value rather than a tombstone, a marker or
// a key that was not found.
func (e Entry[T]) Live() bool { return e.Op == OpCreate || e.Op == OpUpdate }

// Names of headers that begin with reservedHeader belong to this package.
const (
	reservedHeader = "kv:"
	// headerNew marks a value that certainly created its key.
	headerNew = reservedHeader + "new"
)

// opOf returns the effect of r, as far as r alone shows it.
func opOf(r *mainstem.Record) Op {
	switch r.Tombstone {
	case mainstem.Deleted:
		return OpDelete
	case mainstem.Purged:
		return OpPurge
	case mainstem.Expired:
		return OpExpire
	}
	if r.First() == 1 {
		return OpCreate
	}
	if _, ok := r.Headers.Get(headerNew); ok {
		return OpCreate
	}
	return OpUpdate
}

// loan says who owns the bytes of a record, and whether its value is needed.
type loan uint8

const (
	owned    loan = iota // the record's bytes belong to this package
	lent                 // the bytes must be copied
	metaOnly             // the bytes must be copied, and the value is not needed
)

// entry turns r into an entry. If the value cannot be decoded it returns the rest of the entry with
// the error.
func (b *Bucket[T]) entry(op, key string, r *mainstem.Record, did Op, l loan) (Entry[T], error) {
	e := Entry[T]{
		Key: key, Revision: r.Version, Position: r.Position, Op: did,
		Modified: r.Time, Expires: r.Expires, Metadata: metadataOf(r.Headers),
	}
	if l == metaOnly || !r.Live() {
		return e, nil
	}
	var err error
	if e.Value, err = b.value(r.Value, l); err != nil {
		return e, b.decodeError(op, r, err)
	}
	return e, nil
}

// value decodes stored bytes into a T. Bytes and strings stored without a codec, the most common
// values, cost only the allocation of the result.
func (b *Bucket[T]) value(src []byte, l loan) (T, error) {
	var v T
	if b.raw {
		switch p := any(&v).(type) {
		case *[]byte:
			if *p = src; l != owned {
				*p = bytes.Clone(src)
			}
			return v, nil
		case *string:
			*p = string(src)
			return v, nil
		}
	}
	return b.decode(src)
}

func (b *Bucket[T]) decode(src []byte) (T, error) {
	var v, zero T
	if err := b.codec.Decode(src, &v); err != nil {
		return zero, err
	}
	return v, nil
}

func metadataOf(h mainstem.Headers) map[string]string {
	var m map[string]string
	for i := range h {
		if len(h[i].Name) >= len(reservedHeader) && h[i].Name[:len(reservedHeader)] == reservedHeader {
			continue
		}
		if m == nil {
			m = make(map[string]string, len(h))
		}
		if _, ok := m[h[i].Name]; !ok {
			m[h[i].Name] = string(h[i].Value)
		}
	}
	return m
}
