package projection

import (
	"context"
	"errors"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/internal/inlineset"
)

// Status returns how an inline projection of this program stands. Handled counts the events that appends through this
// InlineStore called it for, those again that were built anew.
func (s *InlineStore) Status(ctx context.Context, name string) (Status, error) {
	for i, p := range s.projections {
		if p.name != name {
			continue
		}
		st, found, err := inlineStatus(ctx, s.store, name)
		if st.Handled = s.handled[i].Load(); found || err != nil {
			return st, err
		}
	}
	return Status{}, mainstem.Refusef(mainstem.KindNotFound, "projection", "%q is not an inline projection of this program and the store", name)
}

// inlineStatus returns how one inline projection of a store stands.
func inlineStatus(ctx context.Context, store *event.Store, name string) (s Status, found bool, err error) {
	all, err := InlineStatuses(ctx, store)
	for _, s := range all {
		if s.Name == name {
			return s, true, err
		}
	}
	return Status{}, false, err
}

// InlineStatuses returns how the inline projections of a store stand, whatever program has them, ordered as appends call
// them. One that is Running is as far as the store, also while tables are built beside (Building), whose partition is the one
// that builds; CatchingUp, it is being switched on, and appends wait; Stopped, it is being removed.
func InlineStatuses(ctx context.Context, store *event.Store) ([]Status, error) {
	set, err := inlineset.Read(ctx, store.Log(), store.Name())
	if err != nil {
		return nil, err
	}
	bypassed, err := inlineset.Bypassed(ctx, store.Log(), store.Name())
	if err != nil {
		return nil, err
	}
	last, err := store.LastPosition(ctx)
	if err != nil {
		return nil, err
	}
	var out []Status
	for _, e := range set.Entries {
		st := Status{Name: e.Name, Version: e.Version, Inline: true, Position: last, Building: e.Next}
		_, held := e.Held()
		switch {
		case held:
			st.State = CatchingUp
		case e.State == inlineset.On:
			st.State = Running
		case e.State == inlineset.Building:
			st.State = Rebuilding
		}
		st.Stale = e.State == inlineset.On && bypassed > e.Since
		if e.Next > 0 && !e.Both() {
			cp, err := store.Checkpoint(ctx, setName(e.Name, e.Next))
			if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
				return nil, err
			}
			st.Partitions = []PartitionStatus{{Subscription: setName(e.Name, e.Next), Position: cp.Position, Owner: cp.Owner}}
		}
		if e.State == inlineset.Holding || e.State == inlineset.Building {
			cp, err := store.Checkpoint(ctx, e.Name)
			if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
				return nil, err
			}
			st.Partitions = []PartitionStatus{{Subscription: e.Name, Position: cp.Position, Owner: cp.Owner}}
			if st.Position = cp.Position; last > cp.Position {
				st.Behind = uint64(last - cp.Position)
				st.Lag = st.Behind
			}
		}
		out = append(out, st)
	}
	return out, nil
}
