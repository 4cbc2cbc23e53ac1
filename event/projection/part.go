package projection

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/lease"
)

// part is one subscription of a projection in this engine. Its goroutine runs the subscription and
// starts it again after failures; a failure does not end other parts.
type part struct {
	set      *set // the set that it belongs to
	u        *unit
	name     string                 // of the subscription
	opts     event.SubscribeOptions // used by the goroutine of the part only
	lease    *lease.Lease           // of the partition; nil if the set has only one part
	output   Output                 // what the handlers write through; nil if the projection has no target
	handled  prepared               // of the last call of handle, if there is a target
	stopping chan struct{}          // closed by stop
	stopped  sync.Once              // guards the closing of stopping

	mu struct {
		sync.Mutex
		state State
		err   error               // why the state is Faulted or Restarting
		sub   *event.Subscription // the present or the last one; nil before the first
	}
}

// stop ends the part after its commit under way. It does not wait.
func (p *part) stop() { p.stopped.Do(func() { close(p.stopping) }) }

// over reports whether the part is to end.
func (p *part) over(ctx context.Context) bool {
	select {
	case <-p.stopping:
		return true
	default:
		return p.u.over(ctx)
	}
}

// setState sets the state that Status reports.
func (p *part) setState(s State, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.state, p.mu.err = s, err
}

// position returns the position up to which the subscription has committed, or 0.
func (p *part) position() mainstem.Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.sub == nil {
		return 0
	}
	return p.mu.sub.Position()
}

// run keeps the part subscribed until it is to end. After a conflict with the control row or the
// lease it rechecks the row, and subscribes again at once the first time; after other errors the
// part is faulted, and subscribes again after a pause, if Options.RestartAfter allows. Both counts
// are reset when the checkpoint has moved.
func (p *part) run(ctx context.Context) {
	after := p.u.e.opts.RestartAfter
	restart := backoff.Policy{First: after, Max: max(time.Minute, after), Jitter: 0.2}
	failures, conflicts := 0, 0
	for !p.over(ctx) {
		before := p.position()
		reached, err := p.subscribe(ctx)
		if p.position() != before {
			failures, conflicts = 0, 0
		}
		switch {
		case p.over(ctx):
			return
		case reached: // remains, so that no other engine begins it
			p.wait(ctx, nil)
		case err == nil || ownConflict(err):
			conflicts++
			if _, err := p.set.g.recheck(ctx); err != nil || conflicts > 1 {
				p.wait(ctx, time.After(again.Delay(conflicts)))
			}
		default:
			failures++
			p.fault(ctx, err)
			var timer <-chan time.Time
			if after > 0 {
				timer = time.After(restart.Delay(failures))
			}
			if p.wait(ctx, timer) {
				p.setState(Restarting, err)
			}
		}
	}
}

// wait waits for a timer, which may be nil, and returns false if the part is to end first.
func (p *part) wait(ctx context.Context, timer <-chan time.Time) bool {
	select {
	case <-timer:
		return true
	case <-p.stopping:
	case <-p.u.leaving:
	case <-ctx.Done():
	}
	return false
}

// ownConflict reports whether err is a conflict of a commit of the subscription itself, with the
// control row or the lease, and not a handler's error.
func ownConflict(err error) bool {
	var poison *event.PoisonError
	return errors.Is(err, mainstem.ErrConflict) && !errors.As(err, &poison)
}

// subscribe runs the subscription until it has reached its end (reached is true), fails, or is to
// end. Every commit of it is conditional on the control row and on the lease.
func (p *part) subscribe(ctx context.Context) (reached bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.opts.Expect = func(b *mainstem.Batch) {
		p.set.g.expect(b)
		if p.lease != nil {
			p.lease.Fence(b)
		}
	}
	if err := p.open(ctx); err != nil {
		return false, err
	}
	if p.output != nil {
		if current, err := p.set.g.recheck(ctx); err != nil || !current {
			return false, err
		}
		p.opts.Commit = func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
			return p.handled.transaction.Commit(ctx, b, p.handled.upto)
		}
	}
	var tried mainstem.Position // position of the first event of the handler's last call
	sub, err := p.u.e.store.SubscribeBatch(ctx, p.name, &p.opts, func(ctx context.Context, b *mainstem.Batch, evs []event.Recorded) error {
		if first := evs[0].Position; first > tried {
			tried = first
		} else if err := p.recheck(ctx); err != nil { // tried again: the row may have changed
			return err
		}
		return p.handle(ctx, b, evs)
	})
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	p.mu.state, p.mu.err, p.mu.sub = CatchingUp, nil, sub
	p.mu.Unlock()
	caughtUp := sub.CaughtUp()
	for {
		select {
		case <-caughtUp:
			p.setState(Running, nil)
			caughtUp = nil
		case <-sub.Done():
			return sub.Err() == nil, sub.Err()
		case <-p.u.leaving:
			return false, sub.Close() // finishes its commit under way
		case <-p.stopping:
			return false, sub.Close()
		}
	}
}

// recheck is called before events are handled again. It returns nil if the control row is still
// that of the generation and the lease is valid. Otherwise the failure may be a consequence of that
// change, so recheck waits until the part is to end, and returns an error that does not count
// against the events. A target is opened again first.
func (p *part) recheck(ctx context.Context) error {
	if err := p.open(ctx); err != nil {
		return err
	}
	current, err := p.set.g.recheck(ctx)
	switch {
	case err != nil: // Unavailable: does not count against the events
		return mainstem.Errorf(mainstem.KindUnavailable, "projection", "%w", err)
	case current && (p.lease == nil || p.lease.Valid()):
		return nil
	}
	select {
	case <-p.u.leaving:
		return errLeaving
	case <-p.stopping:
		return errLeaving
	case <-ctx.Done():
		return ctx.Err()
	}
}

// handle handles events in one commit: it calls the handlers and adds their writes to b.
func (p *part) handle(ctx context.Context, b *mainstem.Batch, evs []event.Recorded) error {
	began := time.Now()
	tx := newTx(b)
	tx.version, tx.building, tx.tables, tx.into = p.set.tables, p.set.build > 0, p.u.p.tables, p.set.into
	todo, err := p.begin(ctx, tx, evs)
	if err != nil {
		return err
	}
	if err := p.u.p.applyAll(ctx, tx, p.u.e.types, todo); err != nil {
		return err
	}
	if tx.into != nil {
		return tx.flushReplay(ctx, p.u.p.name)
	}
	if err := tx.flush(ctx); err != nil {
		return err
	}
	if tx.target != nil {
		if err := tx.target.Prepare(ctx, b); err != nil {
			return err
		}
	}
	p.u.note(evs, time.Since(began))
	return b.Err()
}
