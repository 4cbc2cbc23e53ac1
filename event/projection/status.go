package projection

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

// errLeaving ends a handler when the engine stops. It is Unavailable: the events are not at fault.
var errLeaving = mainstem.Errorf(mainstem.KindUnavailable, "projection", "the engine stops")

// State says what a projection is doing in an engine.
type State uint8

// The states.
const (
	Stopped    State = iota // the engine has not been started, or was stopped
	CatchingUp              // it handles events that were there when it started
	Running                 // it handles events as they come
	Paused                  // see Engine.Pause
	Rebuilding              // what it has written is being removed; see Engine.Rebuild
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

// Status is how a projection stands.
type Status struct {
	Name     string
	Version  int
	State    State             // in this engine
	Err      error             // why it is faulted
	Position mainstem.Position // everything up to it is handled, wherever that was
	Owner    string            // which instance committed last
	Lag      uint64            // positions to the newest record: an upper bound of the events to handle
	Handled  uint64            // events that this engine has handled, those again that were handled again
	LastAt   time.Time         // when the last of these was appended
	PerEvent time.Duration     // how long the handlers took for one, on average
}

// Status returns how a projection of this engine stands.
func (e *Engine) Status(ctx context.Context, name string) (Status, error) {
	u, err := e.unit(name)
	if err != nil {
		return Status{}, err
	}
	return u.status(ctx)
}

// Statuses returns how all projections of this engine stand, ordered by name.
func (e *Engine) Statuses(ctx context.Context) ([]Status, error) {
	e.mu.Lock()
	var units []*unit
	for _, u := range e.units {
		units = append(units, u)
	}
	e.mu.Unlock()
	slices.SortFunc(units, func(a, b *unit) int { return strings.Compare(a.p.name, b.p.name) })
	var out []Status
	for _, u := range units {
		s, err := u.status(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func (u *unit) status(ctx context.Context) (Status, error) {
	u.mu.Lock()
	sub := u.sub
	s := Status{Name: u.p.name, Version: u.p.version, State: u.state, Err: u.err, Handled: u.handled, LastAt: u.last}
	if u.handled > 0 {
		s.PerEvent = u.busy / time.Duration(u.handled)
	}
	u.mu.Unlock()
	cp, err := u.e.store.Checkpoint(ctx, u.p.name)
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		return Status{}, err
	}
	s.Position, s.Owner = cp.Position, cp.Owner
	if sub != nil && (s.State == Running || s.State == CatchingUp) {
		s.Lag, err = sub.Lag(ctx)
		return s, err
	}
	head, err := u.e.store.Log().Head(ctx)
	if err != nil {
		return Status{}, err
	}
	if head > s.Position {
		s.Lag = uint64(head - s.Position)
	}
	return s, nil
}
