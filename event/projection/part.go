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

// part is one subscription of a projection.
type part struct {
	set      *set
	u        *unit
	name     string
	opts     event.SubscribeOptions
	lease    *lease.Lease // nil if there is only one part
	output   Output       // nil if the projection has no target
	handled  prepared     // what handle was called with last, if there is a target
	stopping chan struct{}
	stopped  sync.Once

	mu struct {
		sync.Mutex
		state State
		err   error
		sub   *event.Subscription
	}
}

// stop lets the commit under way finish, and ends the part.
func (p *part) stop() { p.stopped.Do(func() { close(p.stopping) }) }

func (p *part) over(ctx context.Context) bool {
	select {
	case <-p.stopping:
		return true
	default:
		return p.u.over(ctx)
	}
}

func (p *part) setState(s State, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.state, p.mu.err = s, err
}

func (p *part) position() mainstem.Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.sub == nil {
		return 0
	}
	return p.mu.sub.Position()
}

// run keeps the part subscribed until it is to end. Its failures do not end the others.
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
		case reached: // it stays, so that nobody else begins it
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

// wait waits for a timer, and returns false if the part is to end before.
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

// ownConflict reports whether err is a commit of the subscription itself that found the control row, or the
// lease, changed, and not a handler that fails.
func ownConflict(err error) bool {
	var poison *event.PoisonError
	return errors.Is(err, mainstem.ErrConflict) && !errors.As(err, &poison)
}

// subscribe runs the subscription until it has reached its end, fails, or is to end. Every commit of it
// depends on the control row and on the lease.
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
	var tried mainstem.Position // of the first event that the handler was last called with
	sub, err := p.u.e.store.SubscribeBatch(ctx, p.name, &p.opts, func(ctx context.Context, b *mainstem.Batch, evs []event.Recorded) error {
		if first := evs[0].Position; first > tried {
			tried = first
		} else if err := p.recheck(ctx); err != nil { // again: perhaps because the row has changed
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
			return false, sub.Close() // its commit under way is finished
		case <-p.stopping:
			return false, sub.Close()
		}
	}
}

// recheck returns if the control row is still the one of the generation; otherwise when the part is to end. The target
// is opened anew.
func (p *part) recheck(ctx context.Context) error {
	if err := p.open(ctx); err != nil {
		return err
	}
	current, err := p.set.g.recheck(ctx)
	switch {
	case err != nil: // not the fault of the events: they are tried again without end
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

// handle handles events in one commit.
func (p *part) handle(ctx context.Context, b *mainstem.Batch, evs []event.Recorded) error {
	began := time.Now()
	tx := newTx(b)
	tx.version, tx.building, tx.tables = p.set.tables, p.set.build > 0, p.u.p.tables
	todo, err := p.begin(ctx, tx, evs)
	if err != nil {
		return err
	}
	if err := p.u.p.applyAll(ctx, tx, p.u.e.types, todo); err != nil {
		return err
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
