package actor

import (
	"context"
	"fmt"

	"github.com/mainstemdev/mainstem"
)

// Strategy says which children a supervisor restarts when one has ended.
type Strategy uint8

// The strategies.
const (
	OneForOne  Strategy = iota // that child
	AllForOne                  // all children
	RestForOne                 // that child and those that were started after it
	Dynamic                    // that child; any number of children, added by StartChild, without an order among them
)

var strategyNames = [...]string{"one for one", "all for one", "rest for one", "dynamic"}

// String returns "one for one", "all for one", "rest for one" or "dynamic".
func (s Strategy) String() string {
	if int(s) < len(strategyNames) {
		return strategyNames[s]
	}
	return "unknown strategy"
}

// AutoStop says when a supervisor stops because significant children have ended
// and are not restarted. Its reason is [Shutdown], or an error that wraps the reason of
// the first of them that failed (see [IsCrash]): a transient supervisor is restarted then.
type AutoStop uint8

// When it stops.
const (
	Never AutoStop = iota
	AnySignificant
	AllSignificant
)

var autoStopNames = [...]string{"never", "any significant", "all significant"}

// String returns "never", "any significant" or "all significant".
func (a AutoStop) String() string {
	if int(a) < len(autoStopNames) {
		return autoStopNames[a]
	}
	return "unknown auto stop"
}

// SupervisorOptions say what a supervisor does; nil means the defaults.
type SupervisorOptions struct {
	Name     string   // registers the supervisor on the node. Default: none
	Strategy Strategy // default OneForOne
	Limit    Limit    // of the restarts of all children without a limit of their own
	Backoff  Backoff  // delays restarts. Default: none
	AutoStop AutoStop // default Never
}

// Supervisor refers to a supervisor. Its calls wait for the supervisor, as long as ctx allows, and
// may come from any goroutine but those of its children while they start or stop.
type Supervisor struct {
	ref Ref[command]
}

// command is a call of a method of Supervisor.
type command struct {
	do   func(s *supervisor) error
	done Reply[struct{}]
}

// Supervise starts a supervisor and its children, in order. If one fails to
// start, those before it are stopped, and Supervise returns the error. Supervisors
// are stopped as other actors are; they stop their children in reverse order, each
// with its Grace, those of a [Dynamic] supervisor all at once.
func Supervise(s Spawner, o *SupervisorOptions, children ...Child) (Supervisor, error) {
	fresh, set, err := newSupervisor(o, children)
	if err != nil {
		return Supervisor{}, err
	}
	ref, err := Spawn(s, Actor[command](fresh()), &set)
	return Supervisor{ref}, err
}

// NewSupervisor describes a supervisor as a child of another.
func NewSupervisor(name string, o *SupervisorOptions, co *ChildOptions, children ...Child) Child {
	fresh, set, err := newSupervisor(o, children)
	if err != nil {
		return Child{name: name, err: err}
	}
	var with ChildOptions
	if co != nil {
		with = *co
	}
	with.Name, with.Grace = set.Name, set.Grace
	return NewChild(name, fresh, &with)
}

// newSupervisor checks what a supervisor is made of.
func newSupervisor(o *SupervisorOptions, children []Child) (func() *supervisor, Options, error) {
	var opts SupervisorOptions
	if o != nil {
		opts = *o
	}
	opts.Limit.fill()
	set := Options{Name: opts.Name, Grace: -1} // its children have their own
	if err := opts.Backoff.validate(); err != nil {
		return nil, set, err
	}
	switch {
	case opts.Strategy > Dynamic || opts.AutoStop > AllSignificant:
		return nil, set, invalidf("Strategy %d, AutoStop %d: there is no such choice", opts.Strategy, opts.AutoStop)
	case opts.Strategy == Dynamic && len(children) > 0:
		return nil, set, invalidf("a Dynamic supervisor has %d children in its description: it is given children by StartChild", len(children))
	}
	names := make(map[string]bool)
	for _, c := range children {
		if err := c.validate(names); err != nil {
			return nil, set, err
		}
		names[c.name] = true
	}
	return func() *supervisor {
		return &supervisor{opts: opts, plan: children, byCore: make(map[*core]*entry), byName: make(map[string]*entry)}
	}, set, nil
}

func (c Child) validate(taken map[string]bool) error {
	switch {
	case c.err != nil:
		return c.err
	case c.spawn == nil:
		return invalidf("a Child was not made by NewChild or NewSupervisor")
	case c.name == "" || taken[c.name]:
		return invalidf("the name %q of a child is empty or taken by a sibling", c.name)
	}
	return nil
}

// Ref returns a reference to the supervisor, to monitor, link or stop it.
func (s Supervisor) Ref() AnyRef { return s.ref }

func (s Supervisor) call(ctx context.Context, do func(s *supervisor) error) error {
	_, err := Ask(ctx, s.ref, func(r Reply[struct{}]) command { return command{do, r} })
	return err
}

// Start adds a child at the end and starts it. It fails with Exists if a sibling has its name.
func (s Supervisor) Start(ctx context.Context, child Child) error {
	return s.call(ctx, func(s *supervisor) error {
		if s.byName[child.name] != nil {
			return &mainstem.Error{Kind: mainstem.KindExists, Op: "start child " + child.name}
		}
		if err := child.validate(nil); err != nil {
			return err
		}
		_, err := s.add(child)
		return err
	})
}

// Remove stops a child and forgets it.
func (s Supervisor) Remove(ctx context.Context, name string) error {
	return s.withChild(ctx, name, func(s *supervisor, e *entry) error {
		s.halt(e)
		s.remove(e)
		return nil
	})
}

// Disable stops a child and keeps it down until Enable.
func (s Supervisor) Disable(ctx context.Context, name string) error {
	return s.withChild(ctx, name, func(s *supervisor, e *entry) error {
		s.halt(e)
		e.state = disabled
		return nil
	})
}

// Enable starts a child that is down: disabled, or ended and not restarted. Its
// mailbox and Ref are new then.
func (s Supervisor) Enable(ctx context.Context, name string) error {
	return s.withChild(ctx, name, func(s *supervisor, e *entry) error {
		if e.state == running || e.state == delayed {
			return nil
		}
		return s.spawn(e)
	})
}

func (s Supervisor) withChild(ctx context.Context, name string, do func(*supervisor, *entry) error) error {
	return s.call(ctx, func(s *supervisor) error {
		e := s.byName[name]
		if e == nil {
			return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "find child " + name}
		}
		return do(s, e)
	})
}

// ChildInfo describes a child of a supervisor.
type ChildInfo struct {
	Name     string
	State    string // running, delayed (its restart), disabled, ended
	Restarts int    // within the window of its limit
	Actor    Info   // zero unless it is running or delayed
}

// Children describes the children in the order in which they start.
func (s Supervisor) Children(ctx context.Context) ([]ChildInfo, error) {
	var infos []ChildInfo
	err := s.call(ctx, func(s *supervisor) error {
		for _, e := range s.entries() {
			i := ChildInfo{Name: e.child.name, State: e.state.String(), Restarts: len(e.restarts)}
			if e.core != nil {
				i.Actor = e.core.ops.inspect()
			}
			infos = append(infos, i)
		}
		return nil
	})
	return infos, err
}

// ChildRef returns the child of a name. It fails with NotFound if there is none
// or it is down, Invalid if it takes other messages.
func ChildRef[M any](ctx context.Context, s Supervisor, name string) (Ref[M], error) {
	var ref Ref[M]
	err := s.withChild(ctx, name, func(_ *supervisor, e *entry) (err error) {
		if e.core == nil {
			return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "find child " + name, Hint: "it is down"}
		}
		ref, err = refOf[M](e.core)
		return err
	})
	return ref, err
}

// StartChild starts a child without a name under a supervisor, usually a
// [Dynamic] one, and returns it. When it has ended and is not restarted, the supervisor
// forgets it.
func StartChild[A Actor[M], M any](ctx context.Context, s Supervisor, fresh func() A, o *ChildOptions) (Ref[M], error) {
	child := NewChild("", fresh, o)
	if child.err != nil {
		return Ref[M]{}, child.err
	}
	var started *core
	err := s.call(ctx, func(s *supervisor) (err error) {
		started, err = s.add(child)
		return err
	})
	if err != nil {
		return Ref[M]{}, err
	}
	return refOf[M](started)
}

func exceeded(name string, l Limit, reason error) error {
	return fmt.Errorf("%w: child %s: more than %d in %s: %w", Exceeded, name, l.Intensity, l.Window, reason)
}

// ChildSupervisor returns the supervisor that is a child of s under a name.
func ChildSupervisor(ctx context.Context, s Supervisor, name string) (Supervisor, error) {
	ref, err := ChildRef[command](ctx, s, name)
	return Supervisor{ref}, err
}
