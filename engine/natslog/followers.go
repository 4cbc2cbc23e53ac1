package natslog

import (
	"sync"
	"time"
)

// followers wakes the readers that wait for a space, and only those.
type followers struct {
	mu struct {
		sync.Mutex
		bySpace map[string]map[*follower]struct{}
		all     map[*follower]struct{}
	}
}

// follower is one waiting reader. A wake-up means: look again.
type follower struct {
	wake   chan struct{} // capacity 1
	spaces []string      // nil: all
}

// subscribe registers a follower of spaces. The caller looks at the state after it,
// so that it misses nothing, and calls unsubscribe when done.
func (f *followers) subscribe(spaces []string) *follower {
	w := &follower{wake: make(chan struct{}, 1), spaces: spaces}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.all == nil {
		f.mu.all, f.mu.bySpace = map[*follower]struct{}{}, map[string]map[*follower]struct{}{}
	}
	if spaces == nil {
		f.mu.all[w] = struct{}{}
	}
	for _, name := range spaces {
		if f.mu.bySpace[name] == nil {
			f.mu.bySpace[name] = map[*follower]struct{}{}
		}
		f.mu.bySpace[name][w] = struct{}{}
	}
	return w
}

func (f *followers) unsubscribe(w *follower) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.mu.all, w)
	for _, name := range w.spaces {
		delete(f.mu.bySpace[name], w)
		if len(f.mu.bySpace[name]) == 0 {
			delete(f.mu.bySpace, name)
		}
	}
}

// notify wakes the followers of one space.
func (f *followers) notify(space string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.mu.bySpace[space] {
		w.ring()
	}
	for w := range f.mu.all {
		w.ring()
	}
}

// wakeAll wakes every follower.
func (f *followers) wakeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.mu.all {
		w.ring()
	}
	for _, ws := range f.mu.bySpace {
		for w := range ws {
			w.ring()
		}
	}
}

func (w *follower) ring() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

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
