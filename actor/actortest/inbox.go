package actortest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Inbox is a queue of values that came for a test: the messages of a [Probe], the ends of [Watch],
// or the dead letters of [DeadLetters]. Its methods take values from the front. They are for one
// goroutine at a time, that of the test. Next, Expect, ExpectSet and Find fail the test if a value
// does not come within the time limit ([Patience]).
type Inbox[T any] struct {
	t    testing.TB
	name string // for failures

	mu   sync.Mutex    // guards got
	got  []T           // values that were not taken, in the order in which they came
	bell chan struct{} // of capacity 1: not empty if a value came since await looked at got
}

func newInbox[T any](t testing.TB, name string) *Inbox[T] {
	return &Inbox[T]{t: t, name: name, bell: make(chan struct{}, 1)}
}

// add appends a value. Any goroutine may call it.
func (b *Inbox[T]) add(v T) {
	b.mu.Lock()
	b.got = append(b.got, v)
	b.mu.Unlock()
	select {
	case b.bell <- struct{}{}:
	default:
	}
}

// await calls look, which may use b.got, now and whenever a value came, until it returns true. It
// returns false if look has not returned true within d.
func (b *Inbox[T]) await(d time.Duration, look func() bool) bool {
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	for {
		b.mu.Lock()
		ok := look()
		b.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-b.bell:
		case <-timeout.C:
			return false
		}
	}
}

// Next waits for the next value and returns it.
func (b *Inbox[T]) Next() T {
	b.t.Helper()
	v, ok := b.next()
	if !ok {
		b.t.Fatalf("%s: nothing came within %s", b.name, patience())
	}
	return v
}

// next is Next without the failure.
func (b *Inbox[T]) next() (v T, ok bool) {
	ok = b.await(patience(), func() bool {
		if len(b.got) == 0 {
			return false
		}
		v = b.got[0]
		b.got = slices.Delete(b.got, 0, 1)
		return true
	})
	return v, ok
}

// Expect waits for as many values as it is given, and fails the test if they are others or come in
// another order. Later values stay in the Inbox.
func (b *Inbox[T]) Expect(want ...T) {
	b.t.Helper()
	for i, w := range want {
		got, ok := b.next()
		switch {
		case !ok:
			b.t.Fatalf("%s: nothing came within %s, want %s, number %d of %d", b.name, patience(), show(w), i+1, len(want))
		case !reflect.DeepEqual(got, w):
			b.t.Fatalf("%s: got %s, want %s, number %d of %d", b.name, show(got), show(w), i+1, len(want))
		}
	}
}

// ExpectSet waits for as many values as it is given, and fails the test if they are others. Their
// order does not matter. Later values stay in the Inbox.
func (b *Inbox[T]) ExpectSet(want ...T) {
	b.t.Helper()
	left := slices.Clone(want)
	for range want {
		got, ok := b.next()
		if !ok {
			b.t.Fatalf("%s: nothing came within %s, want also %s", b.name, patience(), showAll(left))
			return
		}
		i := slices.IndexFunc(left, func(w T) bool { return reflect.DeepEqual(got, w) })
		if i < 0 {
			b.t.Fatalf("%s: got %s, want one of %s", b.name, show(got), showAll(left))
			return
		}
		left = slices.Delete(left, i, i+1)
	}
}

// Find waits for the first value for which ok returns true and returns it. The values before it are
// dropped.
func (b *Inbox[T]) Find(ok func(T) bool) T {
	b.t.Helper()
	var found T
	var passed []T
	if !b.await(patience(), func() bool {
		for i, v := range b.got {
			if ok(v) {
				found = v
				b.got = slices.Delete(b.got, 0, i+1)
				return true
			}
		}
		passed = append(passed, b.got...)
		b.got = nil
		return false
	}) {
		b.t.Fatalf("%s: none that was looked for came within %s, only %s", b.name, patience(), showAll(passed))
	}
	return found
}

// ExpectNone fails the test if a value is there or comes within d, for which it waits.
func (b *Inbox[T]) ExpectNone(d time.Duration) {
	b.t.Helper()
	var got []T
	if b.await(d, func() bool { got = slices.Clone(b.got); return len(got) > 0 }) {
		b.t.Fatalf("%s: got %s, want nothing", b.name, showAll(got))
	}
}

// All takes all values that are there, without waiting. The slice is the caller's.
func (b *Inbox[T]) All() []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.got
	b.got = nil
	return all
}

func show(v any) string { return fmt.Sprintf("%T %+v", v, v) }

func showAll[T any](vs []T) string {
	var parts []string
	for _, v := range vs {
		parts = append(parts, show(v))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}
