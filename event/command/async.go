package command

import (
	"context"
	"fmt"
)

// Pending is a command under way; see [Bus.DispatchAsync]. It is safe for concurrent use.
type Pending struct {
	done   chan struct{}
	result Result // and err: set before done is closed
	err    error
}

// Done is closed when the command has ended.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Err returns the error of a command that has ended, nil while it is under way.
func (p *Pending) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Wait waits for the command to end and returns what Dispatch would have returned. If ctx ends
// first, its error is returned, and the command goes on.
func (p *Pending) Wait(ctx context.Context) (Result, error) {
	select {
	case <-p.done:
		return p.result, p.err
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
}

// DispatchAsync is [Bus.Dispatch] in a goroutine of its own, with ctx: it ends when the command
// has ended. Its result is in the Pending.
func (b *Bus) DispatchAsync(ctx context.Context, cmd Command) *Pending {
	p := &Pending{done: make(chan struct{})}
	if err := b.enter(ctx, cmd); err != nil {
		p.err = err
		close(p.done)
		return p
	}
	go func() {
		defer b.running.Done()
		defer close(p.done)
		p.result, p.err = b.dispatch(ctx, cmd)
	}()
	return p
}

// DispatchAll dispatches commands one after the other, each a commit of its own, and stops
// at the first error. It returns the results until then.
func (b *Bus) DispatchAll(ctx context.Context, cmds ...Command) ([]Result, error) {
	results := make([]Result, 0, len(cmds))
	for i, cmd := range cmds {
		r, err := b.Dispatch(ctx, cmd)
		if err != nil {
			return results, fmt.Errorf("command %d of %d: %w", i+1, len(cmds), err)
		}
		results = append(results, r)
	}
	return results, nil
}
