package kv

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

// WriteOption changes one write. See [TTL], [Metadata], [IfAbsent], [IfExists]
// and [IfRevision].
type WriteOption struct {
	kind     optionKind
	ttl      time.Duration
	revision Revision
	metadata map[string]string
}

type optionKind uint8

const (
	optTTL optionKind = 1 << iota
	optMetadata
	optAbsent
	optExists
	optRevision

	optConditions = optAbsent | optExists | optRevision
	optAll        = optTTL | optMetadata | optConditions
)

// TTL makes the value expire d after its commit, instead of the bucket's
// [Options.TTL]; 0 means never. Every write of a key starts a new time to live.
func TTL(d time.Duration) WriteOption { return WriteOption{kind: optTTL, ttl: d} }

// Metadata travels with the record and comes back as [Entry.Metadata]; at most
// mainstem.MaxHeaders names. Names that begin with "kv:" are Invalid.
func Metadata(m map[string]string) WriteOption {
	return WriteOption{kind: optMetadata, metadata: m}
}

// IfAbsent demands that the key has no value: never written, deleted or expired.
func IfAbsent() WriteOption { return WriteOption{kind: optAbsent} }

// IfExists demands that the key has a value.
func IfExists() WriteOption { return WriteOption{kind: optExists} }

// IfRevision demands that the key has a value and that its newest revision is r.
// IfRevision(0) is IfAbsent.
func IfRevision(r Revision) WriteOption {
	if r == 0 {
		return IfAbsent()
	}
	return WriteOption{kind: optRevision, revision: r}
}

// verb is a kind of write, and the options it takes.
type verb struct {
	name      string
	allowed   optionKind
	condition optionKind // the one it makes itself, if any
	revision  Revision   // optRevision
	value     bool       // it writes a value, not a tombstone
}

var (
	putVerb    = verb{name: "put", allowed: optAll, value: true}
	createVerb = verb{name: "create", allowed: optTTL | optMetadata, condition: optAbsent, value: true}
	expectVerb = verb{name: "expect", allowed: optConditions}
)

func updateVerb(r Revision) verb {
	o := IfRevision(r)
	return verb{name: "update", allowed: optTTL | optMetadata, condition: o.kind, revision: r, value: true}
}

func endVerb(op mainstem.Op) verb {
	return verb{name: op.String(), allowed: optMetadata | optConditions}
}

// settings are the options of one write, put together.
type settings struct {
	condition optionKind // 0, optAbsent, optExists or optRevision
	revision  Revision
	ttl       time.Duration
	headers   mainstem.Headers
}

// settle checks key and puts opts together.
func (b *Bucket[T]) settle(v verb, key string, opts []WriteOption) (settings, error) {
	s := settings{ttl: b.ttl, condition: v.condition, revision: v.revision}
	if err := validateKey(v.name, b.space, key); err != nil {
		return s, notWritten(err)
	}
	for i := range opts {
		if err := s.add(v, &opts[i]); err != nil {
			return s, b.encodeError(v.name, key, err)
		}
	}
	if s.condition == optAbsent && v.value {
		s.headers = append(s.headers, mainstem.Header{Name: headerNew})
	}
	return s, nil
}

func (s *settings) add(v verb, o *WriteOption) error {
	switch {
	case o.kind&v.allowed == 0 && o.kind&optConditions != 0:
		return fmt.Errorf("%s makes its own condition and takes no other", v.name)
	case o.kind&v.allowed == 0:
		return fmt.Errorf("%s takes no such option: see its documentation", v.name)
	case o.kind&optConditions != 0 && s.condition != 0:
		return fmt.Errorf("%s takes one condition, not two", v.name)
	case o.kind == optTTL && o.ttl < 0:
		return fmt.Errorf("TTL is %v: want 0 (never) or more", o.ttl)
	}
	switch o.kind {
	case optTTL:
		s.ttl = o.ttl
	case optMetadata:
		return s.addMetadata(o.metadata)
	default:
		s.condition, s.revision = o.kind, o.revision
	}
	return nil
}

func (s *settings) addMetadata(m map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if strings.HasPrefix(name, reservedHeader) {
			return fmt.Errorf("the metadata name %q begins with %q, which is reserved", name, reservedHeader)
		}
		s.headers = append(s.headers, mainstem.Header{Name: name, Value: []byte(m[name])})
	}
	return nil
}

// demand adds the condition of s to batch.
func (s *settings) demand(batch *mainstem.Batch, space string, key []byte) {
	switch s.condition {
	case optAbsent:
		batch.IfAbsent(space, key)
	case optExists:
		batch.IfExists(space, key)
	case optRevision:
		batch.IfVersion(space, key, s.revision)
		batch.IfExists(space, key) // the revision may be that of a tombstone, or have expired
	}
}

// PutTo adds to batch the write of value to key. Mistakes are reported by Commit.
// A []byte value is borrowed until Commit has returned; any other is encoded now.
func (b *Bucket[T]) PutTo(batch *mainstem.Batch, key string, value T, opts ...WriteOption) {
	if _, err := b.put(batch, nil, putVerb, key, value, opts); err != nil {
		batch.Fail(err)
	}
}

// DeleteTo adds to batch the deletion of key. It writes nothing if the key has no
// value. It takes metadata and a condition, but no TTL.
func (b *Bucket[T]) DeleteTo(batch *mainstem.Batch, key string, opts ...WriteOption) {
	batch.Ensure(b.space, b.policy)
	if err := b.end(batch, mainstem.OpDelete, key, opts); err != nil {
		batch.Fail(err)
	}
}

// PurgeTo adds to batch the deletion of key together with its history. Like
// Delete, which says what it takes, it does nothing to a key without a value:
// the history of a key that was deleted before is left to [Bucket.Purge].
func (b *Bucket[T]) PurgeTo(batch *mainstem.Batch, key string, opts ...WriteOption) {
	batch.Ensure(b.space, b.policy)
	if err := b.end(batch, mainstem.OpPurge, key, opts); err != nil {
		batch.Fail(err)
	}
}

// ExpectTo adds to batch the condition alone, without a write to key: what else
// the batch does depends on it.
func (b *Bucket[T]) ExpectTo(batch *mainstem.Batch, key string, condition WriteOption) {
	s, err := b.settle(expectVerb, key, []WriteOption{condition})
	if err != nil {
		batch.Fail(err)
		return
	}
	s.demand(batch, b.space, []byte(key))
}

// put adds a write of value to batch. Key and encoded value are appended to buf,
// which it returns: the batch borrows them.
func (b *Bucket[T]) put(batch *mainstem.Batch, buf []byte, v verb, key string, value T, opts []WriteOption) ([]byte, error) {
	s, err := b.settle(v, key, opts)
	if err != nil {
		return buf, err
	}
	buf, k, val, err := b.encode(buf, key, value)
	if err != nil {
		return buf, b.encodeError(v.name, key, err)
	}
	batch.Ensure(b.space, b.policy)
	s.demand(batch, b.space, k)
	batch.Add(mainstem.Write{Op: mainstem.OpPut, Space: b.space, Key: k, Value: val, Headers: s.headers, TTL: s.ttl})
	return buf, nil
}

// encode appends key and value to buf and returns where they are.
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

func (b *Bucket[T]) end(batch *mainstem.Batch, op mainstem.Op, key string, opts []WriteOption) error {
	s, err := b.settle(endVerb(op), key, opts)
	if err != nil {
		return err
	}
	k := []byte(key)
	s.demand(batch, b.space, k)
	batch.Add(mainstem.Write{Op: op, Space: b.space, Key: k, Headers: s.headers})
	return nil
}
