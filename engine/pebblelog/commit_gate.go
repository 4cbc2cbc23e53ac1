package pebblelog

import (
	"context"
	"sync"
	"sync/atomic"
)

// commitGate tells readers whether a group is on its way to stable storage: then
// Pebble shows it already, but a power cut could still take it back. A reader
// that may have seen such a group waits until it has landed, so nobody ever
// acts on a record that is then lost.
type commitGate struct {
	seq atomic.Uint64 // odd while a group is in flight
	mu  struct {
		sync.Mutex
		landed chan struct{} // closed when the group in flight lands; nil if nobody waits
	}
}

func (f *commitGate) start() { f.seq.Add(1) }

// end lands the group in flight, if there is one.
func (f *commitGate) end() {
	if f.seq.Load()%2 == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq.Add(1)
	if f.mu.landed != nil {
		close(f.mu.landed)
		f.mu.landed = nil
	}
}

// wait returns when the group that is in flight now has landed.
func (f *commitGate) wait(ctx context.Context) error {
	seq := f.seq.Load()
	if seq%2 == 0 {
		return nil
	}
	f.mu.Lock()
	if f.seq.Load() != seq {
		f.mu.Unlock()
		return nil
	}
	if f.mu.landed == nil {
		f.mu.landed = make(chan struct{})
	}
	landed := f.mu.landed
	f.mu.Unlock()
	select {
	case <-landed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
