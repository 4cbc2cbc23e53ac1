package saga

import (
	"sync"
	"time"

	"github.com/mainstemdev/mainstem/internal/backoff"
)

// rests are the sagas of a unit whose next message is not to be tried now: it is being carried out, or
// has failed and waits.
type rests struct {
	policy backoff.Policy

	mu  sync.Mutex // guards the maps
	ids map[string]*rest
}

type rest struct {
	busy     bool
	until    time.Time
	failures int // in a row
	counted  int // of them, those that are the fault of the message
}

// take reports whether the saga may be served, and marks it as being served.
func (r *rests) take(id string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids == nil {
		r.ids = make(map[string]*rest)
	}
	s := r.ids[id]
	if s == nil {
		s = new(rest)
		r.ids[id] = s
	}
	if s.busy || now.Before(s.until) {
		return false
	}
	s.busy = true
	return true
}

// leave ends what take began. After a failure the saga rests for a while.
func (r *rests) leave(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.ids[id]; s.failures > 0 {
		s.busy = false
	} else {
		delete(r.ids, id)
	}
}

// failed notes a failure of the saga's message, and returns how many were the message's fault.
func (r *rests) failed(id string, counts bool, now time.Time) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.ids[id]
	s.failures++
	if counts {
		s.counted++
	}
	s.until = now.Add(r.policy.Delay(s.failures))
	return s.counted
}

// succeeded notes that the message is done.
func (r *rests) succeeded(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*r.ids[id] = rest{busy: true}
}

// next returns when the first saga that waits is to be tried again; false if none waits. Those whose
// time had come when a pass over all messages began, and that it has not taken, have none any more.
func (r *rests) next(began time.Time) (at time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, s := range r.ids {
		switch {
		case s.busy:
		case !s.until.After(began):
			delete(r.ids, id)
		case !ok || s.until.Before(at):
			at, ok = s.until, true
		}
	}
	return at, ok
}
