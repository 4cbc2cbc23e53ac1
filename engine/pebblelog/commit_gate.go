package pebblelog

import (
	"context"
	"sync"
	"sync/atomic"
)

// commitGate tells readers whether a group is being shown: Pebble has it already, but its
// positions, totals and spaces are not published yet. A reader that may have seen such a
// group waits, some microseconds, until it has landed, so that Head is never behind what
// was read, and totals agree with records. The group is as durable as was asked before.
type commitGate struct {
	seq atomic.Uint64 // odd while a group is in flight
	mu  struct {
		sync.Mutex
		landed chan struct{} // closed when the group in flight lands; nil if nobody waits
	}
}

func (f *commitGate) start() { f.seq.Add(1) }

// closed reports whether a group is in flight.
func (f *commitGate) closed() bool { return f.seq.Load()%2 != 0 }

// end lands the group in flight, if there is one.
func (f *commitGate) end() {
	if !f.closed() {
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
