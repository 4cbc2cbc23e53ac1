package projection

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// RebuildOptions configure [Engine.Rebuild]. Nil and zero fields mean the defaults.
type RebuildOptions struct {
	// From is the position after which events are handled. Default: [Async.After] if the projection
	// is registered with this engine, else 0, which is all events.
	From mainstem.Position
	// To, if set, ends the rebuild at this position: the tables show the events up to it, and the
	// projection is paused; after [Engine.Resume] it continues from there. Not with InPlace.
	To mainstem.Position
	// InPlace removes the rows first and then handles the events. Default: a blue/green rebuild,
	// which takes [Projection.WithTables].
	InPlace bool
	// Keep is how long the old tables are kept for readers that still use them. Default 1 h. Not
	// used with InPlace.
	Keep time.Duration
	// NoWait makes Rebuild return when the request is in the log; engines that run the projection
	// carry it out.
	NoWait bool
	// Progress, if set, is called at intervals by the goroutine that called Rebuild, with the
	// number of positions of the log that are handled and the total; at the end once more, with the
	// total for both. Not used with InPlace.
	Progress func(done, total uint64)
}

// DefaultKeep is how long old tables are kept after a rebuild.
const DefaultKeep = time.Hour

// watching is the pause between two reads of the control row while others carry out a rebuild.
var watching = backoff.Policy{First: 2 * time.Millisecond, Max: 250 * time.Millisecond}

// Rebuild lets a projection handle all events again: with the handlers of this program if the
// projection is registered with this engine, else with those of the first engine that has the
// projection.
//
// By default it is a blue/green rebuild: new tables are built beside those that are read, which are
// still kept up to date meanwhile. When the new tables have caught up, one commit points the
// aliases to them and sets the checkpoints: readers see the old tables or the new ones, both
// complete. Then Rebuild returns. Rebuild only writes the request to the log and waits; engines of
// any process carry it out and continue after a crash, even if ctx has ended. A request like the
// one under way joins it. A request for handlers of another version replaces it; the call that
// waits for that one returns Conflict.
//
// With InPlace the rows are removed first. Nothing is handled until that is done; readers see empty
// tables that fill again. If removing fails it is tried again, and the projection is stopped
// meanwhile. Rebuild returns when the rows are removed; [Engine.WaitFor] waits until the events are
// handled.
//
// Parked events (see [event.Store.Parked]) that the rebuild handles again are no longer parked. Those
// that it parks itself are parked at the subscriptions of the projection once its tables are read.
//
// A projection that was never started is NotFound unless it is registered; an inline one is
// Unavailable. Options out of range, and a projection without the tables or the Clear that the
// rebuild takes, are Invalid.
func (e *Engine) Rebuild(ctx context.Context, name string, o *RebuildOptions) error {
	if o == nil {
		o = &RebuildOptions{}
	}
	if err := e.checkRebuild(ctx, o); err != nil {
		return err
	}
	u, err := e.unit(name)
	if err != nil {
		u = nil
	} else if err := u.checkRebuild(ctx, o); err != nil {
		return err
	}
	if o.InPlace {
		return e.rebuildInPlace(ctx, name, u, o)
	}
	return e.rebuildBeside(ctx, name, u, o)
}

// checkRebuild checks options that do not depend on the projection.
func (e *Engine) checkRebuild(ctx context.Context, o *RebuildOptions) error {
	const op = "rebuild projection"
	head, err := e.store.Log().Head(ctx)
	switch {
	case err != nil:
		return err
	case o.InPlace && o.To > 0:
		return mainstem.Refusef(mainstem.KindInvalid, op, "To with InPlace: it would take away what comes after")
	case o.To > head || o.From > head:
		return mainstem.Refusef(mainstem.KindInvalid, op, "From %d, To %d: the newest position is %d", o.From, o.To, head)
	case o.To > 0 && o.To < o.From:
		return mainstem.Refusef(mainstem.KindInvalid, op, "To is %d, before From, %d", o.To, o.From)
	case o.Keep < 0:
		return mainstem.Refusef(mainstem.KindInvalid, op, "Keep is %v: want 0 (default) or more", o.Keep)
	}
	return nil
}

// checkRebuild checks that the projection can be rebuilt in the requested way. It writes the
// control row if there is none, so that a projection can be rebuilt before it was started.
func (u *unit) checkRebuild(ctx context.Context, o *RebuildOptions) error {
	const op = "rebuild projection"
	switch {
	case u.live != nil:
		return mainstem.Refusef(mainstem.KindInvalid, op, "%s: it is live, and has written nothing", u.p.name)
	case o.InPlace && u.p.clear == nil && len(u.p.tables) == 0:
		return mainstem.Refusef(mainstem.KindInvalid, op, "%s: it has no tables and no Clear; see Projection.WithTables and WithClear", u.p.name)
	case !o.InPlace && len(u.p.tables) == 0:
		return mainstem.Refusef(mainstem.KindInvalid, op, "%s: it has no tables that can be built beside; see Projection.WithTables, or rebuild in place", u.p.name)
	}
	_, _, err := u.enter(ctx)
	return err
}

// rebuildInPlace requests a rebuild in place, and carries it out if the projection is registered
// with this engine. A blue/green rebuild under way is given up.
func (e *Engine) rebuildInPlace(ctx context.Context, name string, u *unit, o *RebuildOptions) error {
	// After this commit no other commit of the projection succeeds.
	_, err := e.controls.changeWith(ctx, e.store.Log(), name, func(c *control, b *mainstem.Batch) error {
		if u == nil && !c.Clears {
			return mainstem.Refusef(mainstem.KindInvalid, "rebuild projection", "%s: it has no tables and no Clear", name)
		}
		e.abandonTo(b, name, c)
		c.Rebuilding, c.Frozen, c.Aligning, c.Upto, c.From = true, false, false, 0, o.from(u)
		if u != nil {
			c.NextVersion = u.p.version
			u.p.describe(c)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if o.NoWait {
		return nil
	}
	if u != nil {
		return u.rebuildInPlace(ctx)
	}
	for n := 1; ; n++ {
		ctl, _, _, err := e.controls.get(ctx, name)
		if err != nil || !ctl.Rebuilding {
			return err
		}
		if !watching.Wait(ctx, n) {
			return mainstem.Ended(ctx, "rebuild projection "+name, time.Time{}, "an engine that removes what is there")
		}
	}
}

// from returns the position after which events are handled; u is nil if the projection is not
// registered.
func (o *RebuildOptions) from(u *unit) mainstem.Position {
	if o.From == 0 && u != nil {
		return u.opts.After
	}
	return o.From
}

// abandonTo gives up the tables that are being built, if there are any, as part of b.
func (e *Engine) abandonTo(b *mainstem.Batch, name string, c *control) {
	if c.Next == 0 {
		return
	}
	for _, s := range subscriptions(name, c.Next, c.partitions()) {
		e.store.DeleteCheckpointTo(b, s)
	}
	e.controls.leaveTo(b, name, c.Tables, c.Next, 0)
	c.abandon()
}

// errBusy reports that the row is in a step that ends soon.
var errBusy = errors.New("its partitions are being changed")

// rebuildBeside requests a blue/green rebuild, and waits until the new tables are read.
func (e *Engine) rebuildBeside(ctx context.Context, name string, u *unit, o *RebuildOptions) error {
	var ctl control
	for n := 1; ; n++ {
		var err error
		ctl, err = e.controls.changeWith(ctx, e.store.Log(), name, func(c *control, b *mainstem.Batch) error {
			return e.requestTo(b, name, c, u, o)
		})
		if err == nil {
			break
		}
		if !errors.Is(err, errBusy) {
			return err
		}
		if !watching.Wait(ctx, n) {
			return mainstem.Ended(ctx, "rebuild projection "+name, time.Time{}, "a change of its partitions")
		}
	}
	if o.NoWait {
		return nil
	}
	return e.awaitBuild(ctx, name, &ctl, o.Progress)
}

// changesBy reports whether a change of partitions is under way that ends soon without a rebuild. It
// does not if the partitions do not run: because the projection is paused, or because u, if it is
// not nil, is of another version than the rows.
func (c *control) changesBy(u *unit) bool {
	return (c.Frozen || c.Aligning) && c.Next == 0 && !c.Paused && (u == nil || u.p.version == c.Version)
}

// requestTo requests tables of a new version in the row c, which is then c.Next. If a rebuild with
// the same handlers and positions is under way, c.Next stays the version of that one.
func (e *Engine) requestTo(b *mainstem.Batch, name string, c *control, u *unit, o *RebuildOptions) error {
	version := 0
	if u != nil {
		version = u.p.version
	}
	switch {
	case u == nil && c.Tables == "":
		return mainstem.Refusef(mainstem.KindInvalid, "rebuild projection", "%s: it has no tables that can be built beside: rebuild in place", name)
	case c.Rebuilding:
		return mainstem.Errorf(mainstem.KindConflict, "rebuild projection", "%s: it is being rebuilt in place", name)
	case c.Next > 0 && (version == 0 || c.NextVersion == version) && c.From == o.from(u) && c.To == o.To:
		return nil
	case c.changesBy(u):
		return errBusy
	}
	e.abandonTo(b, name, c)
	c.Frozen, c.Aligning, c.Upto = false, false, 0 // the rebuild makes a change of partitions too when it is finished
	c.Builds = max(c.Builds, 1) + 1
	c.Next, c.NextVersion, c.From, c.To, c.Keep = c.Builds, version, o.from(u), o.To, o.Keep
	if c.Keep == 0 {
		c.Keep = DefaultKeep
	}
	if u != nil {
		u.p.describe(c)
	}
	for _, s := range subscriptions(name, c.Next, c.partitions()) {
		e.store.SetCheckpointTo(b, s, c.From)
	}
	return nil
}

// awaitBuild waits until the tables that the row requested asks for are read.
func (e *Engine) awaitBuild(ctx context.Context, name string, requested *control, progress func(done, total uint64)) error {
	next := requested.Next
	for n := 1; ; n++ {
		ctl, _, _, err := e.controls.get(ctx, name)
		switch {
		case err != nil:
			return err
		case ctl.Build >= next:
			if progress == nil {
				return nil
			}
			total, err := e.total(ctx, requested)
			if err == nil {
				progress(total, total)
			}
			return err
		case ctl.Next != next:
			return mainstem.Errorf(mainstem.KindConflict, "rebuild projection", "%s: another rebuild has replaced this one", name)
		}
		if progress != nil {
			if err := e.progress(ctx, name, &ctl, progress); err != nil {
				return err
			}
		}
		if !watching.Wait(ctx, n) {
			return mainstem.Ended(ctx, "rebuild projection "+name, time.Time{}, "the engines that rebuild it, which go on")
		}
	}
}

// total returns the number of positions that a rebuild handles: as of now if it has no end.
func (e *Engine) total(ctx context.Context, ctl *control) (uint64, error) {
	end := ctl.To
	if end == 0 {
		var err error
		if end, err = e.store.LastPosition(ctx); err != nil {
			return 0, err
		}
	}
	return uint64(max(end, ctl.From) - ctl.From), nil
}

// progress calls the given function with the progress of the slowest partition.
func (e *Engine) progress(ctx context.Context, name string, ctl *control, progress func(done, total uint64)) error {
	total, err := e.total(ctx, ctl)
	if err != nil {
		return err
	}
	least := ctl.From + mainstem.Position(total)
	for _, s := range subscriptions(name, ctl.Next, ctl.partitions()) {
		cp, err := e.store.Checkpoint(ctx, s)
		if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
			return err
		}
		least = min(least, cp.Position)
	}
	progress(uint64(max(least, ctl.From)-ctl.From), total)
	return nil
}

// splitTables returns the names in control.Tables.
func splitTables(names string) []string {
	if names == "" {
		return nil
	}
	return strings.Split(names, ",")
}
