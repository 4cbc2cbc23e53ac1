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

// PutOption is an option of [Bucket.Put] and the other writes of values without a condition of
// their own: a [TTL], [Metadata], or one [Condition].
type PutOption interface{ putOption() }

// ValueOption is an option of [Bucket.Create], [Bucket.Update] and [Bucket.Modify], which have
// their own condition: a [TTL] or [Metadata].
type ValueOption interface {
	PutOption
	valueOption()
}

// DeleteOption is an option of [Bucket.Delete] and [Bucket.Purge]: [Metadata], or one [Condition].
type DeleteOption interface{ deleteOption() }

// TTL is the time after its commit at which the value expires, in place of the bucket's
// [Options.TTL]; 0 means never. Every write of a key starts a new time to live.
type TTL time.Duration

// Metadata is stored with the record and returned as [Entry.Metadata]. It has at most
// mainstem.MaxHeaders names. Names that begin with "kv:" are Invalid.
type Metadata map[string]string

// Condition is a condition on a key; if it does not hold, nothing of the batch is written. It is
// made by [IfAbsent], [IfExists] or [IfRevision]; a write takes at most one.
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

// IfAbsent is the condition that the key has no value: it was never written, was deleted, or has
// expired.
func IfAbsent() Condition { return Condition{test: testAbsent} }

// IfExists is the condition that the key has a value.
func IfExists() Condition { return Condition{test: testExists} }

// IfRevision is the condition that the key has a value and that its newest revision is r.
// IfRevision(0) is IfAbsent.
func IfRevision(r Revision) Condition {
	if r == 0 {
		return IfAbsent()
	}
	return Condition{test: testRevision, revision: r}
}

// settings combines the options of one write.
type settings struct {
	condition Condition
	ttl       time.Duration
	headers   mainstem.Headers
	value     bool  // the write is of a value, not a tombstone
	err       error // why the options cannot be used
}

// collect adds opts to s. A type switch, unlike methods of the options, keeps options and settings
// on the caller's stack.
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

// onlyNew is the headers of most values that are created. It has no spare capacity, so that an
// append to it copies.
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
		batch.IfExists(space, key) // because the revision may be that of a tombstone, or have expired
	}
}
