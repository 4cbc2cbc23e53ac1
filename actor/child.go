package actor

import (
	"errors"
	"time"

	"github.com/mainstemdev/mainstem/internal/backoff"
)

// Restart is the restart type of a child: it says after which ends its supervisor restarts it.
type Restart uint8

// The restart types, as in OTP.
const (
	Permanent Restart = iota // after every end
	Transient                // after a crash: see IsCrash
	Temporary                // never, not even with its siblings
)

var restartNames = [...]string{"permanent", "transient", "temporary"}

// String returns "permanent", "transient" or "temporary".
func (r Restart) String() string {
	if int(r) < len(restartNames) {
		return restartNames[r]
	}
	return "unknown restart type"
}

// Exceed says what a supervisor does when the limit of a child's own is exceeded. OTP has no
// counterpart: there the supervisor ends.
type Exceed uint8

// The choices.
const (
	StopSupervisor Exceed = iota // the supervisor ends with Exceeded
	DisableChild                 // the child stays ended until Supervisor.Enable; the others go on
)

var exceedNames = [...]string{"stop supervisor", "disable child"}

// String returns "stop supervisor" or "disable child".
func (e Exceed) String() string {
	if int(e) < len(exceedNames) {
		return exceedNames[e]
	}
	return "unknown exceed"
}

// Limit is the restart intensity: if there are more than Intensity restarts within Window, the
// limit is exceeded. Window is the period of OTP.
type Limit struct {
	Intensity int           // default 5 (OTP: 1); negative means that no restart is allowed
	Window    time.Duration // default 5 s; must not be negative
}

// The defaults of a [Limit].
const (
	DefaultIntensity = 5
	DefaultWindow    = 5 * time.Second
)

// fill sets the defaults and makes a negative Intensity 0.
func (l *Limit) fill() {
	if l.Intensity == 0 {
		l.Intensity = DefaultIntensity
	}
	if l.Window == 0 {
		l.Window = DefaultWindow
	}
	l.Intensity = max(l.Intensity, 0)
}

func (l Limit) validate() error {
	if l.Window < 0 {
		return invalidf("Limit.Window is %s: want 0 (the default, %s) or more", l.Window, DefaultWindow)
	}
	return nil
}

// Backoff delays restarts, which OTP does not. The first restart of a child is delayed by Min, each
// further one within the window of the limit by twice as long as the one before. The zero Backoff
// does not delay.
type Backoff struct {
	// Min is the first delay; 0 means no delay. Max is the longest; 0 means that all are Min.
	Min, Max time.Duration
	// Jitter shortens each delay by a random part of up to this fraction of it: 0 (none) to 1.
	Jitter float64
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

// ChildOptions say how a supervisor treats a child; nil means the defaults. They are copied.
type ChildOptions struct {
	Options         // of the actor; Grace is the shutdown time of an OTP child spec
	Restart Restart // default Permanent

	// Significant children count for [SupervisorOptions.AutoStop]. Default false.
	Significant bool
	// Limit, if it is not zero, is the child's own limit: its restarts count for this limit and
	// not for that of the supervisor. Default: the supervisor's limit.
	Limit Limit
	// Exceed says what happens when the child's own limit is exceeded. Default StopSupervisor.
	Exceed Exceed
	// Backoff delays restarts of this child. Default: the supervisor's.
	Backoff Backoff
}

// defaultChild are the options of children without options. Nothing writes to it.
var defaultChild ChildOptions

// Child is a child spec: the description of a child of a supervisor. Make it with [NewChild] or
// [NewSupervisor]. It is a value that several supervisors may use.
type Child struct {
	name  string
	opts  *ChildOptions // shared by all children without options: there may be a million
	spawn func(parent *core) (*core, error)
	err   error // a mistake in the arguments of NewChild, for Supervise and Supervisor.Start
}

// Name returns the name of the child: the id of an OTP child spec.
func (c Child) Name() string { return c.name }

// NewChild describes an actor that a supervisor starts, restarts and stops. name must be unique
// among its siblings; Options.Name, which may differ, registers the actor on the node. fresh makes
// the value of each incarnation; the goroutine of the supervisor calls it. Unlike in OTP the
// reference to the child and its mailbox outlive restarts.
//
// A mistake in the options is reported as Invalid when the child is given to a supervisor.
func NewChild[A Actor[M], M any](name string, fresh func() A, o *ChildOptions) Child {
	c := Child{name: name, opts: &defaultChild}
	if o != nil {
		own := *o
		c.opts = &own
	}
	set, err := newSettings(&c.opts.Options)
	c.err = errors.Join(err, c.opts.Backoff.validate(), c.opts.Limit.validate())
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
