package pebblelog

import (
	"context"
	"sync"
	"sync/atomic"
)

// commitGate makes readers wait while a group is being shown: the group is in a tier already,
// but its positions, totals and spaces are not published yet. A reader that may have seen such a
// group waits, some microseconds, until it is published. So Head is never behind what was read,
// and totals agree with records. The group is already as durable as was asked for.
//
// The leader calls start, makes the group readable in a tier, publishes it, and calls end. A
// reader reads the tiers and then calls closed. If the reader has seen anything of a group,
// start came before its read of the tier. So either it finds the gate closed, or end was called
// and the group is published. A reader that finds the gate closed by a later group waits without
// need, but not for long. A reader waits for one group only: it has not seen groups that are
// shown after its read.
//
// A reader that has seen nothing above the head need not call closed.
//
// If no reader waits, a group costs two atomic additions and one uncontended lock.
type commitGate struct {
	seq atomic.Uint64 // odd while a group is being shown; start and end, called by the leader, add 1
	mu  struct {
		sync.Mutex
		landed chan struct{} // closed when the group is published; nil if no reader waits
	}
}

// start closes the gate before any reader can see the group. The gate must be open.
func (f *commitGate) start() { f.seq.Add(1) }

// closed reports whether a group is being shown.
func (f *commitGate) closed() bool { return f.seq.Load()%2 != 0 }

// end opens the gate if it is closed; a run that has written nothing does not close it. seq
// changes under mu, so a reader that has seen the odd number under mu waits on a channel that
// end has not closed yet.
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

// wait returns when the group that is being shown now is published, or with the error of ctx.
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
