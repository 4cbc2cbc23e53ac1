package projection

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// errLeaving ends a handler when the part is to end. It is Unavailable, so it does not count as a
// failure of the events.
var errLeaving = mainstem.Errorf(mainstem.KindUnavailable, "projection", "the engine stops")

// State is what a projection does in an engine.
type State uint8

// The states. With several partitions the most serious state is reported.
const (
	Stopped    State = iota // the engine is not running, or has no such projection
	CatchingUp              // handles events that were stored before it started
	Running                 // handles events as they come, or waits while another engine does
	Paused                  // see Engine.Pause
	Rebuilding              // see Engine.Rebuild
	Faulted                 // it has failed; see Status.Err
	Restarting              // begins again after a fault
)

var stateNames = [...]string{"stopped", "catching_up", "running", "paused", "rebuilding", "faulted", "restarting"}

// String returns "stopped", "catching_up", "running", "paused", "rebuilding", "faulted" or "restarting".
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown state"
}

// Status describes a projection. If the projection is not registered with the engine, it has what
// the log says: State is Paused, Rebuilding, Faulted or Stopped, and what only other engines know
// is zero.
type Status struct {
	Name       string
	Version    int               // of the registered projection, else of the handlers that wrote the rows
	State      State             // in this engine
	Err        error             // why it is faulted
	Position   mainstem.Position // everything up to it is handled, in all partitions of all engines
	Partitions []PartitionStatus // at least one; none for a live projection
	Lag        uint64            // number of events still to be handled; counted up to MaxLag
	Behind     uint64            // positions from Position to the newest record of the store; 0 if Lag is 0
	Parked     uint64            // number of parked events that the tables that are read lack; counted up to MaxLag
	Handled    uint64            // number of events that this engine has handled; repetitions count
	Faults     uint64            // number of failures in this engine
	Dropped    uint64            // number of events that a live projection has left out
	LastAt     time.Time         // commit time of the last event that this engine handled
	Busy       time.Duration     // total time of the handlers in this engine
	PerEvent   time.Duration     // Busy divided by Handled
	Building   int               // version of the tables that are being built; 0: none
	Inline     bool              // its rows are written by appends; see InlineStore
	Replay     *ReplayStatus     // the replay that is under way; nil: none
	Stale      bool              // it is or was inline, and events were appended without it; see event.Options.WithoutInline
}

// PartitionStatus describes one partition of a projection, in whatever engine it runs.
type PartitionStatus struct {
	Subscription string            // name of the subscription
	Position     mainstem.Position // of its checkpoint
	Owner        string            // name of the instance that committed last
	Err          error             // why it is faulted, according to the engine that ran it
}

// MaxLag is the number up to which events are counted.
const MaxLag = 100_000

// Status returns the status of a projection. It is NotFound if the projection is not registered and
// no engine has ever started it. Status reads the events that are still to be handled, to count
// them.
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
	s := Status{Name: name, Version: ctl.Version, Building: ctl.Next, Stale: ctl.Stale}
	if u != nil {
		u.stateTo(&s)
	}
	if u != nil && u.live != nil {
		return s, nil
	}
	if err := e.partitionsTo(ctx, &s, &ctl); err != nil {
		return Status{}, err
	}
	if s.Replay, err = e.replayStatus(ctx, name, &ctl); err != nil {
		return Status{}, err
	}
	if u == nil {
		s.State, s.Err = stateOf(&ctl, s.Partitions)
	}
	return s, e.countTo(ctx, &s, u, ctl.Build)
}

// Statuses returns the status of all projections that are registered with this engine, ordered by
// name.
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

// All returns the status of all projections of the store, registered with this engine or not,
// ordered by name.
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

// stateOf returns the state of a projection that is not registered with this engine.
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

// stateTo sets the fields of s that this engine knows.
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
		if p.set.into != nil { // of a replay, which says nothing about the projection
			continue
		}
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

// partitionsTo sets Partitions and Position of s.
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

// countTo sets the fields of s that count events to be handled and parked events. build is the
// version of the tables that are read.
func (e *Engine) countTo(ctx context.Context, s *Status, u *unit, build int) error {
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
	for _, err := range parkedOf(ctx, e.store, readSets(s.Name, build)...) {
		if err != nil {
			return err
		}
		if s.Parked++; s.Parked >= MaxLag {
			return nil
		}
	}
	return nil
}

// filterOf returns the filter of a projection: that of the registered one, else the one stored with
// a checkpoint.
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
