package event

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem"
)

// This file handles the checkpoint of a running subscription. It moves only in the commit of the
// handler's writes, and only from the position at which this instance has read it.

// load reads the checkpoint. It writes the checkpoint if there is none or if its filter differs
// from the subscription's, so that from then on WaitFor waits for the events that this subscription
// selects.
func (sub *Subscription) load(ctx context.Context) error {
	s := sub.store
	rec, err := s.log.Get(ctx, s.spaces.checkpoints, sub.name)
	position := sub.opts.After
	switch {
	case isNotFound(err):
		sub.record = 0
		if sub.opts.Tail {
			position, err = s.log.Head(ctx)
		} else {
			err = nil
		}
	case err == nil:
		var cp Checkpoint
		var saved []byte
		cp, saved, err = decodeCheckpoint(&rec)
		sub.record, position, sub.owner = rec.Version, cp.Position, cp.Owner
		if err == nil && bytes.Equal(saved, sub.saved) {
			sub.moved(position)
			return nil
		}
	}
	if err != nil {
		return err
	}
	b := mainstem.NewBatch()
	b.Durability = sub.opts.Durability
	sub.addCheckpoint(b, position)
	r, err := s.log.Commit(ctx, b)
	if err != nil {
		if sub.isMoved(err) && ctx.Err() == nil {
			return sub.load(ctx) // another instance wrote the checkpoint first
		}
		return err
	}
	sub.record = r.Versions[len(r.Versions)-1]
	sub.moved(position)
	return nil
}

func (sub *Subscription) moved(p mainstem.Position) {
	sub.written = p
	if before := sub.position.Swap(uint64(p)); uint64(p) < before {
		sub.unwanted.Store(0)
	}
}

// condition requires that the checkpoint is unchanged since this instance read it.
func (sub *Subscription) condition() mainstem.Condition {
	c := mainstem.Condition{Space: sub.store.spaces.checkpoints, Key: sub.name, Test: mainstem.TestAbsent}
	if sub.record > 0 {
		c.Test, c.Version = mainstem.TestVersion, sub.record
	}
	return c
}

// addCheckpoint adds to b the move of the checkpoint to p, on condition that it is unchanged since
// this instance read it.
func (sub *Subscription) addCheckpoint(b *mainstem.Batch, p mainstem.Position) {
	b.If(sub.condition())
	if sub.opts.Expect != nil {
		sub.opts.Expect(b)
	}
	sub.store.writeCheckpoint(b, sub.name, p, sub.saved, sub.self)
}

// isMoved reports whether err is a conflict with the condition of addCheckpoint.
func (sub *Subscription) isMoved(err error) bool {
	var e *mainstem.Error
	return errors.As(err, &e) && e.Kind == mainstem.KindConflict &&
		e.Space == sub.store.spaces.checkpoints && bytes.Equal(e.Key, sub.name)
}

// commit commits b with the checkpoint at p. It tries again while the log is unavailable. Errors
// that the handler's writes did not cause are fatal.
func (sub *Subscription) commit(b *mainstem.Batch, p mainstem.Position) error {
	return sub.commitBy(sub.store.log.Commit, b, p)
}

// commitBy is commit with another function in place of the log's Commit.
func (sub *Subscription) commitBy(commit func(context.Context, *mainstem.Batch) (mainstem.Receipt, error), b *mainstem.Batch, p mainstem.Position) error {
	b.ID, b.Durability = "", sub.opts.Durability
	sub.addCheckpoint(b, p)
	unsure := false // an attempt may have been written
	for pauses := 1; ; pauses++ {
		r, err := commit(sub.hard, b)
		if err == nil {
			sub.record = r.Versions[len(r.Versions)-1]
			sub.moved(p)
			return nil
		}
		unsure = unsure || errors.Is(err, mainstem.ErrUnknownOutcome)
		undecided := false
		if unsure {
			var done bool
			if done, undecided = sub.resolve(p); done {
				return nil
			}
		}
		switch {
		case sub.hard.Err() != nil:
			return errClosing
		case undecided, isUnavailable(err), errors.Is(err, mainstem.ErrUnknownOutcome):
			// try again
		case sub.isMoved(err):
			return sub.movedError(err)
		case errors.Is(err, mainstem.ErrClosed), errors.Is(err, mainstem.ErrCorrupt), errors.Is(err, mainstem.ErrCanceled):
			return fatalError{err}
		default:
			return fmt.Errorf("commit what the handler wrote: %w", err)
		}
		sub.opts.Logger.Warn("event subscription cannot commit", "subscription", string(sub.name), "position", p, "error", err)
		if !sub.pause(pauses) {
			return errClosing
		}
	}
}

// checkMoved returns a fatal error if another writer moved the checkpoint: the handler may then
// have failed because of that writer's changes.
func (sub *Subscription) checkMoved() error {
	rec, err := sub.store.log.Get(sub.hard, sub.store.spaces.checkpoints, sub.name)
	if err == nil && rec.Version == sub.record || err != nil && !isNotFound(err) {
		return nil
	}
	c := sub.condition()
	return sub.movedError(&mainstem.Error{
		Kind: mainstem.KindConflict, Op: "read checkpoint", Space: c.Space, Key: c.Key, Outcome: mainstem.NotWritten,
		Want: c, Got: rec.Version, GotLive: err == nil,
	})
}

func (sub *Subscription) movedError(cause error) error {
	return fatalError{fmt.Errorf("subscription %s: %w: %w", sub.name, ErrCheckpointMoved, cause)}
}

// resolve determines whether a commit that moved the checkpoint to p was written. Undecided means
// that the checkpoint cannot be read.
func (sub *Subscription) resolve(p mainstem.Position) (done, undecided bool) {
	rec, err := sub.store.log.Get(sub.hard, sub.store.spaces.checkpoints, sub.name)
	if err != nil {
		return false, !isNotFound(err)
	}
	cp, _, err := decodeCheckpoint(&rec)
	if err != nil || cp.Position != p || rec.Version != sub.record+1 {
		return false, false // unchanged, or moved by another writer: the next commit shows which
	}
	sub.record = rec.Version
	sub.moved(p)
	return true, false
}
