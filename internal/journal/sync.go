package journal

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wake"
)

// syncs makes one goroutine at a time sync, for all that wait. The first goroutine that needs a
// sync makes it itself, so that a single committer switches to no other goroutine. Goroutines
// that come meanwhile wait. When the sync is done, one of those whose frames it did not cover
// makes the next one.
type syncs struct {
	done atomic.Int64 // number of successful syncs
	mu   struct {
		sync.Mutex
		ended   sync.Cond // signaled when a sync has ended; its lock is the Mutex
		running bool      // a goroutine is syncing, or changing the newest segment
		waiting int       // number of waiting goroutines
		crowded bool      // goroutines were waiting when the last sync ended
	}
}

// Sync returns when all frames up to position p are on stable storage. After a failed sync the
// journal takes no more frames and does not sync again: for all frames that were not on stable
// storage by then the error is Unavailable with unknown outcome. A position that was not written
// is Invalid.
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
			// The goroutines that the last sync woke are about to append. If they run first, this
			// sync covers their frames, which saves a third or more of the time of a commit with
			// 8 or 32 writers (BenchmarkAppend).
			runtime.Gosched()
		}
		j.syncCurrent()
		s.mu.Lock()
		s.mu.running, s.mu.crowded = false, s.mu.waiting > 0
		s.mu.ended.Broadcast()
	}
}

// acquire waits until no goroutine syncs, and keeps others from syncing until release.
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

// syncCurrent syncs the newest segment. The caller must have called acquire, or be the one that
// syncs.
func (j *Journal) syncCurrent() *failedWrite {
	seg := j.current.Load()
	if seg == nil {
		return nil
	}
	if f := j.failure.Load(); f != nil {
		return f
	}
	// In this order: an append sets end before last, so end covers all frames up to last. It may also
	// cover a frame after last. The sync of such a frame is noted by the next call, which finds
	// nothing new to sync.
	last, end := seg.last.Load(), seg.end.Load()
	from := seg.stable.Load()
	if end == from {
		j.durable.Store(last)
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

// SyncWithin makes the journal sync, in the background and within d, everything that is written
// by now. A failure stops the journal; see [Journal.Err].
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
