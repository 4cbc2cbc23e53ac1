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
//
// Order, of the leader: start, make the group readable in a tier, publish, end. Of a reader: look
// into the tiers, then ask closed. If the reader has seen anything of a group, start came before
// its look, so it finds the gate closed, or end has come and the group is published. A reader
// that finds it closed by a later group waits without need, but not for long. A reader
// waits for one group only: what is shown after its look, it has not seen.
//
// A reader that has seen no more than what is below the head need not ask.
//
// Without a reader that waits, a group costs two atomic additions and one lock that nobody else holds.
type commitGate struct {
	seq atomic.Uint64 // odd while a group is in flight; start and end, of the leader, add 1
	mu  struct {
		sync.Mutex
		landed chan struct{} // closed when the group in flight lands; nil if nobody waits
	}
}

// start closes the gate, before the first reader can see the group. The gate is open before.
func (f *commitGate) start() { f.seq.Add(1) }

// closed reports whether a group is in flight.
func (f *commitGate) closed() bool { return f.seq.Load()%2 != 0 }

// end lands the group in flight, if there is one: a run that has written nothing shows none. seq
// changes under mu, so a reader that has seen the odd number under mu waits on a channel that
// is still to be closed.
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
