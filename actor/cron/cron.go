package cron

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
)

// Limits.
const (
	MaxJobs = 100_000
	Look    = time.Minute // the longest time between two looks at the clock
)

// Job is what is done again and again.
type Job struct {
	// Name tells the job from others of the same Cron.
	Name string
	// Spec says when it is due.
	Spec string
	// Location is whose time Spec is in. Default: local time. CRON_TZ in the spec goes before.
	Location *time.Location
	// Do does it. c is the context of the cron's actor, from which others can be
	// spawned; due is when it should have been done. It must not block for long.
	Do func(c *actor.Context[Command], due time.Time) error
	// Disabled jobs wait for [Cron.Enable].
	Disabled bool
}

// Send returns a job that sends an actor a message, which message makes. An error
// of sending is the job's: it is logged and shown, and the job stays.
func Send[M any](name, spec string, to actor.Ref[M], message func(due time.Time) M) Job {
	return Job{Name: name, Spec: spec, Do: func(c *actor.Context[Command], due time.Time) error {
		return to.Send(c, message(due))
	}}
}

// Info describes a job.
type Info struct {
	Name, Spec string
	Disabled   bool
	Next       time.Time // when it is due next; zero if it is disabled
	Last       time.Time // when it was due last and done; zero if it never was
	Runs       uint64    // how often it was done
	Err        error     // of the last time
}

// Cron refers to an actor with jobs.
type Cron struct{ ref actor.Ref[Command] }

// Command is the message of a cron's actor. The methods of [Cron] send it.
type Command struct {
	do   func(t *table) error
	done actor.Reply[struct{}]
}

// Start spawns an actor with jobs. It fails with Invalid if one of them is not good,
// and as [actor.Spawn] does. o may be nil.
func Start(s actor.Spawner, o *actor.Options, jobs ...Job) (Cron, error) {
	ref, err := actor.Spawn(s, newTable(jobs), o)
	return Cron{ref}, err
}

// NewChild describes a cron for a supervisor. A restart begins with the jobs that are
// given here. [actor.ChildRef] finds the child, [Of] makes a Cron of it.
func NewChild(name string, o *actor.ChildOptions, jobs ...Job) actor.Child {
	return actor.NewChild(name, func() *table { return newTable(jobs) }, o)
}

// Of returns the cron of an actor that [Start] or [NewChild] made.
func Of(ref actor.Ref[Command]) Cron { return Cron{ref} }

// Ref returns the reference of the cron's actor.
func (c Cron) Ref() actor.Ref[Command] { return c.ref }

// Add adds a job. It fails with Exists if there is one of that name, Invalid if the
// job is not good.
func (c Cron) Add(ctx context.Context, j Job) error {
	return c.call(ctx, func(t *table) error { return t.add(j) })
}

// Remove takes a job away. It fails with NotFound if there is none of that name.
func (c Cron) Remove(ctx context.Context, name string) error {
	return c.with(ctx, name, func(t *table, e *entry) error {
		e.rest()
		delete(t.jobs, name)
		return nil
	})
}

// Disable keeps a job from being done until Enable. It fails with NotFound.
func (c Cron) Disable(ctx context.Context, name string) error {
	return c.with(ctx, name, func(_ *table, e *entry) error {
		e.rest()
		e.info.Disabled, e.info.Next = true, time.Time{}
		return nil
	})
}

// Enable lets a job be done again, from when it is due next. It fails with NotFound.
func (c Cron) Enable(ctx context.Context, name string) error {
	return c.with(ctx, name, func(t *table, e *entry) error {
		if !e.info.Disabled {
			return nil
		}
		e.info.Disabled = false
		return t.plan(e)
	})
}

// Run does a job now, besides when it is due, and returns its error. It fails with NotFound.
func (c Cron) Run(ctx context.Context, name string) error {
	return c.with(ctx, name, func(t *table, e *entry) error {
		t.do(e, time.Now())
		return e.info.Err
	})
}

// Jobs describes the jobs, by name.
func (c Cron) Jobs(ctx context.Context) ([]Info, error) {
	var infos []Info
	err := c.call(ctx, func(t *table) error {
		for _, e := range t.jobs {
			infos = append(infos, e.info)
		}
		return nil
	})
	slices.SortFunc(infos, func(a, b Info) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return infos, err
}

func (c Cron) call(ctx context.Context, do func(*table) error) error {
	_, err := actor.Ask(ctx, c.ref, func(r actor.Reply[struct{}]) Command { return Command{do, r} })
	return err
}

func (c Cron) with(ctx context.Context, name string, do func(*table, *entry) error) error {
	return c.call(ctx, func(t *table) error {
		e := t.jobs[name]
		if e == nil {
			return &mainstem.Error{Kind: mainstem.KindNotFound, Op: fmt.Sprintf("find job %q", name)}
		}
		return do(t, e)
	})
}

// table is the value of the actor: its jobs.
type table struct {
	first []Job
	jobs  map[string]*entry
	self  *actor.Context[Command]
}

// entry is a job and when it is due.
type entry struct {
	job   Job
	when  schedule
	timer *actor.Timer // nil while it rests
	info  Info
}

func newTable(jobs []Job) *table {
	return &table{first: slices.Clone(jobs), jobs: make(map[string]*entry)}
}

// Start plans the first jobs.
func (t *table) Start(c *actor.Context[Command]) error {
	t.self = c
	for _, j := range t.first {
		if err := t.add(j); err != nil {
			return err
		}
	}
	return nil
}

// Receive does what a method of Cron asks for.
func (t *table) Receive(_ *actor.Context[Command], m Command) error {
	if m.do == nil {
		return nil
	}
	if err := m.do(t); err != nil {
		_ = m.done.Fail(err) // nobody waits any more: nothing to tell
		return nil
	}
	_ = m.done.Send(struct{}{})
	return nil
}

// Inspect shows how many jobs there are.
func (t *table) Inspect() map[string]string {
	return map[string]string{"jobs": fmt.Sprint(len(t.jobs))}
}

func (t *table) add(j Job) error {
	op := fmt.Sprintf("add job %q", j.Name)
	switch {
	case j.Name == "" || j.Do == nil:
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: op, Hint: "a job needs a Name and a Do"}
	case t.jobs[j.Name] != nil:
		return &mainstem.Error{Kind: mainstem.KindExists, Op: op}
	case len(t.jobs) >= MaxJobs:
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: op, Hint: fmt.Sprintf("there are %d jobs, which is the limit", MaxJobs)}
	}
	when, err := parse(j.Spec, j.Location)
	if err != nil {
		return err
	}
	e := &entry{job: j, when: when, info: Info{Name: j.Name, Spec: j.Spec, Disabled: j.Disabled}}
	if !j.Disabled {
		if err := t.plan(e); err != nil {
			return err
		}
	}
	t.jobs[j.Name] = e
	return nil
}

// plan finds out when e is due next and waits for it.
func (t *table) plan(e *entry) error {
	e.info.Next = e.when.next(time.Now())
	if e.info.Next.IsZero() {
		return invalid(e.job.Spec, fmt.Errorf("it is never due in the next five years"))
	}
	t.wait(e)
	return nil
}

// wait looks at e when it is due, as far as the clock says now.
func (t *table) wait(e *entry) {
	e.timer = t.self.After(min(time.Until(e.info.Next), Look), func() error {
		if time.Now().Round(0).Before(e.info.Next) {
			t.wait(e)
			return nil
		}
		t.do(e, e.info.Next)
		if err := t.plan(e); err != nil {
			e.info.Err = err
		}
		return nil
	})
}

// rest keeps e from being done.
func (e *entry) rest() {
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
}

// do does e and notes how that went.
func (t *table) do(e *entry, due time.Time) {
	e.info.Last, e.info.Runs = due, e.info.Runs+1
	e.info.Err = guard(func() error { return e.job.Do(t.self, due) })
	if e.info.Err != nil {
		t.self.Log().Warn("a job failed", slog.String("job", e.job.Name), slog.Time("due", due), slog.Any("err", e.info.Err))
	}
}

// guard turns a panic of f into an error.
func guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &actor.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}
