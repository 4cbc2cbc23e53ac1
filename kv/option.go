package kv

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

// PutOption changes one [Bucket.Put] or one of its kind: a [TTL], [Metadata], or one
// [Condition].
type PutOption interface{ putOption() }

// ValueOption changes one [Bucket.Create], [Bucket.Update] or [Bucket.Modify], which
// make their own condition: a [TTL] or [Metadata].
type ValueOption interface {
	PutOption
	valueOption()
}

// DeleteOption changes one [Bucket.Delete] or [Bucket.Purge]: [Metadata], or one
// [Condition].
type DeleteOption interface{ deleteOption() }

// TTL makes the value expire that long after its commit, instead of the bucket's
// [Options.TTL]; 0 means never. Every write of a key starts a new time to live.
type TTL time.Duration

// Metadata travels with the record and comes back as [Entry.Metadata]; at most
// mainstem.MaxHeaders names. Names that begin with "kv:" are Invalid.
type Metadata map[string]string

// Condition is what must hold of a key, or nothing of the batch is written. It is made
// by [IfAbsent], [IfExists] or [IfRevision]; a write takes one at most.
type Condition struct {
	test     test
	revision Revision // of testRevision
}

type test uint8

const (
	testAbsent test = iota + 1
	testExists
	testRevision
)

func (TTL) putOption()          {}
func (TTL) valueOption()        {}
func (Metadata) putOption()     {}
func (Metadata) valueOption()   {}
func (Metadata) deleteOption()  {}
func (Condition) putOption()    {}
func (Condition) deleteOption() {}

// IfAbsent demands that the key has no value: never written, deleted or expired.
func IfAbsent() Condition { return Condition{test: testAbsent} }

// IfExists demands that the key has a value.
func IfExists() Condition { return Condition{test: testExists} }

// IfRevision demands that the key has a value and that its newest revision is r.
// IfRevision(0) is IfAbsent.
func IfRevision(r Revision) Condition {
	if r == 0 {
		return IfAbsent()
	}
	return Condition{test: testRevision, revision: r}
}

// settings are the options of one write, put together.
type settings struct {
	condition Condition
	ttl       time.Duration
	headers   mainstem.Headers
	value     bool  // the write is of a value, not a tombstone
	err       error // why the options cannot be used
}

// collect adds opts to s. They are distinguished by a type switch and not by methods of
// their own, so that options and settings stay on the stack of the caller.
func collect[O any](s settings, opts []O) settings {
	for i := range opts {
		if err := s.add(opts[i]); err != nil && s.err == nil {
			s.err = err
		}
	}
	if s.condition.test == testAbsent && s.value {
		if len(s.headers) == 0 {
			s.headers = onlyNew
		} else {
			s.headers = append(s.headers, mainstem.Header{Name: headerNew})
		}
	}
	return s
}

// onlyNew is the headers of most values that are created. It has no room, so that an append to it copies.
var onlyNew = slices.Clip(mainstem.Headers{{Name: headerNew}})

func (s *settings) add(option any) error {
	switch o := option.(type) {
	case TTL:
		if o < 0 {
			return fmt.Errorf("TTL is %v: want 0 (never) or more", time.Duration(o))
		}
		s.ttl = time.Duration(o)
	case Metadata:
		return s.addMetadata(o)
	case Condition:
		if o.test == 0 {
			return errors.New("the condition is empty: make it with IfAbsent, IfExists or IfRevision")
		}
		if s.condition.test != 0 {
			return errors.New("a write takes one condition, not two")
		}
		s.condition = o
	default:
		return errors.New("an option is nil: leave it out")
	}
	return nil
}

func (s *settings) addMetadata(m Metadata) error {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if strings.HasPrefix(name, reservedHeader) {
			return fmt.Errorf("the metadata name %q begins with %q, which is reserved", name, reservedHeader)
		}
		s.headers = append(s.headers, mainstem.Header{Name: name, Value: []byte(m[name])})
	}
	return nil
}

// addCondition adds the condition of s to batch.
func (s *settings) addCondition(batch *mainstem.Batch, space string, key []byte) {
	switch s.condition.test {
	case testAbsent:
		batch.IfAbsent(space, key)
	case testExists:
		batch.IfExists(space, key)
	case testRevision:
		batch.IfVersion(space, key, s.condition.revision)
		batch.IfExists(space, key) // the revision may be that of a tombstone, or have expired
	}
}
