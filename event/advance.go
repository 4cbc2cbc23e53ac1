package event

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem"
)

// This file is about the checkpoint of a running subscription: it moves only
// together with what the handler wrote, and only from where this instance has read it.

// load reads the checkpoint, and writes it if there is none or its filter is
// another: from then on, WaitFor waits for what the subscription selects.
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
			return sub.load(ctx) // another instance was first
		}
		return err
	}
	sub.record = r.Versions[len(r.Versions)-1]
	sub.moved(position)
	return nil
}

func (sub *Subscription) moved(p mainstem.Position) {
	sub.written = p
	sub.position.Store(uint64(p))
}

// condition holds as long as the checkpoint is where this instance has read it.
func (sub *Subscription) condition() mainstem.Condition {
	c := mainstem.Condition{Space: sub.store.spaces.checkpoints, Key: sub.name, Test: mainstem.TestAbsent}
	if sub.record > 0 {
		c.Test, c.Version = mainstem.TestVersion, sub.record
	}
	return c
}

// addCheckpoint makes b move the checkpoint from where this instance has read it to p.
func (sub *Subscription) addCheckpoint(b *mainstem.Batch, p mainstem.Position) {
	b.If(sub.condition())
	if sub.opts.Expect != nil {
		sub.opts.Expect(b)
	}
	sub.store.writeCheckpoint(b, sub.name, p, sub.saved, sub.self)
}

// isMoved reports whether err is the conflict of addCheckpoint.
func (sub *Subscription) isMoved(err error) bool {
	var e *mainstem.Error
	return errors.As(err, &e) && e.Kind == mainstem.KindConflict &&
		e.Space == sub.store.spaces.checkpoints && bytes.Equal(e.Key, sub.name)
}

// commit commits b with the checkpoint at p. It tries again while the log is
// unavailable. Fatal are errors that are not the fault of what the handler wrote.
func (sub *Subscription) commit(b *mainstem.Batch, p mainstem.Position) error {
	return sub.commitBy(sub.store.log.Commit, b, p)
}

// commitBy is commit by a function that does what the log's Commit does.
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

// checkMoved returns a fatal error if somebody else moved the checkpoint: then a
// failure of the handler may be due to what that somebody wrote.
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

// resolve finds out whether a commit that moved the checkpoint to p was written.
// Undecided means that the checkpoint cannot be read.
func (sub *Subscription) resolve(p mainstem.Position) (done, undecided bool) {
	rec, err := sub.store.log.Get(sub.hard, sub.store.spaces.checkpoints, sub.name)
	if err != nil {
		return false, !isNotFound(err)
	}
	cp, _, err := decodeCheckpoint(&rec)
	if err != nil || cp.Position != p || rec.Version != sub.record+1 {
		return false, false // as before, or moved by somebody else: the next commit shows it
	}
	sub.record = rec.Version
	sub.moved(p)
	return true, false
}
