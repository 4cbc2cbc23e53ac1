package pebblelog

import (
	"context"
	"sync"
)

// interrupts ends waits for flushes and compactions of Pebble when one of them has failed, or the
// log has: Pebble repeats failed work before it starts new work, perhaps without end.
type interrupts struct {
	mu struct {
		sync.Mutex
		stops map[*context.CancelCauseFunc]struct{}
	}
}

// begin returns a context that all ends. The caller must call end when its wait is over. A wait
// that begins while the log fails must look at failure after begin.
func (i *interrupts) begin(ctx context.Context) (_ context.Context, end func()) {
	ctx, stop := context.WithCancelCause(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.mu.stops == nil {
		i.mu.stops = map[*context.CancelCauseFunc]struct{}{}
	}
	i.mu.stops[&stop] = struct{}{}
	return ctx, func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.mu.stops, &stop)
		stop(nil)
	}
}

// all ends all waits. cause is the cause of their contexts.
func (i *interrupts) all(cause error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for stop := range i.mu.stops {
		(*stop)(cause)
	}
}
