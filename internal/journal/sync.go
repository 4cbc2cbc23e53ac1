package journal

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wake"
)

// syncs lets one goroutine at a time sync, for all that wait. The first to need a sync
// makes it itself, so that a lone committer pays for no hand-over. Those that come
// meanwhile wait; when it is done all of them look, and one of those whose frames it
// did not cover makes the next.
type syncs struct {
	done atomic.Int64 // successful syncs
	mu   struct {
		sync.Mutex
		ended   sync.Cond // a sync has; its lock is the Mutex
		running bool      // somebody syncs, or changes the newest segment
		waiting int       // goroutines
		crowded bool      // goroutines waited when the last sync ended
	}
}

// Sync returns when every frame up to position p is on stable storage, together with all
// before it. Once a sync has failed the journal takes no more frames and syncs nothing
// more: the error is Unavailable with unknown outcome for all frames that were not on
// stable storage by then. A p that was not written is Invalid.
func (j *Journal) Sync(p mainstem.Position) error {
	if j.durable.Load() >= uint64(p) {
		return nil
	}
	if w := j.written.Load(); uint64(p) > w {
		return mainstem.Refusef(mainstem.KindInvalid, "sync journal", "position %d, the last written is %d", p, w).WithHint("sync a position that Append has returned")
	}
	s := &j.syncs
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if j.durable.Load() >= uint64(p) {
			return nil
		}
		if f := j.failure.Load(); f != nil {
			return f.unknown()
		}
		if s.mu.running {
			s.mu.waiting++
			s.mu.ended.Wait()
			s.mu.waiting--
			continue
		}
		s.mu.running = true
		crowded := s.mu.crowded
		s.mu.Unlock()
		if crowded {
			// Those that the last sync woke are about to append. If they may do so first,
			// this sync covers their frames, which takes a third or more off the time of a
			// commit with 8 or 32 writers (BenchmarkAppend).
			runtime.Gosched()
		}
		j.syncCurrent()
		s.mu.Lock()
		s.mu.running, s.mu.crowded = false, s.mu.waiting > 0
		s.mu.ended.Broadcast()
	}
}

// acquire waits until nobody syncs, and keeps others from it until release.
func (s *syncs) acquire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.mu.running {
		s.mu.ended.Wait()
	}
	s.mu.running = true
}

func (s *syncs) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.running = false
	s.mu.ended.Broadcast()
}

// syncCurrent syncs the newest segment. The caller is the one that may.
func (j *Journal) syncCurrent() *failedWrite {
	seg := j.current.Load()
	if seg == nil {
		return nil
	}
	if f := j.failure.Load(); f != nil {
		return f
	}
	// In this order: what last covers is written before end covers it.
	last, end := seg.last.Load(), seg.end.Load()
	from := seg.stable.Load()
	if end == from {
		return nil
	}
	if err := seg.file.SyncData(); err != nil {
		return j.fail(&failedWrite{path: seg.path, off: from, err: err})
	}
	seg.stable.Store(end)
	j.durable.Store(last)
	j.syncs.done.Add(1)
	return nil
}

// SyncWithin has everything that is written by now synced in the background, at most d
// from now. A failure stops the journal; see [Journal.Err].
func (j *Journal) SyncWithin(d time.Duration) {
	b := &j.background
	due := time.Now().Add(d)
	b.mu.Lock()
	sooner := b.mu.due.IsZero() || due.Before(b.mu.due)
	if sooner {
		b.mu.due = due
	}
	b.mu.Unlock()
	if sooner {
		wake.Signal(b.sync)
	}
}
