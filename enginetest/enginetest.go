package enginetest

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Run runs the whole suite: every case that f selects, each on a log of its
// own, then random programs (see [RunPrograms]) and concurrent clients whose
// history is checked. open returns a new, empty log; the suite closes it.
//
// Each case is a subtest named after the law and the promise that it checks, so
// that -run TestConformance/law2 checks one law. A failure says which.
func Run(t *testing.T, f Features, open func(t *testing.T) mainstem.Log) {
	t.Helper()
	f = f.withDefaults()
	for _, c := range allCases() {
		if missing := c.needs &^ f.has(); missing != 0 {
			t.Logf("%s: not applicable without %s", c.title(), missing)
			continue
		}
		t.Run(c.title(), func(t *testing.T) { c.check(t, f, storeOf(t, f, open)) })
	}
	t.Run("programs", func(t *testing.T) { RunPrograms(t, f, open) })
}

// testCase is one promise and how to check it.
type testCase struct {
	law     Law
	name    string
	promise string // one sentence that a failure quotes
	needs   need
	run     func(e *env)
}

func (c testCase) title() string { return c.law.folder() + "/" + c.name }

// allCases returns every case, by law.
func allCases() []testCase {
	var all []testCase
	for _, group := range [][]testCase{
		opCases, getCases, manyCases, scanCases, readCases, feedCases, spaceCases, policyCases, expiryCases, clockCases, snapshotCases, refusalCases,
		atomicCases, orderedCases, durableCases, conditionalCases, notAfterCases, honestCases, idempotentCases, exactCases, liveCases, historyCases,
	} {
		all = append(all, group...)
	}
	return all
}

// reporter is the part of testing.TB that the suite uses. The suite's own tests
// run cases on a reporter that only takes notes.
type reporter interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Failed() bool
}

// store opens the logs of one case.
type store struct {
	open    func() mainstem.Log
	reopen  func(log mainstem.Log) mainstem.Log
	restore func(backup io.Reader) mainstem.Log
}

func storeOf(t *testing.T, f Features, open func(t *testing.T) mainstem.Log) store {
	return store{
		open:    func() mainstem.Log { t.Helper(); return open(t) },
		reopen:  func(log mainstem.Log) mainstem.Log { t.Helper(); return f.Reopen(t, log) },
		restore: func(backup io.Reader) mainstem.Log { t.Helper(); return f.Restore(t, backup) },
	}
}

// check runs the case on a new log and says on failure what was promised.
func (c testCase) check(r reporter, f Features, s store) {
	r.Helper()
	p := newProgress(12 * f.Patience)
	e := &env{reporter: r, ctx: p, progress: p, f: f, store: s, law: c.law}
	defer func() {
		if e.log != nil {
			e.finish()
		}
		p.stop()
		if r.Failed() {
			r.Logf("%s breaks %s: %s", c.title(), e.law, c.promise)
		}
	}()
	e.log = s.open()
	if err := guarded(func() error { e.declared(); c.run(e); return nil }); err != nil {
		e.Errorf("%v", err)
	}
}

// env is what a case works with. Its methods that return no error fail the case
// at once; they may be called by the goroutine of the case only.
type env struct {
	reporter
	ctx context.Context // of progress: ends when the case stands still
	log mainstem.Log
	f   Features
	law Law // what a failure breaks; that of the case unless the case knows better
	store
	progress *progress
}

// finish checks and closes the log of the case. A case that failed may leave a
// log behind that can do neither.
func (e *env) finish() {
	e.Helper()
	if c, ok := e.log.(mainstem.Checker); ok && !e.Failed() {
		_, err := c.Check(context.Background(), func(p mainstem.Problem) {
			e.Errorf("check after the case: %s: %s", p.Where, p.What)
		})
		if err != nil && mainstem.KindOf(err) != mainstem.KindClosed {
			e.Errorf("check after the case: %v", err)
		}
	}
	if err := e.closed(); err != nil {
		e.Errorf("close after the case: %v", err)
	}
}

// closed closes the log, which must come to an end.
func (e *env) closed() error {
	done := make(chan error, 1)
	go func() { done <- guarded(e.log.Close) }()
	select {
	case err := <-done:
		return err
	case <-time.After(e.f.Patience):
		select {
		case err := <-done: // both are there if the machine stood still
			return err
		default:
		}
		return fmt.Errorf("the call of Close has not returned after %v", e.f.Patience)
	}
}

// guarded calls f and returns its error, or its panic as an error.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// declared fails unless the optional interfaces of the log are those declared.
func (e *env) declared() {
	e.Helper()
	_, snapshot := e.log.(mainstem.Snapshotter)
	_, check := e.log.(mainstem.Checker)
	_, backup := e.log.(mainstem.Backuper)
	_, keeper := e.log.(mainstem.ClockKeeper)
	for _, d := range []struct {
		name           string
		declared, real bool
	}{
		{"Snapshot", e.f.Snapshot, snapshot},
		{"Check", e.f.Check, check},
		{"ClockKeeper", e.f.ClockKeeper, keeper},
		{"Restore", e.f.Restore != nil, backup},
	} {
		if d.declared != d.real {
			e.Fatalf("Features.%s declares %v, but whether %T offers it is %v", d.name, d.declared, e.log, d.real)
		}
	}
}

// restart closes the log and opens its store again.
func (e *env) restart() {
	e.Helper()
	if err := e.closed(); err != nil {
		e.Fatalf("close before reopen: %v", err)
	}
	e.log = e.reopen(e.log)
}

// sweeper is a log that can do its background work now.
type sweeper interface {
	Sweep(ctx context.Context) error
}

// pass lets d go by on the clock of the log. Without a clock it really waits.
func (e *env) pass(d time.Duration) {
	if e.f.Clock != nil {
		e.f.Clock.Advance(d)
		return
	}
	time.Sleep(d)
}

// sweep makes the engine do its background work now if it can be told to.
func (e *env) sweep() {
	e.Helper()
	if s, ok := e.log.(sweeper); ok {
		if err := s.Sweep(e.ctx); err != nil {
			e.Fatalf("sweep: %v", err)
		}
	}
}

// eventually calls ok until it returns nil, and fails with its last error when
// patience ends.
func (e *env) eventually(what string, ok func() error) {
	e.Helper()
	deadline := time.Now().Add(e.f.Patience)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		e.sweep()
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			e.Fatalf("%s: after %v still: %v", what, e.f.Patience, err)
		}
		time.Sleep(pause)
	}
}

// parallel runs work n times at once and fails with the first error.
func (e *env) parallel(n int, work func(i int) error) {
	e.Helper()
	if err := inParallel(n, work); err != nil {
		e.Fatalf("%v", err)
	}
}

func inParallel(n int, work func(i int) error) error {
	errs := make(chan error, n)
	for i := range n {
		go func() {
			err := guarded(func() error { return work(i) })
			if err != nil {
				err = fmt.Errorf("client %d: %w", i, err)
			}
			errs <- err
		}()
	}
	var first error
	for range n {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}
