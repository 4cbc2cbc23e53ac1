package actor

import (
	"fmt"
	"slices"
	"time"
)

// supervisor is the value of a supervising actor.
type supervisor struct {
	opts     SupervisorOptions
	plan     []Child  // what it starts with
	order    []*entry // in the order in which they start; not used if Dynamic
	byCore   map[*core]*entry
	byName   map[string]*entry
	restarts []time.Time // of children without a limit of their own, within the window
	failure  error       // of the first significant child that failed and is not restarted
	self     *Context[command]
}

// entry is a child as its supervisor sees it.
type entry struct {
	child    Child
	core     *core // nil while it is disabled or ended
	state    childState
	restarts []time.Time // within the window
	timer    *Timer      // while its restart is delayed
}

type childState uint8

const (
	running  childState = iota
	delayed             // it will be restarted
	disabled            // it was stopped on request, or failed too often
	waiting             // it was stopped because of a sibling and will be restarted with it
	ended               // it has ended and is not restarted
)

func (s childState) String() string {
	return [...]string{"running", "delayed", "disabled", "waiting", "ended"}[s]
}

// Start starts the children in order.
func (s *supervisor) Start(c *Context[command]) error {
	s.self = c
	for _, child := range s.plan {
		if _, err := s.add(child); err != nil {
			return err
		}
	}
	return nil
}

// Receive does what a method of Supervisor asks for.
func (s *supervisor) Receive(_ *Context[command], m command) error {
	if err := m.do(s); err != nil {
		_ = m.done.Fail(err) // nobody waits any more: nothing to tell
		return nil
	}
	_ = m.done.Send(struct{}{})
	return nil
}

func (s *supervisor) entries() []*entry {
	if s.opts.Strategy != Dynamic {
		return s.order
	}
	var all []*entry
	for _, e := range s.byCore {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int { return int(uint32(a.core.id)) - int(uint32(b.core.id)) })
	return all
}

// add starts a new child.
func (s *supervisor) add(child Child) (*core, error) {
	e := &entry{child: child}
	if err := s.spawn(e); err != nil {
		return nil, err
	}
	if s.opts.Strategy != Dynamic {
		s.order = append(s.order, e)
	}
	if child.name != "" {
		s.byName[child.name] = e
	}
	return e.core, nil
}

// spawn gives e a new actor.
func (s *supervisor) spawn(e *entry) error {
	c, err := e.child.spawn(&s.self.self.core)
	if err != nil {
		return err
	}
	e.core, e.state = c, running
	s.byCore[c] = e
	return nil
}

// halt stops the actor of e for good and waits for it.
func (s *supervisor) halt(e *entry) {
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	if e.core != nil {
		e.core.conclude(false)
		s.detach(e, ended)
	}
}

// detach parts e from its actor, which is gone.
func (s *supervisor) detach(e *entry, state childState) {
	delete(s.byCore, e.core)
	e.core, e.state = nil, state
}

// remove forgets e, which has no actor.
func (s *supervisor) remove(e *entry) {
	delete(s.byName, e.child.name)
	if i := slices.Index(s.order, e); i >= 0 {
		s.order = slices.Delete(s.order, i, i+1)
	}
}

// childEnded decides what follows the end of an incarnation of a child.
func (s *supervisor) childEnded(child *core, inc uint32, reason error) error {
	e := s.byCore[child]
	if e == nil || e.state != running || !child.endedWith(inc) {
		return nil // it was stopped or restarted since
	}
	opts := e.child.opts
	if opts.Restart == Temporary || opts.Restart == Transient && !IsCrash(reason) {
		return s.retire(e, reason)
	}
	limit, own := s.opts.Limit, opts.Limit != (Limit{})
	if own {
		limit = opts.Limit
	}
	n := count(&e.restarts, limit.Window)
	if !own {
		n = count(&s.restarts, limit.Window)
	}
	switch {
	case n <= limit.Intensity:
		return s.recover(e)
	case own && opts.Exceed == DisableChild:
		child.ops.finalize(reason)
		s.detach(e, disabled)
		return nil
	}
	return exceeded(e.label(), limit, reason)
}

// count adds a restart now and returns how many there were within the window.
func count(times *[]time.Time, window time.Duration) int {
	t := time.Now()
	*times = slices.DeleteFunc(*times, func(old time.Time) bool { return t.Sub(old) > window })
	*times = append(*times, t)
	return len(*times)
}

func (e *entry) label() string {
	if e.child.name != "" {
		return e.child.name
	}
	return e.core.address().String()
}

// endedWith reports whether c is suspended since its incarnation inc ended.
func (c *core) endedWith(inc uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.phase == phaseSuspended && c.inc == inc+1
}

// retire lets a child go that is not restarted, and the supervisor with it if
// that was what it was for: with the failure of a significant child, so that what
// depends on the supervisor does not take it for a stop that was asked for.
func (s *supervisor) retire(e *entry, reason error) error {
	e.core.ops.finalize(reason)
	s.detach(e, ended)
	if e.child.opts.Restart == Temporary || e.child.name == "" {
		s.remove(e)
	}
	if !e.child.opts.Significant || s.opts.AutoStop == Never {
		return nil
	}
	if s.failure == nil && IsCrash(reason) {
		s.failure = fmt.Errorf("significant child %s failed: %w", e.label(), reason)
	}
	if s.opts.AutoStop == AllSignificant {
		for _, other := range s.order {
			if other.child.opts.Significant && other.core != nil {
				return nil
			}
		}
	}
	if s.failure != nil {
		return s.failure
	}
	return Shutdown
}

// recover restarts what the strategy says, now or after a delay.
func (s *supervisor) recover(e *entry) error {
	backoff := e.child.opts.Backoff
	if backoff == (Backoff{}) {
		backoff = s.opts.Backoff
	}
	if backoff.Min <= 0 {
		return s.restart(e)
	}
	e.state = delayed
	e.timer = s.self.After(backoff.delay(len(e.restarts)), func() error {
		e.timer = nil
		return s.restart(e)
	})
	return nil
}

// restart restarts e and those that the strategy restarts with it: first they
// stop, in reverse order, then they start, in order. If one fails to start, that is
// reported like any other end, and the rest is started with it when it is restarted.
func (s *supervisor) restart(e *entry) error {
	group := []*entry{e}
	switch s.opts.Strategy {
	case AllForOne:
		group = slices.Clone(s.order)
	case RestForOne:
		group = slices.Clone(s.order[slices.Index(s.order, e):])
	}
	group = slices.DeleteFunc(group, func(e *entry) bool { return e.core == nil })
	for _, other := range slices.Backward(group) {
		s.pause(other)
	}
	for _, other := range group {
		switch {
		case other.state != waiting:
		case other.core == nil:
			if err := s.spawn(other); err != nil {
				return err
			}
		default:
			other.state = running
			if err := other.core.ops.restart(); err != nil {
				return nil
			}
		}
	}
	return nil
}

// pause ends the incarnation of a child that is going to be restarted. A
// temporary one is not: it goes.
func (s *supervisor) pause(e *entry) {
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	e.core.requestEnd(Shutdown, false)
	switch inTime := e.core.awaitEnd(); {
	case e.child.opts.Restart == Temporary:
		e.core.ops.finalize(Shutdown)
		s.detach(e, ended)
		s.remove(e)
	case inTime:
		e.state = waiting
	default:
		s.detach(e, waiting) // left behind: it gets a new actor
	}
}
