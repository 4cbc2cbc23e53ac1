package projection

import (
	"context"
	"errors"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/internal/inlineset"
)

// Status returns the status of an inline projection of this program, or NotFound. Handled counts
// the events that appends through this InlineStore passed to the projection, including those of
// appends that were built again.
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

// inlineStatus returns the status of one inline projection of a store, and whether the store has
// it.
func inlineStatus(ctx context.Context, store *event.Store, name string) (s Status, found bool, err error) {
	all, err := InlineStatuses(ctx, store)
	for _, s := range all {
		if s.Name == name {
			return s, true, err
		}
	}
	return Status{}, false, err
}

// InlineStatuses returns the status of the inline projections of a store, of any program, in the
// order of their last change of state.
//
//	Running     appends write the rows, so it has handled all events; also while new tables are built
//	            (Building is then their version, and Partitions has the subscription that builds them)
//	CatchingUp  it is being switched on, and appends are held
//	Rebuilding  it is being rebuilt in place
//	Stopped     it is being removed
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
	c, err := openControls(store.Log(), store.Name())
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
		ctl, _, _, err := c.get(ctx, e.Name)
		if err != nil {
			return nil, err
		}
		st.Stale = e.State == inlineset.On && (bypassed > e.Since || ctl.Stale)
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
