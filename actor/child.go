package actor

import (
	"errors"
	"time"

	"github.com/mainstemdev/mainstem/internal/backoff"
)

// Restart says when a supervisor restarts a child that has ended.
type Restart uint8

// The restart types.
const (
	Permanent Restart = iota // always
	Transient                // after a crash: see IsCrash
	Temporary                // never
)

var restartNames = [...]string{"permanent", "transient", "temporary"}

// String returns "permanent", "transient" or "temporary".
func (r Restart) String() string {
	if int(r) < len(restartNames) {
		return restartNames[r]
	}
	return "unknown restart type"
}

// Exceed says what happens when a child has been restarted too often.
type Exceed uint8

// What can happen.
const (
	StopSupervisor Exceed = iota // the supervisor ends with Exceeded
	DisableChild                 // the child stays down until Supervisor.Enable; the others go on
)

var exceedNames = [...]string{"stop supervisor", "disable child"}

// String returns "stop supervisor" or "disable child".
func (e Exceed) String() string {
	if int(e) < len(exceedNames) {
		return exceedNames[e]
	}
	return "unknown exceed"
}

// Limit bounds restarts: more than Intensity within Window is too often.
type Limit struct {
	Intensity int           // default 5; negative means that no restart is allowed
	Window    time.Duration // default 5 s
}

// The default of a [Limit].
const (
	DefaultIntensity = 5
	DefaultWindow    = 5 * time.Second
)

func (l *Limit) fill() {
	if l.Intensity == 0 {
		l.Intensity = DefaultIntensity
	}
	if l.Window == 0 {
		l.Window = DefaultWindow
	}
	l.Intensity = max(l.Intensity, 0)
}

// Backoff delays restarts: the first by Min, each further one within the window of
// the limit by twice as long, up to Max; Jitter takes a random part of up to that
// fraction (0 to 1) away. The zero Backoff does not delay.
type Backoff struct {
	Min, Max time.Duration
	Jitter   float64
}

func (b Backoff) delay(restarts int) time.Duration {
	return backoff.Policy{First: b.Min, Max: b.Max, Jitter: b.Jitter}.Delay(restarts)
}

func (b Backoff) validate() error {
	if b.Min < 0 || b.Max != 0 && b.Max < b.Min || b.Jitter < 0 || b.Jitter > 1 {
		return invalidf("Backoff %+v: want 0 <= Min <= Max and 0 <= Jitter <= 1", b)
	}
	return nil
}

// ChildOptions say how a supervisor keeps a child; nil means the defaults.
type ChildOptions struct {
	Options         // of the actor
	Restart Restart // default Permanent

	// Significant children count for [SupervisorOptions.AutoStop]. Default false.
	Significant bool
	// Limit, if not zero, is the child's own: its restarts do not count for its siblings.
	Limit Limit
	// Exceed says what happens beyond the child's own limit. Default StopSupervisor.
	Exceed Exceed
	// Backoff delays restarts of this child. Default: the supervisor's.
	Backoff Backoff
}

// defaultChild is what nil ChildOptions mean. Nothing writes to it.
var defaultChild ChildOptions

// Child describes a child of a supervisor. Make it with [NewChild] or [NewSupervisor].
type Child struct {
	name  string
	opts  *ChildOptions // shared by all children without options: there may be a million
	spawn func(parent *core) (*core, error)
	err   error
}

// Name returns the name of the child, unique among its siblings.
func (c Child) Name() string { return c.name }

// NewChild describes an actor that a supervisor starts, restarts and stops. name
// is unique among its siblings; Options.Name, which may differ, registers it on the
// node. fresh makes the actor's value anew for each incarnation. The child's [Ref]
// and its mailbox outlive restarts.
func NewChild[A Actor[M], M any](name string, fresh func() A, o *ChildOptions) Child {
	c := Child{name: name, opts: &defaultChild}
	if o != nil {
		own := *o
		c.opts = &own
	}
	set, err := newSettings(&c.opts.Options)
	c.err = errors.Join(err, c.opts.Backoff.validate())
	if c.opts.Restart > Temporary || c.opts.Exceed > DisableChild {
		c.err = errors.Join(c.err, invalidf("child %q: Restart %d, Exceed %d: there is no such choice", name, c.opts.Restart, c.opts.Exceed))
	}
	if c.opts.Limit != (Limit{}) {
		c.opts.Limit.fill()
	}
	c.spawn = func(parent *core) (*core, error) {
		var a Actor[M]
		if err := guard(func() error { a = fresh(); return nil }); err != nil {
			return nil, err
		}
		p, err := newProcess(parent.node, a, set)
		if err != nil {
			return nil, err
		}
		p.state.supervise()
		p.fresh = func() Actor[M] { return fresh() }
		if err := p.hatch(parent); err != nil {
			p.finalize(err)
			return nil, err
		}
		return &p.core, nil
	}
	return c
}
