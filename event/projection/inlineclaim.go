package projection

import (
	"context"
	"errors"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/kv"
)

// claimTTL is the time after which the claim of a process that does not renew it expires.
const claimTTL = 15 * time.Second

// claim is the right to remove the rows of a projection. Clear is a function of the program, whose
// writes carry no fence, so no other process may handle events while it runs. The claim is a row
// that expires, in the table projection.rebuild/<store>. It is renewed every fifth of its TTL. Its
// context ends at the first failed renewal after half of the TTL, so that Clear stops before the
// row expires.
type claim struct {
	table *kv.Bucket[string]
	name  string

	ctx      context.Context // for the work under the claim
	cancel   context.CancelCauseFunc
	done     chan struct{} // closed when the goroutine of keep has ended
	revision kv.Revision   // of the row; belongs to keep until done is closed
}

// claimRebuild waits until no other process has the claim on a projection, and takes it. If ctx
// ends first the error is Canceled.
func claimRebuild(ctx context.Context, store *event.Store, name string) (*claim, error) {
	table, err := kv.Open[string](store.Log(), "projection.rebuild/"+store.Name(), nil)
	if err != nil {
		return nil, err
	}
	c := &claim{table: table, name: name, done: make(chan struct{})}
	owner, wait := event.NewID().String(), backoff.Policy{First: 5 * time.Millisecond, Max: time.Second, Jitter: 0.5}
	for try := 1; ; try++ {
		began := time.Now()
		c.revision, err = table.Create(ctx, name, owner, kv.TTL(claimTTL))
		switch {
		case err == nil:
			c.ctx, c.cancel = context.WithCancelCause(ctx)
			go c.keep(owner, began)
			return c, nil
		case !errors.Is(err, mainstem.ErrExists) && !errors.Is(err, mainstem.ErrConflict):
			return nil, err
		}
		if !wait.Wait(ctx, try) {
			return nil, mainstem.Ended(ctx, "rebuild projection "+name, began, "the rebuild of another process").WithOutcome(mainstem.NotWritten)
		}
	}
}

// keep renews the claim until its context ends, and ends the context when the claim may be lost.
// renewed is the time before the last renewal began.
func (c *claim) keep(owner string, renewed time.Time) {
	defer close(c.done)
	t := time.NewTicker(claimTTL / 5)
	defer t.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-t.C:
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(c.ctx, claimTTL/5)
		revision, err := c.table.Update(ctx, c.name, owner, c.revision, kv.TTL(claimTTL))
		cancel()
		if err == nil {
			c.revision, renewed = revision, began
			continue
		}
		if time.Since(renewed) > claimTTL/2 || errors.Is(err, mainstem.ErrConflict) || errors.Is(err, mainstem.ErrNotFound) {
			c.cancel(mainstem.Errorf(mainstem.KindUnavailable, "rebuild projection", "the claim could not be renewed: %w", err))
			return
		}
	}
}

// release ends the claim. If the row cannot be removed, it expires.
func (c *claim) release() {
	c.cancel(nil)
	<-c.done
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), claimTTL/5)
	defer cancel()
	_ = c.table.Delete(ctx, c.name, kv.IfRevision(c.revision))
}
