package actor

import (
	"fmt"
	"slices"
	"time"
)

// A supervisor is an actor whose children report the end of each incarnation to it (childSignal).
// It handles the report in childEnded, in its own turn:
//
//  1. A report is ignored if the child has been stopped or restarted since.
//  2. By the Restart type and the exit reason, the child is restarted or not. If not, retire
//     finalizes it, and ends the supervisor if AutoStop says so.
//  3. The restart is counted within the window of the limit. Beyond the intensity the supervisor
//     ends with Exceeded, or the child is disabled (Exceed).
//  4. Else recover restarts the child after the Backoff. Until then its siblings go on, whatever
//     the strategy.
//  5. restart first ends the children that the strategy names, in reverse order (pause), and then
//     starts them again in order. They keep their references and mailboxes. One that did not end
//     within its Grace is left behind and replaced by a new actor.
//  6. If one of them fails to start, restart stops there: the failure is reported like any end, and
//     the rest, in state waiting, is restarted with that child. If that child is not restarted, but
//     disabled, removed or retired, resume starts the rest.
//
//	           report                       backoff over
//	running ----------> (1 to 4) ---> delayed ----------> restart ---> running
//	   ^                  |                                  |
//	   | Enable           | not restarted                    | a sibling failed to start
//	   +--- ended, disabled                               waiting ---> running
//	                                                        restart of that sibling, or resume
//
// The supervisor waits for children while they end and start, and handles nothing else meanwhile.

// supervisor is the value of a supervising actor. All fields belong to its turn.
//
// Invariants:
//   - byCore has the entries with a core, byName those with a name.
//   - An entry in state running, delayed or waiting has a core; one that is disabled or ended has
//     none. The exception is a waiting one whose actor was left behind.
//   - Before a waiting entry in order there is one that has failed: it is delayed, or running and
//     suspended, since its report has not been handled yet.
type supervisor struct {
	opts     SupervisorOptions
	plan     []Child  // the children of the description, which Start starts
	order    []*entry // all children in the order in which they start; empty if the strategy is Dynamic
	byCore   map[*core]*entry
	byName   map[string]*entry
	restarts []time.Time // restarts of children without a limit of their own, within the window
	failure  error       // wraps the reason of the first significant child whose crash retire has handled
	self     *Context[command]
}

// entry is the record of a supervisor about one child.
type entry struct {
	child    Child
	core     *core // its actor; nil if it has none
	state    childState
	restarts []time.Time // its restarts, within the window of its limit
	timer    *Timer      // not nil while its restart is delayed
}

// childState is the state of a child; see the drawing above.
type childState uint8

const (
	running  childState = iota // its actor runs, or its end has not been handled yet
	delayed                    // its actor is suspended until its timer fires
	disabled                   // it was stopped by Disable, or its own limit was exceeded
	waiting                    // it was ended by restart, which has not started it again yet
	ended                      // it has ended, or was stopped, and is not restarted
)

func (s childState) String() string {
	return [...]string{"running", "delayed", "disabled", "waiting", "ended"}[s]
}

// Start starts the children of the description, in order.
func (s *supervisor) Start(c *Context[command]) error {
	s.self = c
	for _, child := range s.plan {
		if _, err := s.add(child); err != nil {
			return err
		}
	}
	return nil
}

// Receive runs a call of a method of Supervisor.
func (s *supervisor) Receive(_ *Context[command], m command) error {
	if err := m.do(s); err != nil {
		_ = m.done.Fail(err) // fails if the caller has stopped waiting
		return nil
	}
	_ = m.done.Send(struct{}{})
	return nil
}

// entries returns the children in the order in which they start, those of a Dynamic supervisor by
// the slots of their numbers.
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

// add starts a new child and adds it after the others. If it fails to start, it is not added.
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

// spawn starts a new actor for e, which has none.
func (s *supervisor) spawn(e *entry) error {
	c, err := e.child.spawn(&s.self.self.core)
	if err != nil {
		return err
	}
	e.core, e.state = c, running
	s.byCore[c] = e
	return nil
}

// halt stops the actor of e for good and waits as long as its Grace allows. It does nothing if e
// has no actor.
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

// detach takes the actor from e. The actor has ended for good or was left behind.
func (s *supervisor) detach(e *entry, state childState) {
	delete(s.byCore, e.core)
	e.core, e.state = nil, state
}

// remove removes e, which has no actor, from the children.
func (s *supervisor) remove(e *entry) {
	delete(s.byName, e.child.name)
	if i := slices.Index(s.order, e); i >= 0 {
		s.order = slices.Delete(s.order, i, i+1)
	}
}

// childEnded handles the report that the incarnation inc of a child has ended: steps 1 to 4 at the
// top of this file. An error ends the supervisor.
func (s *supervisor) childEnded(child *core, inc uint32, reason error) error {
	e := s.byCore[child]
	if e == nil || e.state != running || !child.endedWith(inc) {
		return nil // it was stopped or restarted since then
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
		return s.resume()
	}
	return exceeded(e.label(), limit, reason)
}

// count adds a restart now, removes those before the window, and returns how many are left.
func count(times *[]time.Time, window time.Duration) int {
	t := time.Now()
	*times = slices.DeleteFunc(*times, func(old time.Time) bool { return t.Sub(old) > window })
	*times = append(*times, t)
	return len(*times)
}

// label returns the name of the child, or the address of its actor, for errors. A child without a
// name must have an actor.
func (e *entry) label() string {
	if e.child.name != "" {
		return e.child.name
	}
	return e.core.address().String()
}

// endedWith reports whether c is suspended and inc was its last incarnation.
func (c *core) endedWith(inc uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.phase == phaseSuspended && c.inc == inc+1
}

// retire finalizes a child that is not restarted. It returns the exit reason of the supervisor if
// AutoStop says that this ends it; else it resumes the children that waited for this one. If a
// significant child has crashed, the reason says that: with Shutdown the parent of this supervisor
// would take a failure for an end that was asked for.
func (s *supervisor) retire(e *entry, reason error) error {
	significant := e.child.opts.Significant && s.opts.AutoStop != Never
	if significant && s.failure == nil && IsCrash(reason) {
		s.failure = fmt.Errorf("significant child %s failed: %w", e.label(), reason) // label needs the actor
	}
	e.core.ops.finalize(reason)
	s.detach(e, ended)
	if e.child.opts.Restart == Temporary || e.child.name == "" {
		s.remove(e)
	}
	if !significant {
		return s.resume()
	}
	if s.opts.AutoStop == AllSignificant {
		for _, other := range s.byCore {
			if other.child.opts.Significant {
				return s.resume()
			}
		}
	}
	if s.failure != nil {
		return s.failure
	}
	return Shutdown
}

// recover restarts e, and with it the children that the strategy names, now or after the Backoff.
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

// restart restarts e and the children that the strategy names: steps 5 and 6 at the top of this
// file. It returns an error, which ends the supervisor, only if a new actor, in place of one that
// was left behind, fails to start.
func (s *supervisor) restart(e *entry) error {
	group := []*entry{e}
	switch s.opts.Strategy {
	case AllForOne:
		group = slices.Clone(s.order)
	case RestForOne:
		group = slices.Clone(s.order[slices.Index(s.order, e):])
	}
	group = slices.DeleteFunc(group, func(e *entry) bool { return e.core == nil && e.state != waiting })
	for _, other := range slices.Backward(group) {
		s.pause(other)
	}
	for _, other := range group {
		if other.state == waiting {
			if up, err := s.revive(other); !up {
				return err
			}
		}
	}
	return nil
}

// resume starts the children that wait for one that is not restarted any more. It stops before those
// that wait for another one, and after one that fails to start. It fails as restart does.
func (s *supervisor) resume() error {
	for _, e := range s.order {
		switch {
		case e.state == delayed || e.state == running && e.core.suspended():
			return nil
		case e.state == waiting:
			if up, err := s.revive(e); !up {
				return err
			}
		}
	}
	return nil
}

// resumeOrStop is resume for a call of a method of Supervisor: an error ends the supervisor, and is
// returned for the caller.
func (s *supervisor) resumeOrStop() error {
	err := s.resume()
	if err != nil {
		s.self.Stop(err)
	}
	return err
}

// revive starts a waiting child and reports whether it has started. If not, and there is no error,
// the child has failed to start, and reports that like any end.
func (s *supervisor) revive(e *entry) (up bool, err error) {
	if e.core == nil {
		err = s.spawn(e)
		return err == nil, err
	}
	e.state = running
	return e.core.ops.restart() == nil, nil
}

// suspended reports whether the incarnation of c has ended and no other has begun.
func (c *core) suspended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.phase == phaseSuspended
}

// pause ends the incarnation of a child that is going to be restarted. A Temporary child is not
// restarted, as in OTP: it is finalized and removed.
func (s *supervisor) pause(e *entry) {
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	if e.core == nil {
		return // it waits, and was left behind before
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
		s.detach(e, waiting) // left behind: restart spawns a new actor
	}
}
