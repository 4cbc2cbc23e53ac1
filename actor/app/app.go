package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
)

// Mode says what the end of an app means for the rest of its [Set]. An app ends when its supervisor
// ends by itself: because its restart intensity was exceeded, or as its AutoStop says.
type Mode uint8

// The modes.
const (
	Permanent Mode = iota // all apps stop, whatever the exit reason
	Transient             // all apps stop if the exit reason is a crash (see actor.IsCrash)
	Temporary             // the others go on
)

// String returns the mode's name in lower case.
func (m Mode) String() string {
	if m > Temporary {
		return "unknown mode"
	}
	return [...]string{"permanent", "transient", "temporary"}[m]
}

// App describes an application.
type App struct {
	// Name is unique in the Set and not empty.
	Name string
	// Needs are the names of the apps that must start before this one and stop after it.
	Needs []string
	// Mode says what the end of this app means for the others. Default [Permanent].
	Mode Mode
	// Supervisor are the options of the app's supervisor. With the strategy Dynamic there can be
	// neither Children nor a Start or Stop function.
	Supervisor actor.SupervisorOptions
	// Children start in order and stop in reverse order.
	Children []actor.Child
	// Start is called before the first child starts. If it fails, the app fails to start. Start
	// and Stop are called by the first child of the app, which the Set adds: with the strategy
	// AllForOne they are also called when all children are restarted.
	Start func() error
	// Stop is called after the last child has stopped, if Start has returned nil.
	Stop func()
}

// Options configure a [Set]; nil means the defaults.
type Options struct {
	// Name registers the set's supervisor. Default: none.
	Name string
	// Only are the names of the apps to start, with all that they need. Default: all.
	Only []string
}

// Set are the apps of a program. It is safe for concurrent use.
type Set struct {
	sup  actor.Supervisor // its children are the supervisors of the apps that were ever started
	apps map[string]*App  // all apps, by name; not changed after Start
	rank []string         // all names, each after those that it needs; not changed after Start

	turn chan struct{} // of capacity 1: full while Set.Start or Set.Stop runs
}

// Start starts apps: each after those that it needs, otherwise in the order of the arguments. The
// supervisor of the set is spawned from s. Start fails with Invalid if a name is empty or given
// twice, an app needs one that is not given, or apps need each other in a cycle; with NotFound if
// [Options.Only] has a name that is not given; or with the error of the app that fails to start.
func Start(s actor.Spawner, o *Options, apps ...App) (*Set, error) {
	if o == nil {
		o = &Options{}
	}
	set := &Set{apps: make(map[string]*App), turn: make(chan struct{}, 1)}
	for _, a := range apps {
		if a.Name == "" || set.apps[a.Name] != nil || a.Mode > Temporary {
			return nil, mainstem.Errorf(mainstem.KindInvalid, "start apps", "app %q, %s: want a name of its own and a mode", a.Name, a.Mode)
		}
		set.apps[a.Name] = &a
	}
	for _, a := range apps {
		if err := set.sort(a.Name, nil); err != nil {
			return nil, err
		}
	}
	first := set.rank
	if o.Only != nil {
		var err error
		if first, err = set.needs(o.Only...); err != nil {
			return nil, err
		}
	}
	var children []actor.Child
	for _, name := range first {
		children = append(children, set.apps[name].child())
	}
	var err error
	set.sup, err = actor.Supervise(s, &actor.SupervisorOptions{Name: o.Name}, children...)
	if err != nil {
		return nil, err
	}
	return set, nil
}

// sort appends a name to the rank, after all that it needs. path are the names through which it was
// reached, each of which needs the next one.
func (s *Set) sort(name string, path []string) error {
	path = append(path, name)
	switch {
	case slices.Contains(s.rank, name):
		return nil
	case slices.Contains(path[:len(path)-1], name):
		return mainstem.Errorf(mainstem.KindInvalid, "start apps", "apps need each other in a circle: %s", strings.Join(path[slices.Index(path, name):], " needs "))
	case s.apps[name] == nil:
		return mainstem.Errorf(mainstem.KindInvalid, "start apps", "app %q needs %q, which is not there", path[max(0, len(path)-2)], name)
	}
	for _, need := range s.apps[name].Needs {
		if err := s.sort(need, path); err != nil {
			return err
		}
	}
	s.rank = append(s.rank, name)
	return nil
}

// needs returns names and all apps that they need, directly or not, in order of rank.
func (s *Set) needs(names ...string) ([]string, error) {
	wanted := make(map[string]bool)
	for _, name := range names {
		if s.apps[name] == nil {
			return nil, notFound(name)
		}
		wanted[name] = true
	}
	for _, name := range slices.Backward(s.rank) {
		if wanted[name] {
			for _, need := range s.apps[name].Needs {
				wanted[need] = true
			}
		}
	}
	return s.ranked(wanted), nil
}

// neededBy returns a name and all apps that need it, directly or not, in order of rank.
func (s *Set) neededBy(name string) []string {
	found := map[string]bool{name: true}
	for _, other := range s.rank {
		if slices.ContainsFunc(s.apps[other].Needs, func(need string) bool { return found[need] }) {
			found[other] = true
		}
	}
	return s.ranked(found)
}

// ranked returns the names that are in a set, in order of rank.
func (s *Set) ranked(in map[string]bool) []string {
	return slices.DeleteFunc(slices.Clone(s.rank), func(name string) bool { return !in[name] })
}

// child describes the app's supervisor as a child of the supervisor of the set. No restart is
// allowed: the first one exceeds the limit, which ends the set, or, of a Temporary app, disables
// the child.
func (a *App) child() actor.Child {
	o := &actor.ChildOptions{Limit: actor.Limit{Intensity: -1}}
	switch a.Mode {
	case Transient:
		o.Restart = actor.Transient
	case Temporary:
		o.Restart, o.Exceed = actor.Transient, actor.DisableChild
	}
	children := a.Children
	if a.Start != nil || a.Stop != nil {
		// The first child to start is the last to stop.
		hooks := actor.NewChild(hooksName, func() *hooks { return &hooks{a: a} }, nil)
		children = append([]actor.Child{hooks}, children...)
	}
	return actor.NewSupervisor(a.Name, &a.Supervisor, o, children...)
}

// hooksName is the name of the child that calls App.Start and App.Stop.
const hooksName = "start and stop"

// hooks is an actor that calls App.Start and App.Stop when it starts and stops.
type hooks struct {
	a       *App
	started bool // App.Start has returned nil, or there is none
}

func (h *hooks) Start(*actor.Context[struct{}]) error {
	if h.a.Start != nil {
		if err := h.a.Start(); err != nil {
			return fmt.Errorf("app %s: %w", h.a.Name, err)
		}
	}
	h.started = true
	return nil
}

func (h *hooks) Receive(*actor.Context[struct{}], struct{}) error { return nil }

func (h *hooks) Stop(*actor.Context[struct{}], error) {
	if h.a.Stop != nil && h.started {
		h.a.Stop()
	}
}

func notFound(name string) error {
	return &mainstem.Error{Kind: mainstem.KindNotFound, Op: fmt.Sprintf("find app %q", name)}
}

// Ref returns a reference to the supervisor of all apps, to wait for its end or to stop all apps.
func (s *Set) Ref() actor.AnyRef { return s.sup.Ref() }

// App returns the supervisor of an app. It fails with NotFound if there is no app of that name or
// it does not run.
func (s *Set) App(ctx context.Context, name string) (actor.Supervisor, error) {
	return actor.ChildSupervisor(ctx, s.sup, name)
}

// Start starts an app and all apps that it needs, as far as they do not run. Apps that run without
// an app that they need, which is started now, are stopped before and started after it. Start fails
// with NotFound if there is no app of that name, or with the error of the app that fails to start:
// those that were started before that one run on.
func (s *Set) Start(ctx context.Context, name string) error {
	return s.inTurn(ctx, func(states map[string]string) error {
		names, err := s.needs(name)
		if err != nil {
			return err
		}
		start := make(map[string]bool)
		for _, n := range names {
			if states[n] == running {
				continue
			}
			start[n] = true
			for _, other := range s.neededBy(n) {
				start[other] = start[other] || states[other] == running
			}
		}
		return s.start(ctx, s.ranked(start), states)
	})
}

// start stops those of some apps that run, and then starts all of them. names are in order of rank.
func (s *Set) start(ctx context.Context, names []string, states map[string]string) error {
	if err := s.stop(ctx, names, states); err != nil {
		return err
	}
	for _, n := range names {
		var err error
		if _, known := states[n]; known {
			err = s.sup.Enable(ctx, n)
		} else {
			err = s.sup.Start(ctx, s.apps[n].child())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stop stops those of some apps that run, in reverse order. names are in order of rank.
func (s *Set) stop(ctx context.Context, names []string, states map[string]string) error {
	for _, n := range slices.Backward(names) {
		if states[n] == running {
			if err := s.sup.Disable(ctx, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// Stop stops an app, after all apps that need it. The other apps run on, whatever the Mode. Stop
// fails with NotFound if there is no app of that name.
func (s *Set) Stop(ctx context.Context, name string) error {
	return s.inTurn(ctx, func(states map[string]string) error {
		if s.apps[name] == nil {
			return notFound(name)
		}
		return s.stop(ctx, s.neededBy(name), states)
	})
}

// running is the ChildInfo.State of an app that runs.
const running = "running"

// inTurn calls f with the states of the apps that were ever started, by name. One call runs at a
// time.
func (s *Set) inTurn(ctx context.Context, f func(states map[string]string) error) error {
	began := time.Now()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return mainstem.Ended(ctx, "start or stop apps", began, "another start or stop of apps")
	}
	children, err := s.sup.Children(ctx)
	if err != nil {
		return err
	}
	states := make(map[string]string)
	for _, k := range children {
		states[k.Name] = k.State
	}
	return f(states)
}

// Info describes an app.
type Info struct {
	Name    string
	Needs   []string
	Mode    Mode
	Running bool
	Actor   actor.Info // of its supervisor; zero if it does not run
}

// List describes all apps, each after those that it needs. The slice is the caller's.
func (s *Set) List(ctx context.Context) ([]Info, error) {
	children, err := s.sup.Children(ctx)
	if err != nil {
		return nil, err
	}
	var infos []Info
	for _, name := range s.rank {
		a := s.apps[name]
		i := Info{Name: name, Needs: slices.Clone(a.Needs), Mode: a.Mode}
		for _, k := range children {
			if k.Name == name {
				i.Running, i.Actor = k.State == running, k.Actor
			}
		}
		infos = append(infos, i)
	}
	return infos, nil
}
