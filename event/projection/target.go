package projection

import (
	"context"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// Target is a database beside the log that a projection writes to; package readmodel/pg has one.
//
// A target that commits in one transaction with the log is exactly-once without further measures.
// Any other target first commits what the handlers wrote, together with the position of the newest
// event that they handled; the commit of the checkpoint in the log follows. After a crash between
// the two, events up to the target's position are not handled again. A Target is safe for
// concurrent use.
type Target interface {
	// Open returns the output of a subscription. It is called before the subscription begins and
	// before events are handled again. After each call the control row is read: so an Output that
	// was opened before a call of Fence or Reset, and used after it, belongs to a program that has
	// not seen the change of the row yet.
	Open(ctx context.Context, s Source) (Output, error)
	// Fence invalidates every Output of the projection that was opened before: after Fence has
	// returned none of them commits. It returns the greatest position up to which a subscription of
	// the projection has handled events in the target.
	Fence(ctx context.Context, s Source) (mainstem.Position, error)
	// Reset is Fence, and forgets the positions, because everything that the projection has written
	// is about to be removed.
	Reset(ctx context.Context, s Source) error
}

// Source identifies the projection, and the subscription, that a [Target] is opened for.
type Source struct {
	Store        *event.Store
	Projection   string
	Subscription string // one for each partition; empty for Fence and Reset
}

// Output is how one subscription of a projection writes to a target, one commit after the other.
type Output interface {
	// Begin begins the transaction of one commit.
	Begin(ctx context.Context) (Transaction, error)
}

// Transaction is one commit of a [Target].
type Transaction interface {
	// Handled returns the position up to which events are handled in the target already.
	Handled() mainstem.Position
	// Prepare is called when the handlers have returned, with the batch that they wrote into. Its
	// error is treated like one of a handler.
	Prepare(ctx context.Context, b *mainstem.Batch) error
	// Commit commits what the handlers wrote, with the position upto of the newest event, and b,
	// which has the checkpoint. Its errors have the meaning of those of the log's Commit; it is
	// called again with the same b in the same cases.
	Commit(ctx context.Context, b *mainstem.Batch, upto mainstem.Position) (mainstem.Receipt, error)
}

// WithTarget makes the projection write to the database t, and returns p. Such a projection runs in
// an [Engine], also in partitions, and is rebuilt in place by its Clear. It cannot be live or
// inline, and has no blue/green rebuild.
func (p *Projection) WithTarget(t Target) *Projection {
	p.target = t
	return p
}

// Transaction returns the transaction of the projection's target for this commit, or nil if it has
// no target.
func (tx *Tx) Transaction() Transaction { return tx.target }

// prepared is a transaction and the position of its newest event.
type prepared struct {
	transaction Transaction
	upto        mainstem.Position
}

// source returns the Source of the projection for a subscription, which may be empty.
func (u *unit) source(subscription string) Source {
	return Source{Store: u.e.store, Projection: u.p.name, Subscription: subscription}
}

// open opens the output of the part, if there is a target. The control row must be read after that:
// a change of the row fences the target afterwards.
func (p *part) open(ctx context.Context) (err error) {
	if p.u.p.target != nil {
		p.output, err = p.u.p.target.Open(ctx, p.u.source(p.name))
	}
	return err
}

// begin begins the transaction of a commit, if there is a target, and returns the events that the
// target has not handled yet.
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

// fence fences the target, if there is one, and returns the greatest position that it has.
func (g *generation) fence(ctx context.Context) (mainstem.Position, error) {
	if g.u.p.target == nil {
		return 0, nil
	}
	return g.u.p.target.Fence(ctx, g.u.source(""))
}

// reset resets the target, if there is one.
func (u *unit) reset(ctx context.Context) error {
	if u.p.target == nil {
		return nil
	}
	return u.p.target.Reset(ctx, u.source(""))
}
