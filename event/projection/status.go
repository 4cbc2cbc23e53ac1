package projection

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// errLeaving ends a handler when the engine stops. It is Unavailable: the events are not at fault.
var errLeaving = mainstem.Errorf(mainstem.KindUnavailable, "projection", "the engine stops")

// State says what a projection is doing in an engine.
type State uint8

// The states. Of several partitions, the one that is most wrong counts.
const (
	Stopped    State = iota // the engine has not been started, or was stopped; or the projection is not registered with it
	CatchingUp              // it handles events that were there when it started
	Running                 // it handles events as they come, or waits in case that another engine ends
	Paused                  // see Engine.Pause
	Rebuilding              // see Engine.Rebuild
	Faulted                 // it has failed; see Status.Err
	Restarting              // it begins anew after a fault
)

var stateNames = [...]string{"stopped", "catching_up", "running", "paused", "rebuilding", "faulted", "restarting"}

// String returns "stopped", "catching_up", "running", "paused", "rebuilding", "faulted" or "restarting".
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown state"
}

// Status is how a projection stands. Of a projection that is not registered with the engine, it is
// what the log says of it: State is Paused, Rebuilding, Faulted or Stopped, and what only its engines know is zero.
type Status struct {
	Name       string
	Version    int
	State      State             // in this engine
	Err        error             // why it is faulted
	Position   mainstem.Position // everything up to it is handled, in all partitions, wherever that was
	Partitions []PartitionStatus // at least one; none of a live projection
	Lag        uint64            // events that are still to be handled; no more than MaxLag are counted
	Behind     uint64            // positions to the newest record: an upper bound of the lag
	Parked     uint64            // events that were put aside; no more than MaxLag are counted
	Handled    uint64            // events that this engine has handled, those again that were handled again
	Faults     uint64            // how often it has failed in this engine
	Dropped    uint64            // events that a live projection has left out
	LastAt     time.Time         // when the last event that this engine handled was appended
	Busy       time.Duration     // how long the handlers of this engine took for all
	PerEvent   time.Duration     // and for one, on average
	Building   int               // version of the tables that are being built; 0: none are
	Inline     bool              // the appends handle it; see InlineStore
	Stale      bool              // it is inline, and lacks events that were appended without it; see event.Options.WithoutInline
}

// PartitionStatus is how one partition of a projection stands, wherever it runs.
type PartitionStatus struct {
	Subscription string            // the name of its checkpoint
	Position     mainstem.Position // of the checkpoint
	Owner        string            // which instance has committed last
	Err          error             // why it is faulted, as the engine said that was at it
}

// MaxLag is how many events are counted at the most.
const MaxLag = 100_000

// Status returns how a projection stands; NotFound if no engine has ever started it, and it is not registered.
func (e *Engine) Status(ctx context.Context, name string) (Status, error) {
	ctl, _, found, err := e.controls.get(ctx, name)
	if err != nil {
		return Status{}, err
	}
	u, err := e.unit(name)
	if err != nil && !found {
		return Status{}, err
	}
	if u == nil && ctl.Inline {
		if s, found, err := inlineStatus(ctx, e.store, name); found || err != nil {
			return s, err
		}
	}
	s := Status{Name: name, Version: ctl.Version, Building: ctl.Next}
	if u != nil {
		u.stateTo(&s)
	}
	if u != nil && u.live != nil {
		return s, nil
	}
	if err := e.partitionsTo(ctx, &s, &ctl); err != nil {
		return Status{}, err
	}
	if u == nil {
		s.State, s.Err = stateOf(&ctl, s.Partitions)
	}
	return s, e.countTo(ctx, &s, u)
}

// Statuses returns how all projections stand that are registered with this engine, ordered by name.
func (e *Engine) Statuses(ctx context.Context) ([]Status, error) {
	e.mu.Lock()
	var names []string
	for name := range e.units {
		names = append(names, name)
	}
	e.mu.Unlock()
	slices.Sort(names)
	return e.statuses(ctx, names)
}

// All returns how all projections of the store stand, registered here or not, ordered by name.
func (e *Engine) All(ctx context.Context) ([]Status, error) {
	var names []string
	for row, err := range e.controls.table.List(ctx, nil) {
		if err != nil {
			return nil, err
		}
		names = append(names, row.Key)
	}
	slices.Sort(names)
	return e.statuses(ctx, names)
}

func (e *Engine) statuses(ctx context.Context, names []string) ([]Status, error) {
	var out []Status
	for _, name := range names {
		s, err := e.Status(ctx, name)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// stateOf returns the state of a projection of other processes.
func stateOf(ctl *control, partitions []PartitionStatus) (State, error) {
	for _, p := range partitions {
		if p.Err != nil {
			return Faulted, p.Err
		}
	}
	switch {
	case ctl.Rebuilding || ctl.Next > 0:
		return Rebuilding, nil
	case ctl.Paused:
		return Paused, nil
	}
	return Stopped, nil
}

// stateTo puts into s what this engine knows.
func (u *unit) stateTo(s *Status) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s.Version, s.State, s.Err = u.p.version, u.mu.state, u.mu.err
	s.Handled, s.Faults, s.Dropped, s.Busy, s.LastAt = u.mu.handled, u.mu.faults, u.mu.dropped, u.mu.busy, u.mu.last
	if u.mu.handled > 0 {
		s.PerEvent = u.mu.busy / time.Duration(u.mu.handled)
	}
	if s.State != Running && s.State != Rebuilding {
		return
	}
	for _, p := range u.mu.parts {
		p.mu.Lock()
		state, err := p.mu.state, p.mu.err
		p.mu.Unlock()
		switch {
		case state == Faulted || state == Restarting && s.State != Faulted:
			s.State, s.Err = state, err
		case s.State == Running && state != Running:
			s.State = CatchingUp
		}
	}
}

// partitionsTo puts into s how the partitions stand.
func (e *Engine) partitionsTo(ctx context.Context, s *Status, ctl *control) error {
	for i, name := range subscriptions(s.Name, 0, ctl.partitions()) {
		cp, err := e.store.Checkpoint(ctx, name)
		if err := ignoreNotFound(err); err != nil {
			return err
		}
		p := PartitionStatus{Subscription: name, Position: cp.Position, Owner: cp.Owner}
		f, faulted, err := e.faultOf(ctx, name, cp)
		if err != nil {
			return err
		}
		if faulted {
			p.Err = errors.New(f.Error)
		}
		s.Partitions = append(s.Partitions, p)
		if i == 0 || cp.Position < s.Position {
			s.Position = cp.Position
		}
	}
	return nil
}

// countTo puts into s how much there is to handle, and what was put aside.
func (e *Engine) countTo(ctx context.Context, s *Status, u *unit) error {
	head, err := e.store.LastPosition(ctx)
	if err != nil {
		return err
	}
	if head > s.Position {
		s.Behind = uint64(head - s.Position)
	}
	filter, err := e.filterOf(ctx, s, u)
	if err != nil {
		return err
	}
	for r, err := range e.store.Feed(ctx, &event.FeedOptions{Filter: filter, After: s.Position}) {
		if err != nil {
			return err
		}
		if r.Position <= s.Partitions[event.PartitionOf(r.Stream, len(s.Partitions))].Position {
			continue
		}
		if s.Lag++; s.Lag == MaxLag {
			break
		}
	}
	if s.Lag == 0 {
		s.Behind = 0
	}
	for _, p := range s.Partitions {
		for _, err := range e.store.Parked(ctx, p.Subscription) {
			if err != nil {
				return err
			}
			if s.Parked++; s.Parked >= MaxLag {
				return nil
			}
		}
	}
	return nil
}

// filterOf returns what a projection selects: as it says itself, or as its checkpoint does.
func (e *Engine) filterOf(ctx context.Context, s *Status, u *unit) (event.Filter, error) {
	if u != nil {
		return u.p.filter, nil
	}
	for _, p := range s.Partitions {
		cp, err := e.store.Checkpoint(ctx, p.Subscription)
		if err := ignoreNotFound(err); err != nil {
			return event.Filter{}, err
		}
		f, err := cp.Filter()
		f.Partition, f.Partitions = 0, 0
		if err != nil || cp.Owner != "" {
			return f, err
		}
	}
	return event.Filter{}, nil
}
