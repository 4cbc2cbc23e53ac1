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
	MaxJobs = 100_000     // jobs of one Cron
	Look    = time.Minute // the longest time between two readings of the clock for a job
)

// Job describes a job.
type Job struct {
	// Name is unique among the jobs of a Cron. It must not be empty.
	Name string
	// Spec says when the job is due; see the package comment.
	Spec string
	// Location is the time zone of Spec. Default: local time. CRON_TZ in Spec has precedence.
	Location *time.Location
	// Do runs the job. c is the context of the cron's actor, from which it may spawn children; due
	// is the time at which the job was due. Do should not block. It must be set.
	Do func(c *actor.Context[Command], due time.Time) error
	// Disabled jobs do not run until [Cron.Enable]. Default false.
	Disabled bool
}

// Send returns a job that sends a message to an actor. message makes it, in the turn of the cron's
// actor. An error of sending is that of the job: it is logged and shown, and the job stays.
func Send[M any](name, spec string, to actor.Ref[M], message func(due time.Time) M) Job {
	return Job{Name: name, Spec: spec, Do: func(c *actor.Context[Command], due time.Time) error {
		return to.Send(c, message(due))
	}}
}

// Info describes a job.
type Info struct {
	Name, Spec string
	Disabled   bool
	Next       time.Time // when it is due next; zero if it is disabled, or not due within five years
	Last       time.Time // the due time of its last run; zero if it has not run
	Runs       uint64    // how often it has run
	Err        error     // the error of its last run, or why it is not due any more; else nil
}

// Cron is a reference to an actor with jobs. It is a value. Its methods ask the actor and wait as
// long as ctx allows; they fail with the errors of [actor.Ask], too.
type Cron struct{ ref actor.Ref[Command] }

// Command is the message type of a cron's actor. Only the methods of [Cron] make commands.
type Command struct {
	do   func(t *table) error  // called in the actor's turn; nil in the zero Command
	done actor.Reply[struct{}] // gets the error of do
}

// Start spawns an actor with jobs. It fails with Invalid or Exists if one of the jobs cannot be
// added, see [Cron.Add], and as [actor.Spawn] does. o may be nil.
func Start(s actor.Spawner, o *actor.Options, jobs ...Job) (Cron, error) {
	ref, err := actor.Spawn(s, newTable(jobs), o)
	return Cron{ref}, err
}

// NewChild describes a cron as a child of a supervisor. After a restart it has the jobs that are
// given here, without the changes since. [actor.ChildRef] returns the reference of the child, and
// [Of] makes a Cron of it.
func NewChild(name string, o *actor.ChildOptions, jobs ...Job) actor.Child {
	return actor.NewChild(name, func() *table { return newTable(jobs) }, o)
}

// Of returns the Cron of the actor of a [NewChild], or of any other cron's actor.
func Of(ref actor.Ref[Command]) Cron { return Cron{ref} }

// Ref returns the reference of the cron's actor.
func (c Cron) Ref() actor.Ref[Command] { return c.ref }

// Add adds a job. It fails with Exists if there is one of that name; Invalid if the job has no Name
// or no Do, its spec cannot be parsed or is not due within five years, or there are [MaxJobs] jobs.
func (c Cron) Add(ctx context.Context, j Job) error {
	return c.call(ctx, func(t *table) error { return t.add(j) })
}

// Remove removes a job. It fails with NotFound if there is none of that name.
func (c Cron) Remove(ctx context.Context, name string) error {
	return c.with(ctx, name, func(t *table, e *entry) error {
		e.rest()
		delete(t.jobs, name)
		return nil
	})
}

// Disable keeps a job from running until Enable. It fails with NotFound if there is none of that
// name.
func (c Cron) Disable(ctx context.Context, name string) error {
	return c.with(ctx, name, func(_ *table, e *entry) error {
		e.rest()
		e.info.Disabled, e.info.Next = true, time.Time{}
		return nil
	})
}

// Enable lets a disabled job run again, from the next time at which it is due. It fails with
// NotFound if there is none of that name, Invalid if the job is not due within five years; then it
// stays disabled.
func (c Cron) Enable(ctx context.Context, name string) error {
	return c.with(ctx, name, func(t *table, e *entry) error {
		if !e.info.Disabled {
			return nil
		}
		if err := t.plan(e); err != nil {
			return err
		}
		e.info.Disabled = false
		return nil
	})
}

// Run runs a job now, even if it is disabled, and returns its error. When it is due next does not
// change. Run fails with NotFound if there is none of that name.
func (c Cron) Run(ctx context.Context, name string) error {
	return c.with(ctx, name, func(t *table, e *entry) error {
		t.do(e, time.Now())
		return e.info.Err
	})
}

// Jobs describes the jobs, in the order of their names. The slice is the caller's.
func (c Cron) Jobs(ctx context.Context) ([]Info, error) {
	var infos []Info
	err := c.call(ctx, func(t *table) error {
		for _, e := range t.jobs {
			infos = append(infos, e.info)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(infos, func(a, b Info) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return infos, nil
}

// call has the actor call do and returns its error. After an error do may still be called later, so
// the caller must not read a variable that do writes.
func (c Cron) call(ctx context.Context, do func(*table) error) error {
	_, err := actor.Ask(ctx, c.ref, func(r actor.Reply[struct{}]) Command { return Command{do, r} })
	return err
}

// with is call for a function that gets the job of a name. It fails with NotFound if there is none.
func (c Cron) with(ctx context.Context, name string, do func(*table, *entry) error) error {
	return c.call(ctx, func(t *table) error {
		e := t.jobs[name]
		if e == nil {
			return &mainstem.Error{Kind: mainstem.KindNotFound, Op: fmt.Sprintf("find job %q", name)}
		}
		return do(t, e)
	})
}

// table is the value of the actor: its jobs. All fields belong to its turn.
type table struct {
	first []Job             // those that Start adds
	jobs  map[string]*entry // by name
	self  *actor.Context[Command]
}

// entry is a job with its schedule.
type entry struct {
	job   Job
	when  schedule
	timer *actor.Timer // reads the clock again; nil while the job is disabled
	info  Info
}

func newTable(jobs []Job) *table {
	return &table{first: slices.Clone(jobs), jobs: make(map[string]*entry)}
}

// Start adds the first jobs.
func (t *table) Start(c *actor.Context[Command]) error {
	t.self = c
	for _, j := range t.first {
		if err := t.add(j); err != nil {
			return err
		}
	}
	return nil
}

// Receive runs a call of a method of Cron.
func (t *table) Receive(_ *actor.Context[Command], m Command) error {
	if m.do == nil {
		return nil
	}
	if err := m.do(t); err != nil {
		_ = m.done.Fail(err) // fails if the caller has stopped waiting
		return nil
	}
	_ = m.done.Send(struct{}{})
	return nil
}

// Inspect shows how many jobs there are.
func (t *table) Inspect() map[string]string {
	return map[string]string{"jobs": fmt.Sprint(len(t.jobs))}
}

// add adds a job; see Cron.Add.
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

// plan computes when e is due next and sets its timer. It fails with Invalid if e is not due within
// five years.
func (t *table) plan(e *entry) error {
	e.info.Next = e.when.next(time.Now())
	if e.info.Next.IsZero() {
		return invalid(e.job.Spec, fmt.Errorf("it is never due in the next five years"))
	}
	t.wait(e)
	return nil
}

// wait sets the timer of e to the due time, as far as the clock says now, but to Look at most. When
// it fires, the clock is read again: if e is due, it runs, else wait is called again. So the due
// time holds also when the clock was set, which a timer, running on the monotonic clock, does not
// notice.
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

// rest stops the timer of e.
func (e *entry) rest() {
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
}

// do runs e for a due time and records the result.
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
