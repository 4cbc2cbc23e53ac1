package wake

import (
	"slices"
	"sync"
	"testing"
)

func TestSet(t *testing.T) {
	var s Set[string, int]
	woken := func(k string) []int {
		var out []int
		s.Wake(k, func(w int) { out = append(out, w) })
		slices.Sort(out)
		return out
	}
	want := func(k string, want ...int) {
		t.Helper()
		if got := woken(k); !slices.Equal(got, want) {
			t.Errorf("%q wakes %v, want %v", k, got, want)
		}
	}
	want("a")
	s.Add(1, []string{"a"})
	s.Add(2, []string{"a", "b"})
	s.Add(3, nil)
	s.Add(4, []string{})
	want("a", 1, 2, 3)
	want("b", 2, 3)
	want("c", 3)
	if n := s.Len(); n != 4 {
		t.Errorf("%d waiters, want 4", n)
	}
	all := map[int]int{}
	s.WakeAll(func(_ string, w int) { all[w]++ })
	if all[1] != 1 || all[2] != 2 || all[3] != 1 || all[4] != 0 {
		t.Errorf("WakeAll signals %v, want each waiter once for each of its keys", all)
	}
	s.Remove(2, []string{"a", "b"})
	s.Remove(3, nil)
	want("a", 1)
	want("b")
	s.Remove(1, []string{"a"})
	s.Remove(4, []string{})
	if len(s.mu.byKey) != 0 || len(s.mu.all) != 0 || s.Len() != 0 {
		t.Errorf("what is left without waiters: %v and %v, count %d", s.mu.byKey, s.mu.all, s.Len())
	}
}

// A change after Add is not missed, whatever runs at the same time.
func TestNothingIsMissed(t *testing.T) {
	var s Set[int, chan<- struct{}]
	var wg sync.WaitGroup
	for k := range 4 {
		var mu sync.Mutex
		state := 0
		wg.Go(func() {
			for i := range 1000 {
				mu.Lock()
				state = i + 1
				mu.Unlock()
				s.Wake(k, Signal)
			}
		})
		wg.Go(func() {
			c := make(chan struct{}, 1)
			s.Add(c, []int{k})
			defer s.Remove(c, []int{k})
			for {
				mu.Lock()
				done := state == 1000
				mu.Unlock()
				if done {
					return
				}
				<-c
			}
		})
	}
	wg.Wait()
}
