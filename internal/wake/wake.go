// Package wake holds waiters by key, so that a change of a key wakes the waiters of that key and no
// others. The key is, for instance, the space whose records a waiter of a [Set] waits for. A waiter
// is any comparable value; the simplest is a channel of capacity 1, which [Signal] sends to:
//
//	c := make(chan struct{}, 1)
//	set.Add(c, []string{"kv/app/users"})
//	defer set.Remove(c, []string{"kv/app/users"})
//	// read the state here: it has every change before Add; later changes are signaled
//	<-c
//
// # Concurrency
//
// The methods of a Set may be called from many goroutines. Functions given to Wake and WakeAll run
// under the lock of the Set: they must not block nor call the Set.
//
//snippet:var set *wake.Set[string, chan<- struct{}]
package wake

import (
	"sync"
	"sync/atomic"
)

// Set holds waiters of type W by keys of type K. The zero Set is empty and ready.
type Set[K, W comparable] struct {
	count atomic.Int64 // calls of Add without one of Remove. If it is 0, Wake takes no lock
	mu    struct {
		sync.Mutex
		byKey map[K]map[W]struct{} // no set in it is empty
		all   map[W]struct{}       // waiters for every key
	}
}

// Add adds a waiter for some keys; nil stands for every key.
func (s *Set[K, W]) Add(w W, keys []K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count.Add(1)
	if keys == nil {
		if s.mu.all == nil {
			s.mu.all = map[W]struct{}{}
		}
		s.mu.all[w] = struct{}{}
	}
	for _, k := range keys {
		if s.mu.byKey == nil {
			s.mu.byKey = map[K]map[W]struct{}{}
		}
		if s.mu.byKey[k] == nil {
			s.mu.byKey[k] = map[W]struct{}{}
		}
		s.mu.byKey[k][w] = struct{}{}
	}
}

// Remove removes a waiter that was added with the same keys.
func (s *Set[K, W]) Remove(w W, keys []K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count.Add(-1)
	if keys == nil {
		delete(s.mu.all, w)
	}
	for _, k := range keys {
		delete(s.mu.byKey[k], w)
		if len(s.mu.byKey[k]) == 0 {
			delete(s.mu.byKey, k)
		}
	}
}

// Len returns the number of waiters: of calls of Add without one of Remove.
func (s *Set[K, W]) Len() int { return int(s.count.Load()) }

// Wake calls signal with each waiter of k and each that waits for every key.
func (s *Set[K, W]) Wake(k K, signal func(W)) {
	if s.count.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.mu.byKey[k] {
		signal(w)
	}
	for w := range s.mu.all {
		signal(w)
	}
}

// WakeAll calls signal with each waiter and a key that it waits for, which is the zero K if it
// waits for every key. It does so once for each of the waiter's keys.
func (s *Set[K, W]) WakeAll(signal func(K, W)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, ws := range s.mu.byKey {
		for w := range ws {
			signal(k, w)
		}
	}
	var every K
	for w := range s.mu.all {
		signal(every, w)
	}
}

// Signal sends to c, which has capacity 1, unless c holds a signal already. It never blocks.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
