package projection

import (
	"context"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// Target is a database beside the log that a projection writes: readmodel/pg has one. A target that commits
// together with the log needs nothing else to be exact. Any other commits first what the handlers wrote, together with the
// position of the newest event that they handled; the checkpoint in the log follows. Events up to that position are not
// handled again, whatever became of the checkpoint. A Target is safe for concurrent use.
type Target interface {
	// Open returns what a subscription writes through. It is called before the subscription begins, and again after
	// failures; then the projection looks whether it may go on. So one that was opened before [Target.Fence] or
	// [Target.Reset] was called, and is used after, belongs to a program that has not seen why.
	Open(ctx context.Context, s Source) (Output, error)
	// Fence ends every Output of the projection that was opened before: nothing of it is committed once Fence has
	// returned. It returns the greatest position up to which a subscription of the projection has handled events there.
	Fence(ctx context.Context, s Source) (mainstem.Position, error)
	// Reset is Fence that forgets the positions: what the projection has written is about to be removed.
	Reset(ctx context.Context, s Source) error
}

// Source says whose events a [Target] gets.
type Source struct {
	Store        *event.Store
	Projection   string
	Subscription string // of the projection: one for each partition. Empty for Fence and Reset
}

// Output is what one subscription of a projection writes through, one commit after the other.
type Output interface {
	// Begin begins the commit of some events.
	Begin(ctx context.Context) (Transaction, error)
}

// Transaction is what becomes one commit of a [Target].
type Transaction interface {
	// Handled is the position up to which events have taken effect already.
	Handled() mainstem.Position
	// Prepare is called when the handlers have returned, with the batch that they wrote to. Its error is like one of theirs.
	Prepare(ctx context.Context, b *mainstem.Batch) error
	// Commit commits what the handlers wrote, as of the event at upto, and b, in which the checkpoint is. Its errors are like
	// those of the Commit of a log. It may be called again after one that leaves b to be tried again.
	Commit(ctx context.Context, b *mainstem.Batch, upto mainstem.Position) (mainstem.Receipt, error)
}

// WithTarget says that the projection writes the database t, and returns p. A projection with a target runs in
// an [Engine], in partitions too. It is rebuilt in place, by its Clear; beside its tables, live and inline it is not.
func (p *Projection) WithTarget(t Target) *Projection {
	p.target = t
	return p
}

// Transaction returns the transaction of the projection's target that belongs to the commit, nil if it has no target. What
// writes the target gets at it by this.
func (tx *Tx) Transaction() Transaction { return tx.target }

// prepared is a transaction, and the position of the newest event in it.
type prepared struct {
	transaction Transaction
	upto        mainstem.Position
}

// source describes the projection to its target.
func (u *unit) source(subscription string) Source {
	return Source{Store: u.e.store, Projection: u.p.name, Subscription: subscription}
}

// open opens what the part writes through. The control row is to be read after that: what changes it fences the
// target afterwards.
func (p *part) open(ctx context.Context) (err error) {
	if p.u.p.target != nil {
		p.output, err = p.u.p.target.Open(ctx, p.u.source(p.name))
	}
	return err
}

// begin begins the commit of events in the target, if there is one, and returns those that are not handled yet.
func (p *part) begin(ctx context.Context, tx *Tx, evs []event.Recorded) ([]event.Recorded, error) {
	if p.output == nil {
		return evs, nil
	}
	x, err := p.output.Begin(ctx)
	if err != nil {
		return nil, err
	}
	tx.target = x
	p.handled = prepared{x, evs[len(evs)-1].Position}
	for len(evs) > 0 && evs[0].Position <= x.Handled() {
		evs = evs[1:]
	}
	return evs, nil
}

// fence ends what was opened of the target before, and returns the greatest position that it has.
func (g *generation) fence(ctx context.Context) (mainstem.Position, error) {
	if g.u.p.target == nil {
		return 0, nil
	}
	return g.u.p.target.Fence(ctx, g.u.source(""))
}

// reset makes the target forget what the projection has handled.
func (u *unit) reset(ctx context.Context) error {
	if u.p.target == nil {
		return nil
	}
	return u.p.target.Reset(ctx, u.source(""))
}
