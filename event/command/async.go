package command

import (
	"context"
	"fmt"
)

// Pending is a command that was dispatched by [Bus.DispatchAsync]. It is safe for concurrent use.
type Pending struct {
	done   chan struct{}
	result Result // result and err are set before done is closed
	err    error
}

// Done returns a channel that is closed when the command has ended.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Err returns the error of a command that has ended, and nil while it is under way.
func (p *Pending) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Wait waits until the command has ended and returns what Dispatch would have returned. If ctx ends
// first, Wait returns its cause; the command continues.
func (p *Pending) Wait(ctx context.Context) (Result, error) {
	select {
	case <-p.done:
		return p.result, p.err
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
}

// DispatchAsync is [Bus.Dispatch] in a new goroutine, which ends with the command. If ctx ends, the
// command is cancelled.
func (b *Bus) DispatchAsync(ctx context.Context, cmd Command) *Pending {
	p := &Pending{done: make(chan struct{})}
	if err := b.enter(ctx, cmd); err != nil {
		p.err = err
		close(p.done)
		return p
	}
	go func() {
		defer b.leave()
		defer close(p.done)
		p.err = errNoReturn // unless dispatch returns
		p.result, p.err = b.dispatch(ctx, cmd)
	}()
	return p
}

// DispatchAll dispatches commands one after the other, each as a commit of its own, and stops at
// the first error. It returns the results so far.
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
