package kafka

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Requests that each hold a part of the memory and need the rest all get on.
func TestMemoryIsNotDeadlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 10 * freeFrame
		m := newMemory(size)
		s := &Server{o: Options{WriteTimeout: time.Second}, ctx: t.Context()}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				var h hold
				defer m.give(&h)
				for n := 2 * freeFrame; n <= size; n *= 2 {
					if err := m.take(s, n, &h); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		all.Wait()
		if m.mu.free != size || m.mu.over != nil {
			t.Errorf("%d of %d bytes are free afterwards", m.mu.free, size)
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 100 * freeFrame
		m := newMemory(size)
		s := &Server{o: Options{WriteTimeout: time.Second}, ctx: t.Context()}
		var free, first, beyond, late hold
		for h, n := range map[*hold]int{&free: freeFrame, &first: size} {
			if err := m.take(s, n, h); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.take(s, size, &beyond); err != nil { // one may
			t.Fatal(err)
		}
		begin := time.Now()
		if err := m.take(s, 2*freeFrame, &late); err == nil || time.Since(begin) != time.Second {
			t.Errorf("a second went beyond the limit, after %s: %v", time.Since(begin), err)
		}
		m.give(&beyond)
		if err := m.take(s, 2*freeFrame, &late); err != nil {
			t.Error(err)
		}
		m.give(&late)
		m.give(&first)
		m.give(&free)
		if m.mu.free != size {
			t.Errorf("%d of %d bytes are free afterwards", m.mu.free, size)
		}
	})
}
