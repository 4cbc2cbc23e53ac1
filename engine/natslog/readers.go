package natslog

import (
	"sync"
	"time"
)

// readers knows since when the oldest running read has been running: what died
// later is not deleted by this process.
type readers struct {
	mu struct {
		sync.Mutex
		since map[*time.Time]struct{}
	}
}

// enter notes a read that begins; the caller calls what it returns at its end.
func (r *readers) enter() (leave func()) {
	began := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.since == nil {
		r.mu.since = map[*time.Time]struct{}{}
	}
	r.mu.since[&began] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.mu.since, &began)
	}
}

// oldest returns when the oldest running read began, or now.
func (r *readers) oldest() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := time.Now()
	for t := range r.mu.since {
		if t.Before(out) {
			out = *t
		}
	}
	return out
}
