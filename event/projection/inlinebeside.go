package projection

import (
	"context"
	"errors"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/internal/inlineset"
)

// This file is the blue/green rebuild of an inline projection that is On: new tables are built
// beside those that are read, which stay complete. The steps:
//
//  1. One commit puts the version of the new tables into the set and the control row. Appends
//     continue to write the old tables.
//  2. A subscription, NAME@vn, handles all events into the new tables, as in inlinebuild.go.
//  3. When it has caught up, appends are held, and it handles the rest.
//  4. One commit lets appends write both tables. From then on only appends write the new tables,
//     and the subscription's checkpoint is deleted.
//  5. One commit points the aliases to the new tables. From then on appends write only these.
//
// If the handlers have another version, no program can write both tables. Then step 5 follows step
// 3 directly, and programs with the old version are refused from then on.
//
// After a crash the projection is in one of these states. In each of them the old tables are
// complete, or appends are held. Any process with the handlers of the new tables continues, also in
// an append that is held.

// beginBeside makes step 1, unless a rebuild to the same version is under way. A rebuild to an
// older version is given up, also between the steps 4 and 5: there may be no program of that version
// any more to make step 5.
func (s *InlineStore) beginBeside(ctx context.Context, p *Projection) error {
	for {
		at, err := s.read(ctx, p.name)
		if err != nil {
			return err
		}
		e := at.entry
		switch {
		case e.State != inlineset.On || e.Both() && e.Version == p.version:
			return errChanged
		case e.Next > 0 && e.NextVersion == p.version:
			return nil
		case max(e.Version, e.NextVersion) > p.version:
			return &VersionError{Name: p.name, Have: max(e.Version, e.NextVersion), Want: p.version}
		}
		ctl := at.ctl
		ctl.abandon()
		ctl.Builds = max(ctl.Builds, ctl.Build, 1) + 1
		ctl.Next, ctl.NextVersion = ctl.Builds, p.version
		p.describe(&ctl)
		e = e.Alone()
		e.Next, e.NextVersion, e.NextState = ctl.Next, p.version, inlineset.Building
		_, err = s.change(ctx, at, p.name, ctl, at.set.With(e), func(b *mainstem.Batch) { s.abandonTo(b, &at) })
		if !errors.Is(err, errChanged) {
			return err
		}
	}
}

// buildBeside makes the steps 2 to 4. If a handler cannot handle an event, the new tables are given
// up, and the projection is as before.
func (s *InlineStore) buildBeside(ctx context.Context, p *Projection, at inlineAt) error {
	err := s.catchUp(ctx, p, at)
	var poison *event.PoisonError
	if errors.As(err, &poison) && ctx.Err() == nil {
		s.giveUp(ctx, &at)
	}
	return err
}

// giveUp ends the rebuild that was describes, if it is still under way.
func (s *InlineStore) giveUp(ctx context.Context, was *inlineAt) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unholdTimeout)
	defer cancel()
	name := was.entry.Name
	for {
		at, err := s.read(ctx, name)
		if err == nil && at.entry.Next != was.entry.Next {
			return
		}
		if err == nil {
			ctl := at.ctl
			ctl.abandon()
			_, err = s.change(ctx, at, name, ctl, at.set.With(at.entry.Alone()), func(b *mainstem.Batch) { s.abandonTo(b, &at) })
		}
		if err != nil && !errors.Is(err, errChanged) {
			s.opts.Logger.Error("a rebuild that failed could not be given up: the next one goes on with it", "store", s.store.Name(), "projection", name, "error", err)
			return
		}
	}
}

// abandonTo deletes the checkpoint of the tables that are built beside, if there are any, and
// schedules the removal of the tables, as part of b.
func (s *InlineStore) abandonTo(b *mainstem.Batch, at *inlineAt) {
	if at.entry.Next == 0 {
		return
	}
	s.store.DeleteCheckpointTo(b, setName(at.entry.Name, at.entry.Next))
	s.controls.leaveTo(b, at.entry.Name, at.ctl.Tables, at.entry.Next, 0)
}

// both is step 4, or step 5 if the versions differ: everything up to since is handled, and appends
// are held.
func (s *InlineStore) both(ctx context.Context, p *Projection, held inlineAt, since mainstem.Position) error {
	if held.entry.Version != p.version {
		return s.replace(ctx, p, held, since)
	}
	e := held.entry
	e.NextState, e.NextSince = inlineset.On, since
	_, err := s.change(ctx, held, p.name, held.ctl, held.set.With(e), func(b *mainstem.Batch) {
		s.store.DeleteCheckpointTo(b, setName(p.name, e.Next)) // the commits of the events take its place
	})
	if err == nil {
		err = errChanged // the next step must be decided
	}
	return err
}

// replace is step 5. since is the position after which appends have written the new tables.
func (s *InlineStore) replace(ctx context.Context, p *Projection, at inlineAt, since mainstem.Position) error {
	// The new tables have what an engine had parked before the projection became inline.
	if err := dropLacking(ctx, s.store, p.name, at.ctl.Build); err != nil {
		return err
	}
	on := inlineset.Entry{Name: p.name, Version: p.version, State: inlineset.On, Since: since, Build: at.entry.Next}
	ctl := at.ctl
	ctl.Version, ctl.Build, ctl.Stale = p.version, at.entry.Next, false
	ctl.abandon()
	_, err := s.change(ctx, at, p.name, ctl, at.set.With(on), func(b *mainstem.Batch) {
		for _, t := range p.tables {
			t.PointTo(b, on.Build)
		}
		s.controls.leaveTo(b, p.name, at.ctl.Tables, at.ctl.Build, s.opts.Keep)
		s.store.DeleteCheckpointTo(b, setName(p.name, at.entry.Next))
	})
	return err
}
