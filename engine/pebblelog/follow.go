package pebblelog

import (
	"sync"
	"sync/atomic"
)

// followers wakes the readers that wait for a space, and only those.
type followers struct {
	count atomic.Int64 // how many are subscribed: the committer looks here first
	mu    struct {
		sync.Mutex
		bySpace map[string]map[*follower]struct{}
		all     map[*follower]struct{}
		closed  bool
	}
	done chan struct{} // closed by close
}

// follower is one waiting reader. A wake-up means: look again.
type follower struct {
	wake   chan struct{} // capacity 1
	spaces []string      // nil: all
}

func newFollowers() *followers {
	f := &followers{done: make(chan struct{})}
	f.mu.bySpace = map[string]map[*follower]struct{}{}
	f.mu.all = map[*follower]struct{}{}
	return f
}

// subscribe registers a follower. The caller looks at the log after it, so that
// nothing committed in between is missed, and calls unsubscribe when done.
func (f *followers) subscribe(spaces []string) *follower {
	w := &follower{wake: make(chan struct{}, 1), spaces: spaces}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count.Add(1)
	if spaces == nil {
		f.mu.all[w] = struct{}{}
		return w
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
	f.count.Add(-1)
	delete(f.mu.all, w)
	for _, name := range w.spaces {
		delete(f.mu.bySpace[name], w)
		if len(f.mu.bySpace[name]) == 0 {
			delete(f.mu.bySpace, name)
		}
	}
}

// notify wakes those who follow the space called name. It never blocks.
func (f *followers) notify(name string) {
	if f.count.Load() == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.mu.bySpace[name] {
		w.signal()
	}
	for w := range f.mu.all {
		w.signal()
	}
}

func (w *follower) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// close ends all waits for ever.
func (f *followers) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.mu.closed {
		f.mu.closed = true
		close(f.done)
	}
}
