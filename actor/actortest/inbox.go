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

// Inbox holds what came and was not looked at yet, in the order in which it came. A
// [Probe] has one; [Watch] and [DeadLetters] return one. Things may come from any
// goroutine, but only one at a time may wait for them.
type Inbox[T any] struct {
	t    testing.TB
	name string

	mu   sync.Mutex // guards got
	got  []T
	bell chan struct{} // of capacity 1: something came
}

func newInbox[T any](t testing.TB, name string) *Inbox[T] {
	return &Inbox[T]{t: t, name: name, bell: make(chan struct{}, 1)}
}

func (b *Inbox[T]) add(v T) {
	b.mu.Lock()
	b.got = append(b.got, v)
	b.mu.Unlock()
	select {
	case b.bell <- struct{}{}:
	default:
	}
}

// await calls look with what is there, and again whenever something came, until it
// returns true. It reports whether that was within d.
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

// Next waits for the next one and returns it.
func (b *Inbox[T]) Next() T {
	b.t.Helper()
	v, ok := b.next()
	if !ok {
		b.t.Fatalf("%s: nothing came within %s", b.name, patience())
	}
	return v
}

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

// Expect waits for as many as it is given, and fails the test if they are others or
// come in another order. Later values stay for later calls.
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

// ExpectSet waits for as many as it is given, and fails the test if they are others; their
// order does not matter.
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

// Find waits for the first for which ok returns true and returns it. Those before it
// are dropped.
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

// ExpectNone fails the test if something is there or comes within d. Outside of
// virtual time that takes d.
func (b *Inbox[T]) ExpectNone(d time.Duration) {
	b.t.Helper()
	var got []T
	if b.await(d, func() bool { got = slices.Clone(b.got); return len(got) > 0 }) {
		b.t.Fatalf("%s: got %s, want nothing", b.name, showAll(got))
	}
}

// All returns what is there, without waiting.
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
