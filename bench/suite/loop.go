package suite

import (
	"context"
	"sync"
	"sync/atomic"
)

// Loop does n operations one after another and records each. i counts from 0 in
// every round.
func Loop(ctx context.Context, n int, rec *Recorder, op func(ctx context.Context, i int) error) error {
	w := rec.Worker()
	for i := range n {
		began := w.Begin()
		if err := op(ctx, i); err != nil {
			return err
		}
		w.End(began)
	}
	return ctx.Err()
}

// Parallel does n operations on exactly clients goroutines, whatever the number of
// cores, and records each. client counts from 0; i is unique in the round. It
// returns the first error, when all goroutines have ended; the others stop early.
func Parallel(ctx context.Context, n, clients int, rec *Recorder, op func(ctx context.Context, client, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for client := range clients {
		w := rec.Worker()
		all.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				began := w.Begin()
				if err := op(ctx, client, i); err != nil {
					cancel(err)
					return
				}
				w.End(began)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}
