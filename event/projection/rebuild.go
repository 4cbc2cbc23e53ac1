package projection

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// RebuildOptions tune [Engine.Rebuild]. Nil and zero fields mean the defaults.
type RebuildOptions struct {
	// From leaves out the events up to this position. Default: [Async.After] in the engine of the
	// projection, else none are left out.
	From mainstem.Position
	// To ends the rebuild at this position: the tables show what was there then, and the projection is
	// paused; after [Engine.Resume] it goes on from there. Not with InPlace.
	To mainstem.Position
	// InPlace removes what is there first, and handles nothing until that is done. Without it, new
	// tables are built beside those that are read, which takes [Projection.WithTables].
	InPlace bool
	// Keep is how long the tables stay that are read no more, for readers that are at them. Default 1 h.
	Keep time.Duration
	// NoWait returns when the rebuild has been asked for; engines that run the projection carry it out.
	NoWait bool
	// Progress is called from time to time, by the goroutine that called Rebuild, with how many positions
	// of the log were handled, of how many. Not with InPlace.
	Progress func(done, total uint64)
}

// DefaultKeep is how long tables stay after a rebuild.
const DefaultKeep = time.Hour

// watching is the pause between two looks at a rebuild that others carry out.
var watching = backoff.Policy{First: 2 * time.Millisecond, Max: 250 * time.Millisecond}

// Rebuild lets a projection handle all events again, with the handlers of this program if it is registered
// here, else with those of the engine that comes first.
//
// It builds new tables beside those that are read, and writes on in those meanwhile. When the new
// ones show as much, one commit lets the names stand for them, and moves the checkpoint: readers see
// the old tables or the new, and never a part. Rebuild returns then. It only asks for all that, in the log,
// and waits: engines carry it out, whatever processes they are in, and go on with it after a crash, also when
// ctx has ended. A rebuild with handlers of another version replaces one that is under way.
//
// With InPlace, what is there is removed first. While that lasts, nothing is handled; readers see the tables
// empty, and grow. If removing fails, the projection stays stopped, and is tried again. It returns when
// the events are being handled again; [Engine.WaitFor] waits for them.
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

// checkRebuild lets the projection have a control row, so that it can be rebuilt before it has begun.
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

func (e *Engine) rebuildInPlace(ctx context.Context, name string, u *unit, o *RebuildOptions) error {
	// From this commit on, no other one of the projection succeeds.
	_, err := e.controls.changeWith(ctx, e.store.Log(), name, func(c *control, b *mainstem.Batch) error {
		if u == nil && !c.Clears {
			return mainstem.Refusef(mainstem.KindInvalid, "rebuild projection", "%s: it has no tables and no Clear", name)
		}
		e.abandonTo(b, name, c)
		c.Rebuilding, c.Frozen, c.Aligning, c.Upto, c.From = true, false, false, 0, o.from(u)
		if u != nil {
			c.NextVersion = u.p.version
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

func (o *RebuildOptions) from(u *unit) mainstem.Position {
	if o.From == 0 && u != nil {
		return u.opts.After
	}
	return o.From
}

// abandonTo gives up the tables that are being built, if any.
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

// errBusy says that the row is in a step that is over soon.
var errBusy = errors.New("its partitions are being changed")

// rebuildBeside asks for new tables, and waits until they are read.
func (e *Engine) rebuildBeside(ctx context.Context, name string, u *unit, o *RebuildOptions) error {
	next := 0
	for n := 1; ; n++ {
		_, err := e.controls.changeWith(ctx, e.store.Log(), name, func(c *control, b *mainstem.Batch) (err error) {
			next, err = e.requestTo(b, name, c, u, o)
			return err
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
	return e.awaitBuild(ctx, name, next, o.Progress)
}

// requestTo asks in the row for tables of a new version, which it returns. One that is under way already,
// with the same handlers and events, is joined.
func (e *Engine) requestTo(b *mainstem.Batch, name string, c *control, u *unit, o *RebuildOptions) (int, error) {
	version := 0
	if u != nil {
		version = u.p.version
	}
	switch {
	case c.Tables == "":
		return 0, mainstem.Refusef(mainstem.KindInvalid, "rebuild projection", "%s: it has no tables that can be built beside: rebuild in place", name)
	case c.Rebuilding:
		return 0, mainstem.Errorf(mainstem.KindConflict, "rebuild projection", "%s: it is being rebuilt in place", name)
	case c.Next > 0 && (version == 0 || c.NextVersion == version) && c.From == o.from(u) && c.To == o.To:
		return c.Next, nil
	case c.Frozen || c.Aligning:
		return 0, errBusy
	}
	e.abandonTo(b, name, c)
	c.Builds = max(c.Builds, 1) + 1
	c.Next, c.NextVersion, c.From, c.To, c.Keep = c.Builds, version, o.from(u), o.To, o.Keep
	if c.Keep == 0 {
		c.Keep = DefaultKeep
	}
	for _, s := range subscriptions(name, c.Next, c.partitions()) {
		e.store.SetCheckpointTo(b, s, c.From)
	}
	return c.Next, nil
}

// awaitBuild waits until a version of the tables is read.
func (e *Engine) awaitBuild(ctx context.Context, name string, next int, progress func(done, total uint64)) error {
	for n := 1; ; n++ {
		ctl, _, _, err := e.controls.get(ctx, name)
		switch {
		case err != nil:
			return err
		case ctl.Build >= next:
			return nil
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

func (e *Engine) progress(ctx context.Context, name string, ctl *control, progress func(done, total uint64)) error {
	end := ctl.To
	if end == 0 {
		head, err := e.store.LastPosition(ctx)
		if err != nil {
			return err
		}
		end = head
	}
	least := end
	for _, s := range subscriptions(name, ctl.Next, ctl.partitions()) {
		cp, err := e.store.Checkpoint(ctx, s)
		if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
			return err
		}
		least = min(least, cp.Position)
	}
	progress(uint64(max(least, ctl.From)-ctl.From), uint64(max(end, ctl.From)-ctl.From))
	return nil
}

// splitTables is the inverse of how tables are listed in a row.
func splitTables(names string) []string {
	if names == "" {
		return nil
	}
	return strings.Split(names, ",")
}
