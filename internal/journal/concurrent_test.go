package journal_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/journal"
)

// TestConcurrent lets writers of all durabilities, readers, truncations and erasures run
// at the same time.
func TestConcurrent(t *testing.T) {
	fs := vfs.NewMem()
	j := open(t, fs, small())
	const writers, each = 8, 300
	var writing, others sync.WaitGroup
	var stop atomic.Bool
	for w := range writers {
		writing.Go(func() {
			durability := []mainstem.Durability{mainstem.Fsync, mainstem.OS, mainstem.Interval(time.Millisecond)}[w%3]
			var before mainstem.Position
			for i := range each {
				p, err := j.Commit(durability, journal.Frame{Count: 1, Effects: fmt.Appendf(nil, "%d/%d/%0200d", w, i, i)})
				if err != nil || p <= before {
					t.Errorf("writer %d: position %d after %d, %v", w, p, before, err)
					return
				}
				if before = p; durability == mainstem.Fsync && j.Durable() < p {
					t.Errorf("writer %d: position %d is not durable", w, p)
				}
			}
		})
	}
	next := make([]int, writers)
	others.Go(func() { // the store: it takes every frame once, in order
		var at mainstem.Position
		for last := false; !last; {
			last = stop.Load()
			for f, err := range j.Read(at + 1) {
				if err != nil {
					t.Error(err)
					return
				}
				var w, i int
				if _, err := fmt.Sscanf(string(f.Effects), "%d/%d/", &w, &i); err != nil || f.First != at+1 || next[w] != i {
					t.Errorf("frame %q at %d after %d, want number %d of that writer", f.Effects, f.First, at, next[w])
					return
				}
				next[w]++
				at = f.First
			}
			if err := j.TruncateFront(min(at, j.Durable())); err != nil {
				t.Error(err)
			}
		}
	})
	others.Go(func() {
		for !stop.Load() {
			_ = j.Erase(j.Stats().First)
			if s := j.Stats(); s.Durable > s.Written {
				t.Errorf("%+v", s)
			}
		}
	})
	writing.Wait()
	stop.Store(true)
	others.Wait()
	if t.Failed() {
		return
	}
	for w, n := range next {
		if n != each {
			t.Errorf("%d frames of writer %d, want %d", n, w, each)
		}
	}
}
