package projection

import (
	"context"
	"errors"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/internal/inlineset"
)

// How the tables of a projection that is On are built anew beside those that are read, which stay complete:
//
//  1. One commit puts the version of the new tables into the set and the control row. Appends go on and write the old ones.
//  2. A subscription, NAME@vn, handles all events into the new tables, as in inlinebuild.go.
//  3. When it has caught up, appends are held, and it handles the rest.
//  4. One commit lets appends write both, in their own commits. From here on nothing but appends writes the new tables.
//  5. One commit lets the names stand for the new tables, which are all that appends write from then on.
//
// Handlers of another version are those of other programs: none can write both. Then step 5 follows step 3, and from it on the
// programs of the old version are refused.
//
// A crash leaves one of these states. In each the old tables are complete, or appends are held; any process with handlers of
// the version of the new tables goes on, also an append that is held.

// beginBeside is step 1, unless it was made. A rebuild by an older version is given up.
func (s *InlineStore) beginBeside(ctx context.Context, p *Projection) error {
	for {
		at, err := s.read(ctx, p.name)
		if err != nil {
			return err
		}
		e := at.entry
		switch {
		case e.State != inlineset.On || e.Both():
			return errChanged
		case e.Next > 0 && e.NextVersion == p.version:
			return nil
		case max(e.Version, e.NextVersion) > p.version:
			return &VersionError{Name: p.name, Have: max(e.Version, e.NextVersion), Want: p.version}
		}
		ctl := at.ctl
		ctl.abandon()
		ctl.Builds = max(ctl.Builds, ctl.Build, 1) + 1
		ctl.Next, ctl.NextVersion, ctl.Tables = ctl.Builds, p.version, strings.Join(p.tableNames(), ",")
		e = e.Alone()
		e.Next, e.NextVersion, e.NextState = ctl.Next, p.version, inlineset.Building
		_, err = s.change(ctx, at, p.name, ctl, at.set.With(e), func(b *mainstem.Batch) { s.abandonTo(b, &at) })
		if !errors.Is(err, errChanged) {
			return err
		}
	}
}

// buildBeside is steps 2 to 4. If a handler cannot handle an event, the new tables are given up: all goes on as it was.
func (s *InlineStore) buildBeside(ctx context.Context, p *Projection, at inlineAt) error {
	err := s.catchUp(ctx, p, at)
	var poison *event.PoisonError
	if errors.As(err, &poison) && ctx.Err() == nil {
		s.giveUp(ctx, &at)
	}
	return err
}

// giveUp ends a rebuild, unless it is another than at says.
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

// abandonTo gives up the tables that are built beside, if any.
func (s *InlineStore) abandonTo(b *mainstem.Batch, at *inlineAt) {
	if at.entry.Next == 0 {
		return
	}
	s.store.DeleteCheckpointTo(b, setName(at.entry.Name, at.entry.Next))
	s.controls.leaveTo(b, at.entry.Name, at.ctl.Tables, at.entry.Next, 0)
}

// both is the end of step 3: everything up to since is handled, and appends are held.
func (s *InlineStore) both(ctx context.Context, p *Projection, held inlineAt, since mainstem.Position) error {
	if held.entry.Version != p.version {
		return s.replace(ctx, p, held, since)
	}
	e := held.entry
	e.NextState, e.NextSince = inlineset.On, since
	_, err := s.change(ctx, held, p.name, held.ctl, held.set.With(e), func(b *mainstem.Batch) {
		s.store.DeleteCheckpointTo(b, setName(p.name, e.Next)) // the commits of the events are the checkpoint now
	})
	if err == nil {
		err = errChanged // the next step is to be decided
	}
	return err
}

// replace is step 5. since is the position up to which events were handled before appends wrote the new tables.
func (s *InlineStore) replace(ctx context.Context, p *Projection, at inlineAt, since mainstem.Position) error {
	on := inlineset.Entry{Name: p.name, Version: p.version, State: inlineset.On, Since: since, Build: at.entry.Next}
	ctl := at.ctl
	ctl.Version, ctl.Build = p.version, at.entry.Next
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
