package journal

import (
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wake"
)

// background has the two goroutines of a journal: one syncs frames for which no caller waits, the
// other prepares spares. Close ends them and waits for them.
type background struct {
	sync    chan struct{} // capacity 1: due has changed
	prepare chan struct{} // capacity 1: a spare of the next size is needed soon
	quit    chan struct{}
	ended   sync.WaitGroup
	mu      struct {
		sync.Mutex
		due time.Time // of the next sync; zero: none
	}
}

func (j *Journal) startBackground() {
	b := &j.background
	b.sync, b.prepare, b.quit = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
	b.ended.Go(j.syncInBackground)
	b.ended.Go(j.prepareInBackground)
}

func (b *background) stop() {
	close(b.quit)
	b.ended.Wait()
}

// startWorkLocked starts the background work that an append of size bytes to seg makes due.
func (j *Journal) startWorkLocked(seg *segment, size int64) {
	if !j.mu.asked && seg.end.Load() > int64(seg.Size)/4 {
		j.mu.asked = true
		j.spares.wanted.Store(true)
		wake.Signal(j.background.prepare)
	}
	j.mu.unsynced += size
	if every := j.opts.SyncEvery; every > 0 && j.mu.unsynced >= every {
		j.mu.unsynced = 0
		if seg.end.Load()-seg.stable.Load() >= every {
			j.SyncWithin(0)
		}
	}
}

func (j *Journal) syncInBackground() {
	b := &j.background
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	for {
		select {
		case <-b.quit:
			return
		case <-b.sync:
			b.mu.Lock()
			due := b.mu.due
			b.mu.Unlock()
			if !due.IsZero() {
				timer.Reset(time.Until(due))
			}
		case <-timer.C:
			b.mu.Lock()
			b.mu.due = time.Time{}
			b.mu.Unlock()
			_ = j.Sync(mainstem.Position(j.written.Load())) // a failure stops the journal, and is logged there
		}
	}
}

func (j *Journal) prepareInBackground() {
	for {
		select {
		case <-j.background.quit:
			return
		case <-j.background.prepare:
			j.mu.Lock()
			size := j.mu.nextSize
			j.mu.Unlock()
			if err := j.spares.prepare(size); err != nil && !j.spares.ending.Load() {
				j.opts.Logger.Warn("no segment could be made ready; it is tried again when one is needed", "directory", j.dir, "bytes", size, "error", err)
			}
		}
	}
}
