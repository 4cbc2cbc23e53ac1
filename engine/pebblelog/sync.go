package pebblelog

import (
	"sync"
	"time"

	"github.com/mainstemdev/mainstem/internal/wake"
)

// syncer keeps the promise of Interval durability: it brings lazy groups to
// stable storage before their time is up. It sleeps while nothing is pending.
type syncer struct {
	l    *Log
	wake chan struct{} // capacity 1
	quit chan struct{}
	done chan struct{}
	mu   struct {
		sync.Mutex
		due time.Time // zero: nothing pending
	}
}

func startSyncer(l *Log) *syncer {
	s := &syncer{l: l, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	go s.run()
	return s
}

// within asks for a sync at most d from now.
func (s *syncer) within(d time.Duration) {
	due := time.Now().Add(d)
	s.mu.Lock()
	sooner := s.mu.due.IsZero() || due.Before(s.mu.due)
	if sooner {
		s.mu.due = due
	}
	s.mu.Unlock()
	if sooner {
		wake.Signal(s.wake)
	}
}

func (s *syncer) run() {
	defer close(s.done)
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	for {
		select {
		case <-s.quit:
			return
		case <-s.wake:
			s.mu.Lock()
			timer.Reset(time.Until(s.mu.due))
			s.mu.Unlock()
		case <-timer.C:
			s.mu.Lock()
			s.mu.due = time.Time{}
			s.mu.Unlock()
			if err := s.l.fs.syncNow(); err != nil {
				_ = s.l.fail(err)
			}
		}
	}
}

// stop ends the syncer; Close of the log syncs what is still pending.
func (s *syncer) stop() {
	close(s.quit)
	<-s.done
}
