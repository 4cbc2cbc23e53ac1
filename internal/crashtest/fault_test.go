package crashtest_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/crashtest"
)

var diskErrors = []error{syscall.EIO, syscall.ENOSPC, errorfs.ErrInjected}

// TestFault lets the file operations of a workload (see -crash.every) fail in turn:
// once, and from then on without end.
func TestFault(t *testing.T) {
	for _, seed := range seeds(1, 30) {
		shape := crashtest.Shape{Seed: seed, Steps: 34, Durability: mainstem.Fsync, Mixed: true, Big: true}
		w := generate(t, shape)
		for _, permanent := range []bool{false, true} {
			t.Run(fmt.Sprintf("seed=%d/forever=%v", seed, permanent), func(t *testing.T) {
				t.Parallel()
				failEach(t, w, shape.Durability, permanent, nil)
			})
		}
	}
}

// failEach runs w with a fault at one operation after another (see -crash.every), until
// a run does not reach the fault any more.
func failEach(t *testing.T, w *crashtest.Workload, d mainstem.Durability, permanent bool, only func(errorfs.Op) bool) {
	t.Helper()
	chosen, runs := sample(t), 0
	for i := 1; ; i++ {
		if !chosen(i) {
			continue
		}
		f := &crashtest.Fault{At: i, Permanent: permanent, Err: diskErrors[i%len(diskErrors)], Only: only}
		r := faultRun{w: w, f: f, d: d, mem: vfs.NewMem()}
		if err := r.run(); err != nil {
			t.Fatalf("seed %d: %v: %v", w.Seed, f, err)
		}
		if f.First() == "" {
			t.Logf("%d of at most %d operations failed, one by one", runs, i-1)
			return
		}
		runs++
	}
}

// faultRun is one run of a workload on a file system with a fault.
type faultRun struct {
	w   *crashtest.Workload
	f   *crashtest.Fault
	d   mainstem.Durability
	mem *vfs.MemFS

	log    *pebblelog.Log
	clock  crashtest.Clock
	lo, hi int // steps that the log holds, at least and at most
}

func (r *faultRun) run() error {
	if err := crashtest.Within("the run", r.withFault); err != nil {
		return err
	}
	r.f.Heal()
	return crashtest.Within("opening again", r.afterwards)
}

func (r *faultRun) withFault() error {
	l, err := pebblelog.Open(dir, options(r.f.Wrap(r.mem), &r.clock, r.d))
	if err != nil {
		return r.honest(err)
	}
	r.log = l
	ctx := context.Background()
	for n := 1; n <= len(r.w.Steps); n++ {
		if err := r.w.Do(ctx, l, &r.clock, n); err != nil {
			if err := r.failedAt(ctx, n, err); err != nil {
				return errors.Join(err, l.Close())
			}
			break
		}
		r.hi = n
		if !r.w.Steps[n-1].Action.Single() && l.Stats().ReadOnly {
			r.lo = n - 1 // the log's own sweep did the work, and its outcome is unknown
			break
		}
		r.lo = n
	}
	return r.honest(l.Close())
}

// honest returns an error unless err is nil or one that a disk error explains.
func (r *faultRun) honest(err error) error {
	if err == nil {
		return nil
	}
	var e *mainstem.Error
	switch {
	case r.f.First() == "":
		return fmt.Errorf("failed before the fault: %w", err)
	case !errors.As(err, &e):
		return fmt.Errorf("not an error of the contract: %w", err)
	case e.Kind != mainstem.KindUnavailable && !(e.Kind == mainstem.KindInternal && r.f.Err == errorfs.ErrInjected):
		return fmt.Errorf("kind %s: %w", e.Kind, err)
	case !errors.Is(err, r.f.Err):
		return fmt.Errorf("does not wrap the cause: %w", err)
	}
	return nil
}

// failedAt judges the error of step n and what the log does after it.
func (r *faultRun) failedAt(ctx context.Context, n int, err error) error {
	if herr := r.honest(err); herr != nil {
		return fmt.Errorf("step %d (%s): %w", n, r.w.Steps[n-1].Action, herr)
	}
	var e *mainstem.Error
	errors.As(err, &e)
	r.lo, r.hi = n-1, n-1
	commit := r.w.Steps[n-1].Action == crashtest.Commit
	switch {
	case commit && e.Outcome == mainstem.NoOutcome:
		return fmt.Errorf("step %d (commit): an error without an outcome: %w", n, err)
	case !commit || e.Outcome == mainstem.Unknown:
		r.hi = n
	}
	r.f.SpareReads()
	if !r.log.Stats().ReadOnly {
		return r.goOn(ctx, n)
	}
	if rerr := r.readable(ctx, n); rerr != nil {
		return fmt.Errorf("after step %d (%s) failed (%v): %w", n, r.w.Steps[n-1].Action, err, rerr)
	}
	b := mainstem.NewBatch()
	b.Ensure("more", mainstem.Policy{})
	b.Put("more", []byte("k"), nil)
	if _, err := r.log.Commit(ctx, b); !errors.As(err, &e) || e.Kind != mainstem.KindUnavailable || e.Outcome != mainstem.NotWritten {
		return fmt.Errorf("a commit after the failure: %v; want unavailable, not written", err)
	}
	return nil
}

// readable checks that everything acknowledged can be read. A read may share the
// error of one in the background that began before reads were spared: it is tried again.
func (r *faultRun) readable(ctx context.Context, n int) error {
	for try := 0; ; try++ {
		err := r.w.Readable(ctx, r.log, &r.clock, n)
		if err == nil || try == 3 || !errors.Is(err, r.f.Err) {
			return err
		}
	}
}

// goOn does the remaining steps on a log that refused step n but lives on.
func (r *faultRun) goOn(ctx context.Context, n int) error {
	if r.f.Permanent {
		return nil // everything is refused, politely
	}
	// A memtable that could not be written out is tried again; until then commits are refused.
	var err error
	_ = crashtest.Eventually(func() error {
		if _, err = r.log.Commit(ctx, mainstem.NewBatch()); mainstem.KindOf(err) == mainstem.KindUnavailable {
			return err
		}
		return nil
	})
	if err == nil {
		n, err = r.w.Verify(ctx, r.log, &r.clock, r.lo, r.hi)
	}
	if err == nil {
		err = r.w.Resume(ctx, r.log, &r.clock, n, len(r.w.Steps))
	}
	if err != nil {
		return fmt.Errorf("after a step was refused: %w", err)
	}
	r.lo, r.hi = len(r.w.Steps), len(r.w.Steps)
	return nil
}

// afterwards opens the log on the file system that works again.
func (r *faultRun) afterwards() error {
	l, err := pebblelog.Open(dir, options(r.mem, &r.clock, r.d))
	if err != nil {
		return err
	}
	defer l.Close()
	ctx := context.Background()
	n, err := r.w.Verify(ctx, l, &r.clock, r.lo, r.hi)
	if err != nil {
		return err
	}
	if err := r.w.Resume(ctx, l, &r.clock, n, min(n+2, len(r.w.Steps))); err != nil {
		return err
	}
	if err := leftovers(r.mem); err != nil {
		return err
	}
	return l.Close()
}
