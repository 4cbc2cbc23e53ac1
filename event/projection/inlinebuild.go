package projection

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/internal/inlineset"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/kv"
)

// This file switches an inline projection on, so that every event is handled exactly once: by a
// subscription up to a position of the log, and by the appends after it. The steps:
//
//  1. Catch up. A subscription handles the stored events, from the checkpoint of the projection,
//     while programs append without it. Its commits are conditional on the checkpoint and on the
//     control row, as those of an engine are. So each event takes effect once, even if an engine or
//     another process does the same.
//  2. Hold. When few events are left, the set of the store gets the projection as Holding. Every
//     append is conditional on the version of the control record that has the set (see package
//     inlineset), so none that was built before succeeds after this commit.
//  3. Finish. The subscription handles the events that were appended before step 2. No others can
//     come.
//  4. Switch. One commit makes the projection On in the set, marks its control row as inline, which
//     ends all its subscriptions, and deletes its checkpoint. From then on appends call it.
//
// Step 1 before step 2 keeps the hold short. Step 3 between 2 and 4 leaves no event out.
//
// After a crash the projection is in one of these states. The next process that opens the store
// with the projection continues, and so does an append that finds it Holding. Several processes may
// make the steps at the same time: each commit is conditional on the control row and the set that
// it was decided on, and errChanged makes the others decide again.
//
// A rebuild in place is the same with a beginning: take the projection out of the appends
// (Building), remove its rows under a claim, set the checkpoint to 0, and go to step 1. The
// blue/green rebuild is in inlinebeside.go.

// bring makes the steps for p until it is part of the appends.
func (s *InlineStore) bring(ctx context.Context, p *Projection) error {
	pause := backoff.Policy{First: afterInlineConflict.First, Max: afterInlineConflict.Max, Jitter: 1}
	for try := 1; ; try++ {
		done, err := s.step(ctx, p)
		if done || err != nil && !errors.Is(err, errChanged) {
			return err
		}
		if !pause.Wait(ctx, try) {
			return mainstem.Errorf(mainstem.KindCanceled, "open inline projections", "%w", context.Cause(ctx)).WithOutcome(mainstem.NotWritten)
		}
	}
}

// errChanged reports that another process has changed the state that a step was decided on. The
// next step must be decided again.
var errChanged = errors.New("the state of the projection has changed meanwhile")

// inlineAt is the state of a projection as it was read. Commits that change it are conditional on
// set and is.
type inlineAt struct {
	set   inlineset.Set
	entry inlineset.Entry // zero if it is not in the set
	ctl   control
	is    kv.Condition // that the control row is ctl
	found bool         // the control row exists
}

// read returns the state of the projection called name.
func (s *InlineStore) read(ctx context.Context, name string) (at inlineAt, err error) {
	if at.ctl, at.is, at.found, err = s.controls.get(ctx, name); err != nil {
		return at, err
	}
	// A commit depends on both, so it conflicts if one has changed between the reads.
	at.set, err = s.set(ctx)
	at.entry = at.set.Find(name)
	return at, err
}

// set returns the set of the store. It first converts a set in the old form, because appends depend
// on the version of the control record only.
func (s *InlineStore) set(ctx context.Context) (inlineset.Set, error) {
	log, store := s.store.Log(), s.store.Name()
	for {
		set, err := inlineset.Read(ctx, log, store)
		if err != nil || !set.Outdated() {
			return set, err
		}
		b := mainstem.NewBatch()
		inlineset.ReplaceTo(b, store, set, set.Entries)
		if _, err := log.Commit(ctx, b); err != nil && !errors.Is(err, mainstem.ErrConflict) {
			return set, err
		}
	}
}

// change commits a new control row and new entries of the set, with the writes of more, on
// condition that the row and the set are those of at. After a conflict it returns errChanged.
func (s *InlineStore) change(ctx context.Context, at inlineAt, name string, ctl control, entries []inlineset.Entry, more func(b *mainstem.Batch)) (mainstem.Receipt, error) {
	b := mainstem.NewBatch()
	s.controls.table.PutTo(b, name, ctl, at.is)
	if slices.Equal(entries, at.set.Entries) {
		inlineset.ExpectTo(b, s.store.Name(), at.set.Revision)
	} else {
		inlineset.ReplaceTo(b, s.store.Name(), at.set, entries)
	}
	if more != nil {
		more(b)
	}
	r, err := s.store.Log().Commit(ctx, b)
	if errors.Is(err, mainstem.ErrConflict) {
		err = errChanged
	}
	return r, err
}

// step makes the next step for p. done is true if none is left; errChanged means that the next step
// must be decided again.
func (s *InlineStore) step(ctx context.Context, p *Projection) (done bool, err error) {
	at, err := s.read(ctx, p.name)
	if err != nil {
		return false, err
	}
	e := at.entry
	switch {
	case e.Both() && e.Version == p.version:
		return false, s.replace(ctx, p, at, e.NextSince)
	case e.Next > 0 && e.NextVersion == p.version:
		return false, s.buildBeside(ctx, p, at)
	case e.State == inlineset.On && e.Version == p.version:
		return s.unlessStale(ctx, p, &at)
	case e.State == "" && at.ctl.Inline && !at.ctl.Rebuilding: // the store was dropped and created again
		at.ctl.Inline, at.ctl.Stale, at.ctl.Version = false, false, p.version
		at.ctl.abandon()
		_, err = s.change(ctx, at, p.name, at.ctl, at.set.Entries, nil)
		return false, err
	case e.State == inlineset.Removing: // a process has begun to remove it, and has not finished
		return false, s.remove(ctx, p.name)
	case at.ctl.Rebuilding && (e.Version == p.version || e.State == "" && at.ctl.Version == p.version):
		return false, s.clear(ctx, p, &at) // a rebuild that has not finished
	case e.State != "" && e.Version != p.version, at.found && at.ctl.Version != p.version:
		return s.otherVersion(ctx, p, &at)
	case at.ctl.inSteps() || at.ctl.Rebuilding:
		return false, errInSteps(p.name)
	case at.ctl.Paused:
		return false, mainstem.Refusef(mainstem.KindUnavailable, "open inline projections", "%s is paused: resume it first", p.name)
	case !at.found:
		_, err = s.change(ctx, at, p.name, control{Version: p.version}, at.set.Entries, nil)
		return false, err
	}
	return false, s.catchUp(ctx, p, at)
}

// inSteps reports whether an engine has divided the projection into partitions, is changing them, or
// builds new tables.
func (c *control) inSteps() bool {
	return c.partitions() > 1 || c.Resize > 0 || c.Frozen || c.Aligning || c.Next > 0
}

func errInSteps(name string) error {
	return mainstem.Refusef(mainstem.KindUnavailable, "open inline projections",
		"%s has partitions, or is being rebuilt, in an engine: let it finish, with one partition, first", name)
}

// unlessStale ends the steps of a projection that is On, unless it is stale and Options.Rebuild
// says to rebuild it.
func (s *InlineStore) unlessStale(ctx context.Context, p *Projection, at *inlineAt) (done bool, err error) {
	bypassed, err := inlineset.Bypassed(ctx, s.store.Log(), s.store.Name())
	switch {
	case err != nil:
		return false, err
	case bypassed <= at.entry.Since && !at.ctl.Stale:
		return true, nil
	case s.opts.Rebuild && len(p.tables) > 0:
		return false, s.beginBeside(ctx, p)
	case s.opts.Rebuild && p.clear != nil:
		return false, s.clear(ctx, p, at)
	}
	s.opts.Logger.Warn("an inline projection lacks events that were appended without it: rebuild it", "store", s.store.Name(), "projection", p.name)
	return true, nil
}

// otherVersion begins a rebuild if the rows are of an older version and Options.Rebuild allows it.
// Otherwise it returns a VersionError.
func (s *InlineStore) otherVersion(ctx context.Context, p *Projection, at *inlineAt) (done bool, err error) {
	have := max(at.entry.Version, at.entry.NextVersion, at.ctl.Version)
	switch {
	case !s.opts.Rebuild || have > p.version:
	case at.entry.State == inlineset.On && len(p.tables) > 0:
		return false, s.beginBeside(ctx, p)
	case have < p.version:
		return false, s.clear(ctx, p, at)
	}
	// The control row and the set are read one after the other. If they do not fit, another process
	// may have changed both in between.
	now, err := s.read(ctx, p.name)
	if err == nil && (now.ctl.Version != at.ctl.Version || now.entry.Version != at.entry.Version || now.entry.NextVersion != at.entry.NextVersion) {
		err = errChanged
	}
	if err != nil {
		return false, err
	}
	return false, &VersionError{Name: p.name, Have: have, Want: p.version}
}

// catchUp makes the steps 1 to 4, or those of a blue/green rebuild if one is under way.
func (s *InlineStore) catchUp(ctx context.Context, p *Projection, at inlineAt) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sub, err := s.subscribe(ctx, p, at, cancel)
	if err != nil {
		return changedOr(ctx, err)
	}
	defer func() { cancel(nil); <-sub.Done() }()
	if err := s.approach(ctx, sub); err != nil {
		return changedOr(ctx, err)
	}
	held, err := s.hold(ctx, p, at)
	if err != nil {
		return err
	}
	head, err := s.finish(ctx, sub)
	if err = changedOr(ctx, err); err != nil {
		if !errors.Is(err, errChanged) {
			s.unhold(ctx, held, at.entry)
		}
		return err
	}
	if held.entry.Next > 0 {
		return s.both(ctx, p, held, head)
	}
	on := inlineset.Entry{Name: p.name, Version: p.version, State: inlineset.On, Since: head, Build: held.ctl.Build}
	ctl := held.ctl
	ctl.Version, ctl.Inline = p.version, true
	_, err = s.change(ctx, held, p.name, ctl, held.set.With(on), func(b *mainstem.Batch) {
		s.store.DeleteCheckpointTo(b, p.name) // the commits of the events take its place
	})
	return err
}

// finish handles the events that were appended before appends were held, ends the subscription, and
// returns the position up to which everything is handled.
func (s *InlineStore) finish(ctx context.Context, sub *event.Subscription) (mainstem.Position, error) {
	head, err := s.store.Log().Head(ctx)
	if err == nil {
		err = sub.WaitFor(ctx, head)
	}
	if err == nil {
		err = sub.Close()
	}
	return head, err
}

// unhold makes appends continue without a projection that could not be switched on, as they did
// before it was Holding. If that fails, appends are held until a process switches the projection on
// or removes it.
func (s *InlineStore) unhold(ctx context.Context, held inlineAt, before inlineset.Entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unholdTimeout)
	defer cancel()
	entries := held.set.Without(held.entry.Name)
	switch {
	case held.entry.Next > 0:
		held.entry.NextState = inlineset.Building
		entries = held.set.With(held.entry)
	case before.State != "":
		held.entry.State = inlineset.Building
		entries = held.set.With(held.entry)
	}
	b := mainstem.NewBatch()
	inlineset.ReplaceTo(b, s.store.Name(), held.set, entries)
	if _, err := s.store.Log().Commit(ctx, b); err != nil && !errors.Is(err, mainstem.ErrConflict) {
		s.opts.Logger.Error("appends wait for an inline projection that could not be switched on", "store", s.store.Name(), "projection", held.entry.Name, "error", err)
	}
}

// unholdTimeout bounds unhold and giveUp, which also run after their context has ended.
const unholdTimeout = 5 * time.Second

// near is the number of positions left to handle at which appends are held.
const near = 1000

// approach waits until few events are left to handle, or until their number no longer falls,
// because events are appended as fast as they are handled. before is the number that was left at
// the last comparison.
func (s *InlineStore) approach(ctx context.Context, sub *event.Subscription) error {
	at, before := mainstem.Position(0), mainstem.Position(math.MaxUint64)
	for {
		head, err := s.store.Log().Head(ctx)
		if err != nil {
			return err
		}
		left := max(head, at) - at
		if before != math.MaxUint64 && (left <= near || left >= before) {
			return nil
		}
		if err := sub.WaitFor(ctx, head); err != nil {
			return err
		}
		at, before = head, left
	}
}

// changedOr returns errChanged if err is the end of a subscription whose control row or checkpoint
// was changed by another process, else err.
func changedOr(ctx context.Context, err error) error {
	var poison *event.PoisonError
	switch {
	case err == nil:
	case errors.Is(context.Cause(ctx), errChanged),
		errors.Is(err, mainstem.ErrNotFound), // its checkpoint, removed by the process that has switched it on
		errors.Is(err, mainstem.ErrConflict) && !errors.As(err, &poison):
		return errChanged
	}
	return err
}

// hold makes appends wait for p, unless they already do, and returns the state after that.
func (s *InlineStore) hold(ctx context.Context, p *Projection, at inlineAt) (inlineAt, error) {
	for {
		now, err := s.read(ctx, p.name)
		switch {
		case err != nil:
			return now, err
		case now.ctl != at.ctl || now.entry.Next != at.entry.Next:
			return now, errChanged
		}
		if version, held := now.entry.Held(); held && version == p.version {
			return now, nil
		}
		entry := inlineset.Entry{Name: p.name, Version: p.version, State: inlineset.Holding}
		switch e := now.entry; {
		case e.Next > 0 && e.NextState == inlineset.Building && e.NextVersion == p.version:
			entry = e
			entry.NextState = inlineset.Holding
		case e.Next > 0, e.State != "" && (e.State != inlineset.Building || e.Version != p.version):
			return now, errChanged
		}
		b := mainstem.NewBatch()
		inlineset.ReplaceTo(b, s.store.Name(), now.set, now.set.With(entry))
		if _, err := s.store.Log().Commit(ctx, b); err != nil && !errors.Is(err, mainstem.ErrConflict) {
			return now, err
		}
	}
}

// subscribe starts the subscription that handles the events that p lacks, on condition of the
// control row in at. If it finds another row it calls changed and fails.
func (s *InlineStore) subscribe(ctx context.Context, p *Projection, at inlineAt, changed context.CancelCauseFunc) (*event.Subscription, error) {
	opts := &event.SubscribeOptions{
		Filter: p.filter, Conflicts: conflicts, Logger: s.opts.Logger, Durability: mainstem.OS,
		Expect: func(b *mainstem.Batch) { s.controls.table.ExpectTo(b, p.name, at.is) },
	}
	name, build, beside := p.name, at.ctl.Build, at.entry.Next > 0
	if beside {
		name, build = setName(p.name, at.entry.Next), at.entry.Next
	}
	var tried mainstem.Position // position of the first event of the handler's last call
	return s.store.SubscribeBatch(ctx, name, opts, func(ctx context.Context, b *mainstem.Batch, evs []event.Recorded) error {
		if first := evs[0].Position; first > tried {
			tried = first
		} else if _, is, _, err := s.controls.get(ctx, p.name); err == nil && is != at.is {
			changed(errChanged)
			return errChanged
		}
		tx := newTx(b).as(p, build, beside)
		if err := p.applyAll(ctx, tx, s.types, evs); err != nil {
			return err
		}
		if err := tx.flush(ctx); err != nil {
			return err
		}
		return s.progress(ctx, p, evs[len(evs)-1].Position)
	})
}

// progress calls Options.Progress, if it is set.
func (s *InlineStore) progress(ctx context.Context, p *Projection, done mainstem.Position) error {
	if s.opts.Progress == nil {
		return nil
	}
	total, err := s.store.LastPosition(ctx)
	if err == nil {
		s.opts.Progress(p.name, done, max(done, total))
	}
	return err
}

// Rebuild handles all events again with the handlers of this program. Programs with handlers of
// another version fail when it is finished.
//
// For a projection with tables ([Projection.WithTables]) it is a blue/green rebuild: new tables are
// built beside those that are read. Appends continue to write the latter, so readers see complete
// tables. At the end appends are held while the last events are handled, then they write both
// tables, and one commit points the aliases to the new ones. The old tables are kept for
// [InlineOptions.Keep].
//
// Without tables, the rows are removed first by the projection's Clear. Appends continue without
// the projection meanwhile, and are held at the end; readers see the rows disappear and come back.
//
// Events that an engine parked before the projection became inline are no longer parked then.
//
// If Rebuild fails or the process ends, appends continue, and the next Rebuild or [OpenInline]
// finishes it. A projection that is not of this program is NotFound; one without tables and Clear
// is Invalid.
func (s *InlineStore) Rebuild(ctx context.Context, name string) error {
	p := s.projection(name)
	if p == nil {
		return mainstem.Refusef(mainstem.KindNotFound, "rebuild projection", "%q is not an inline projection of this program", name)
	}
	if err := s.beginRebuild(ctx, p); err != nil && !errors.Is(err, errChanged) {
		return err
	}
	if err := s.bring(ctx, p); err != nil {
		return err
	}
	s.removeOld(ctx)
	return nil
}

// beginRebuild begins a rebuild: blue/green if the projection is On and has tables, else in place.
func (s *InlineStore) beginRebuild(ctx context.Context, p *Projection) error {
	if len(p.tables) == 0 {
		return s.clear(ctx, p, nil)
	}
	at, err := s.read(ctx, p.name)
	switch {
	case err != nil:
		return err
	case at.entry.State == inlineset.On:
		return s.beginBeside(ctx, p)
	}
	return s.clear(ctx, p, nil)
}

// clear takes p out of the appends, removes its rows and sets its checkpoint to 0. It waits for the
// claim, so one process at a time does that. If decided is not nil, clear returns errChanged if the
// state differs from it when the claim is taken.
func (s *InlineStore) clear(ctx context.Context, p *Projection, decided *inlineAt) error {
	if p.clear == nil && len(p.tables) == 0 {
		return mainstem.Refusef(mainstem.KindInvalid, "rebuild projection", "%s: it has no tables and no Clear; see Projection.WithTables and WithClear", p.name)
	}
	claim, err := claimRebuild(ctx, s.store, p.name)
	if err != nil {
		return err
	}
	defer claim.release()
	began, err := s.begin(ctx, p, decided)
	if err != nil {
		return err
	}
	// The parked events are dropped first, so that what RetryParked does with them is removed too.
	if err := dropLacking(claim.ctx, s.store, p.name, began.Build); err != nil {
		return err
	}
	if err := p.clearAll(claim.ctx, began.Build); err != nil {
		return fmt.Errorf("remove what it has written: %w", err)
	}
	if claim.ctx.Err() != nil {
		return fmt.Errorf("remove what it has written: %w", context.Cause(claim.ctx))
	}
	for {
		at, err := s.read(ctx, p.name)
		if err != nil {
			return err
		}
		if at.ctl != began {
			return errChanged
		}
		ctl := at.ctl
		ctl.Rebuilding, ctl.Inline, ctl.Stale = false, false, false
		_, err = s.change(ctx, at, p.name, ctl, at.set.Entries, func(b *mainstem.Batch) {
			s.store.SetCheckpointTo(b, p.name, 0)
		})
		if !errors.Is(err, errChanged) {
			return err
		}
	}
}

// begin makes appends continue without p, and gives up a blue/green rebuild that is under way. It
// excludes everything else that handles the events of p by the control row that it returns.
func (s *InlineStore) begin(ctx context.Context, p *Projection, decided *inlineAt) (control, error) {
	for {
		at, err := s.read(ctx, p.name)
		began := at.ctl
		// Inline is set so that no engine removes the rows too.
		began.Version, began.Rebuilding, began.Inline = p.version, true, true
		switch {
		case err != nil:
			return began, err
		case decided != nil && (at.is != decided.is || at.entry != decided.entry):
			return began, errChanged
		case at.entry.State == inlineset.Removing:
			return began, errChanged
		case at.entry.State == "" && !at.ctl.Inline && at.ctl.inSteps():
			return began, errInSteps(p.name) // its partitions would go on from their checkpoints, without the rows
		}
		entries := at.set.Entries
		if at.entry.State != "" {
			entries = at.set.With(inlineset.Entry{Name: p.name, Version: p.version, State: inlineset.Building})
		}
		if at.entry.Next > 0 {
			began.abandon()
		}
		if _, err := s.change(ctx, at, p.name, began, entries, func(b *mainstem.Batch) { s.abandonTo(b, &at) }); !errors.Is(err, errChanged) {
			return began, err
		}
	}
}

// RemoveInline takes a projection out of the appends of a store, for programs that no longer have
// it. Programs that have it fail with [*event.InlineError] from then on. Its rows remain. An
// [Engine] with the projection, or [OpenInline], can continue from there. If it is stale it stays
// so until it is rebuilt, and a rebuild in place that has not finished begins again there. A
// projection that the store does not have is NotFound.
func RemoveInline(ctx context.Context, store *event.Store, name string) error {
	if store == nil {
		return mainstem.Refusef(mainstem.KindInvalid, "remove inline projection", "the store is nil")
	}
	c, err := openControls(store.Log(), store.Name())
	if err != nil {
		return err
	}
	s := &InlineStore{store: store, controls: c}
	for {
		if err := s.remove(ctx, name); !errors.Is(err, errChanged) {
			return err
		}
	}
}

// remove makes the next step of removing a projection. One that is On takes two: Removing, which
// holds the appends, and then a checkpoint at the newest position together with the removal from
// the set.
func (s *InlineStore) remove(ctx context.Context, name string) error {
	at, err := s.read(ctx, name)
	if err != nil {
		return err
	}
	e := at.entry
	switch e.State {
	case "":
		return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "remove inline projection " + name, Space: inlineset.ControlSpace(s.store.Name()), Key: inlineset.Control, Outcome: mainstem.NotWritten}
	case inlineset.Building, inlineset.Holding: // its checkpoint is already there, or a rebuild writes it
		ctl := at.ctl
		if ctl.Rebuilding { // an engine then removes the rows, and no Clear of another process may run beside it
			claim, err := claimRebuild(ctx, s.store, name)
			if err != nil {
				return err
			}
			defer claim.release()
		}
		ctl.Inline = false
		_, err = s.change(ctx, at, name, ctl, at.set.Without(name), nil)
		return err
	case inlineset.On: // hold the appends, so that none comes between the position and the second commit
		ctl := at.ctl
		ctl.abandon()
		removed := e.Alone()
		removed.State = inlineset.Removing
		if _, err = s.change(ctx, at, name, ctl, at.set.With(removed), func(b *mainstem.Batch) { s.abandonTo(b, &at) }); err != nil {
			return err
		}
		return errChanged
	}
	head, err := s.store.Log().Head(ctx)
	if err != nil {
		return err
	}
	// Read after head, so that no append up to head is missed.
	bypassed, err := inlineset.Bypassed(ctx, s.store.Log(), s.store.Name())
	if err != nil {
		return err
	}
	ctl := at.ctl
	ctl.Inline, ctl.Stale = false, ctl.Stale || bypassed > e.Since
	_, err = s.change(ctx, at, name, ctl, at.set.Without(name), func(b *mainstem.Batch) { s.store.SetCheckpointTo(b, name, head) })
	return err
}
