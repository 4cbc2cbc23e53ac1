package actor

import (
	"context"
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem"
)

// Strategy says which children a supervisor restarts when one of them is restarted.
type Strategy uint8

// The strategies. The first three are those of OTP.
const (
	OneForOne  Strategy = iota // only that child
	AllForOne                  // all children
	RestForOne                 // that child and those after it in the order of starts
	// Dynamic restarts only that child. It is for very many children, which are added by
	// [StartChild] or [Supervisor.Start], have no order, and stop all at once, like
	// simple_one_for_one. They need not be of one kind.
	Dynamic
)

var strategyNames = [...]string{"one for one", "all for one", "rest for one", "dynamic"}

// String returns "one for one", "all for one", "rest for one" or "dynamic".
func (s Strategy) String() string {
	if int(s) < len(strategyNames) {
		return strategyNames[s]
	}
	return "unknown strategy"
}

// AutoStop says when a supervisor ends because significant children have ended and are not
// restarted: the auto_shutdown of OTP. Its exit reason is [Shutdown]. Unlike in OTP, if one of
// these children has crashed (see [IsCrash]), the exit reason is an error that wraps the reason of
// the first crash, so that a [Transient] supervisor is restarted.
type AutoStop uint8

// The choices.
const (
	Never          AutoStop = iota // it does not
	AnySignificant                 // when one significant child has ended
	AllSignificant                 // when all significant children have ended
)

var autoStopNames = [...]string{"never", "any significant", "all significant"}

// String returns "never", "any significant" or "all significant".
func (a AutoStop) String() string {
	if int(a) < len(autoStopNames) {
		return autoStopNames[a]
	}
	return "unknown auto stop"
}

// SupervisorOptions configure a supervisor; nil means the defaults.
type SupervisorOptions struct {
	Name     string   // registers the supervisor on the node. Default: none
	Strategy Strategy // default OneForOne
	Limit    Limit    // of the restarts of all children that have no limit of their own, together
	Backoff  Backoff  // delays restarts of children that have none of their own. Default: none
	AutoStop AutoStop // default Never
}

// Supervisor is a reference to a supervisor. It is a value that many goroutines may use.
//
// Its methods ask the supervisor and wait as long as ctx allows; they fail with the errors of
// [Ask], such as Closed if the supervisor has ended. The supervisor starts and stops children in
// its own turn. So the Start, Stop and fresh functions of its children must not call the methods:
// they would wait for themselves. After Canceled the call may still take effect.
type Supervisor struct {
	ref Ref[command]
}

// command is the message type of a supervisor: a call of a method of Supervisor.
type command struct {
	do   func(s *supervisor) error // called in the turn of the supervisor
	done Reply[struct{}]           // gets the error of do
}

// Supervise starts a supervisor, which is spawned from s, and its children, in order. If a child
// fails to start, those before it are stopped, and Supervise returns the error. It fails with
// Invalid if the options or the children do not fit.
//
// A supervisor ends like any other actor, for example by the Stop method of its Ref. It stops its
// children in reverse order, each with its Grace, those of a [Dynamic] supervisor all at once. Its
// own Grace is without limit.
func Supervise(s Spawner, o *SupervisorOptions, children ...Child) (Supervisor, error) {
	fresh, set, err := newSupervisor(o, children)
	if err != nil {
		return Supervisor{}, err
	}
	ref, err := Spawn(s, Actor[command](fresh()), &set)
	return Supervisor{ref}, err
}

// NewSupervisor describes a supervisor as a child of another supervisor. Name and Grace of co are
// not used: the name is that of o, and the Grace is without limit.
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

// newSupervisor checks the options and children of a supervisor. It returns a function that makes
// the value of the actor, and the options of the actor.
func newSupervisor(o *SupervisorOptions, children []Child) (func() *supervisor, Options, error) {
	var opts SupervisorOptions
	if o != nil {
		opts = *o
	}
	opts.Limit.fill()
	set := Options{Name: opts.Name, Grace: -1} // its children have their own
	if err := errors.Join(opts.Backoff.validate(), opts.Limit.validate()); err != nil {
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

// validate returns an Invalid error if c cannot be a child, or has one of the names in taken.
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

// call has the supervisor call do and returns its error. After an error do may still be called later,
// so the caller must not read a variable that do writes.
func (s Supervisor) call(ctx context.Context, do func(s *supervisor) error) error {
	_, err := Ask(ctx, s.ref, func(r Reply[struct{}]) command { return command{do, r} })
	return err
}

// Start starts a child and adds it after the others. It fails with Exists if a sibling has its
// name, Invalid if the child was not described correctly, or with the error of its Start method;
// then it is not added.
func (s Supervisor) Start(ctx context.Context, child Child) error {
	return s.call(ctx, func(s *supervisor) error { return s.start(child) })
}

// start is Supervisor.Start in the turn of the supervisor.
func (s *supervisor) start(child Child) error {
	if s.byName[child.name] != nil {
		return &mainstem.Error{Kind: mainstem.KindExists, Op: "start child " + child.name}
	}
	if err := child.validate(nil); err != nil {
		return err
	}
	_, err := s.add(child)
	return err
}

// Remove stops a child, as long as its Grace allows, and removes it. It fails with NotFound if
// there is no child of that name.
func (s Supervisor) Remove(ctx context.Context, name string) error {
	return s.withChild(ctx, name, func(s *supervisor, e *entry) error {
		s.halt(e)
		s.remove(e)
		return s.resumeOrStop()
	})
}

// Disable stops a child, as long as its Grace allows. It is not restarted until Enable. It fails
// with NotFound if there is no child of that name.
func (s Supervisor) Disable(ctx context.Context, name string) error {
	return s.withChild(ctx, name, func(s *supervisor, e *entry) error {
		s.halt(e)
		e.state = disabled
		return s.resumeOrStop()
	})
}

// Enable starts a child that is disabled, or has ended and was not restarted, like
// supervisor:restart_child. It is a new actor, with a new reference and an empty mailbox. Enable
// does nothing if the child runs, its restart is delayed, or it waits for that of a sibling. It fails
// with NotFound if there is no child of that name, or with the error of the Start method.
func (s Supervisor) Enable(ctx context.Context, name string) error {
	return s.withChild(ctx, name, func(s *supervisor, e *entry) error {
		if e.state != disabled && e.state != ended {
			return nil
		}
		return s.spawn(e)
	})
}

// withChild is call for a function that gets the child of a name. It fails with NotFound if there
// is none.
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
	Name string // "" if it was started by StartChild
	// State is running, delayed (until its restart), disabled, waiting (a sibling that was
	// restarted with it has failed to start), or ended.
	State    string
	Restarts int  // within the window of its limit that ended with its last restart
	Actor    Info // zero if it is disabled or ended
}

// Children describes the children in the order in which they start; those of a [Dynamic] supervisor
// in no particular order, and without those that are disabled or ended.
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
	if err != nil {
		return nil, err
	}
	return infos, nil
}

// ChildRef returns a reference to the child of a name. It fails with NotFound if there is no child
// of that name, or it is disabled or ended; Invalid if it takes other messages. The reference is
// valid until the child is disabled or removed, or ends and is not restarted.
func ChildRef[M any](ctx context.Context, s Supervisor, name string) (Ref[M], error) {
	var ref Ref[M]
	err := s.withChild(ctx, name, func(_ *supervisor, e *entry) (err error) {
		if e.core == nil {
			return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "find child " + name, Hint: "it is down"}
		}
		ref, err = refOf[M](e.core)
		return err
	})
	if err != nil {
		return Ref[M]{}, err
	}
	return ref, nil
}

// StartChild starts a child without a name under a supervisor, usually a [Dynamic] one, and returns
// a reference to it. When the child has ended and is not restarted, the supervisor removes it.
// StartChild fails with Invalid if the options do not fit, or with the error of the Start method.
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

// exceeded returns the exit reason of a supervisor whose limit a child has exceeded. It wraps
// Exceeded and the reason of the child.
func exceeded(name string, l Limit, reason error) error {
	return fmt.Errorf("%w: child %s: more than %d in %s: %w", Exceeded, name, l.Intensity, l.Window, reason)
}

// ChildSupervisor returns the supervisor that is the child of s with a name. It fails as [ChildRef]
// does.
func ChildSupervisor(ctx context.Context, s Supervisor, name string) (Supervisor, error) {
	ref, err := ChildRef[command](ctx, s, name)
	return Supervisor{ref}, err
}
