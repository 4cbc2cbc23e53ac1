package saga

import (
	"sync"
	"time"

	"github.com/mainstemdev/mainstem/internal/backoff"
)

// rests are the sagas, or timeouts, whose next message is not to be tried now: a worker has it, or
// it has failed and waits. The pause doubles with each failure in a row.
type rests struct {
	policy backoff.Policy

	mu  sync.Mutex       // guards the maps
	ids map[string]*rest // only of those that are being served or wait
}

// rest is the state of one saga in rests.
type rest struct {
	busy     bool      // between take and leave
	until    time.Time // not to be tried before
	failures int       // in a row, of the message
	counted  int       // those of them that count as attempts
}

// take reports whether the saga may be served now, and marks it as being served. The caller must
// then call leave.
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

// leave ends the service that take began. The saga is forgotten unless its message has failed.
func (r *rests) leave(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.ids[id]; s.failures > 0 {
		s.busy = false
	} else {
		delete(r.ids, id)
	}
}

// failed notes a failure of the message of a saga that is being served. It returns the number of
// failures that count as attempts. The saga waits from now on.
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

// succeeded notes that the message is gone: the next one has no failures.
func (r *rests) succeeded(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*r.ids[id] = rest{busy: true}
}

// next returns when the first saga that waits is to be tried again; false if none waits. A saga
// whose wait was over when the last pass began, and that the pass did not take, has no message any
// more: it is forgotten.
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
