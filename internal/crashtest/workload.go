package crashtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Action is what a [Step] does.
type Action uint8

// The actions.
const (
	Commit  Action = iota // commit Step.Batch
	Create                // create Step.Space
	Alter                 // give Step.Space another policy
	Drop                  // drop Step.Space
	Sweep                 // remove what has expired
	Squeeze               // bound the size of Step.Space, sweep, lift the bound
	Backup                // stream a backup to nowhere
)

var actionNames = [...]string{"commit", "create", "alter", "drop", "sweep", "squeeze", "backup"}

// String returns the action's name.
func (a Action) String() string { return actionNames[a] }

// Single reports whether the action is one commit, and so all or nothing.
func (a Action) Single() bool { return a != Sweep && a != Squeeze }

// Step is one call of a workload, and what the reference log answered.
type Step struct {
	At     time.Duration // what the clock shows, after Epoch
	Action Action
	Batch  *mainstem.Batch
	Space  string
	Policy mainstem.Policy

	Receipt mainstem.Receipt // of a Commit that succeeded
	Failed  bool             // the step is refused, with Kind
	Kind    mainstem.Kind
}

// Workload is a list of steps and what a log holds after each of them:
// States[n] is the log after the first n steps. It is not changed by use.
type Workload struct {
	Seed   uint64
	Steps  []Step
	States []Dump

	durability mainstem.Durability // of the log that runs it
}

// squeezed is the bound of a [Squeeze], in bytes.
const squeezed = 1 << 10

// Do performs step number n, counted from 1, with the clock set for it, and
// returns an error if the log does not answer as the reference did. An error of
// the log that the reference did not give is returned as it is.
func (w *Workload) Do(ctx context.Context, l Log, c *Clock, n int) error {
	s := &w.Steps[n-1]
	c.Set(s.At)
	receipt, err := s.perform(ctx, l)
	if s.Failed {
		if err != nil && mainstem.KindOf(err) == s.Kind {
			return nil
		}
		if err == nil {
			return fmt.Errorf("step %d (%s): succeeded; the reference said %s", n, s.Action, s.Kind)
		}
		return err
	}
	if err != nil {
		return err
	}
	if s.Action == Commit && !sameReceipt(receipt, s.Receipt) {
		return fmt.Errorf("step %d (%s): receipt %+v; the reference gave %+v", n, s.Action, receipt, s.Receipt)
	}
	return nil
}

func sameReceipt(a, b mainstem.Receipt) bool {
	if a.First != b.First || a.Last != b.Last || !a.Time.Equal(b.Time) || a.Duplicate != b.Duplicate || len(a.Versions) != len(b.Versions) {
		return false
	}
	for i := range a.Versions {
		if a.Versions[i] != b.Versions[i] {
			return false
		}
	}
	return true
}

func (s *Step) perform(ctx context.Context, l Log) (mainstem.Receipt, error) {
	switch s.Action {
	case Commit:
		return l.Commit(ctx, s.Batch)
	case Create:
		return mainstem.Receipt{}, l.CreateSpace(ctx, s.Space, s.Policy)
	case Alter:
		return mainstem.Receipt{}, l.AlterSpace(ctx, s.Space, s.Policy)
	case Drop:
		return mainstem.Receipt{}, l.DropSpace(ctx, s.Space)
	case Sweep:
		return mainstem.Receipt{}, sweep(ctx, l)
	case Squeeze:
		return mainstem.Receipt{}, s.squeeze(ctx, l)
	case Backup:
		return mainstem.Receipt{}, l.Backup(ctx, io.Discard)
	}
	return mainstem.Receipt{}, fmt.Errorf("unknown action %d", s.Action)
}

// sweep sweeps, and waits for a sweep of the log's own that may be half done: a
// snapshot takes its turn among the commits.
func sweep(ctx context.Context, l Log) error {
	if err := l.Sweep(ctx); err != nil {
		return err
	}
	snap, err := l.Snapshot(ctx)
	if err != nil {
		return err
	}
	return snap.Close()
}

func (s *Step) squeeze(ctx context.Context, l Log) error {
	tight := s.Policy
	tight.MaxBytes = squeezed
	if err := l.AlterSpace(ctx, s.Space, tight); err != nil {
		return err
	}
	if err := sweep(ctx, l); err != nil {
		return err
	}
	return l.AlterSpace(ctx, s.Space, s.Policy)
}

// synced reports whether step n, once acknowledged, survives a power cut: it
// changed something and asked for stable storage.
func (w *Workload) synced(n int) bool {
	s := &w.Steps[n-1]
	d := w.durability
	if s.Action == Commit && s.Batch.Durability != mainstem.DefaultDurability {
		d = s.Batch.Durability
	}
	return d == mainstem.Fsync && !s.Failed && !w.States[n].Equal(w.States[n-1])
}

// Synced returns the last of the first n steps that a power cut must not undo
// once all n are acknowledged, and with it everything before; 0 if there is none.
func (w *Workload) Synced(n int) int {
	for n > 0 && !w.synced(n) {
		n--
	}
	return n
}

// Verify checks a log that was opened again after at least lo and at most hi steps:
// it is consistent, and it holds what the reference held after some n of them,
// lo <= n <= hi, and nothing else. It returns n. A sweep that was interrupted is
// finished first: n counts it.
func (w *Workload) Verify(ctx context.Context, l Log, c *Clock, lo, hi int) (n int, err error) {
	c.Set(0)
	if err := Check(ctx, l); err != nil {
		return 0, err
	}
	got, err := Take(ctx, l)
	if err != nil {
		return 0, fmt.Errorf("reading everything: %w", err)
	}
	for n := hi; n >= lo; n-- {
		if got.Equal(w.States[n]) {
			return n, nil
		}
	}
	n = w.interrupted(got.Head, lo, hi)
	if n == 0 {
		return 0, w.mismatch(got, lo, hi)
	}
	if err := w.Do(ctx, l, c, n); err != nil {
		return 0, fmt.Errorf("finishing step %d: %w", n, err)
	}
	c.Set(0)
	done, err := Take(ctx, l)
	if err != nil {
		return 0, err
	}
	if !done.Equal(w.States[n]) {
		return 0, w.mismatch(got, lo, hi)
	}
	return n, Check(ctx, l)
}

// interrupted returns the step of several commits, among lo+1 to hi, that a log
// whose newest position is head may have been stopped in; 0 if there is none.
func (w *Workload) interrupted(head mainstem.Position, lo, hi int) int {
	for n := hi; n > lo; n-- {
		if !w.Steps[n-1].Action.Single() && w.States[n-1].Head <= head && head <= w.States[n].Head {
			return n
		}
	}
	return 0
}

func (w *Workload) mismatch(got Dump, lo, hi int) error {
	near := lo
	for n := lo; n <= hi; n++ {
		if w.States[n].Head <= got.Head {
			near = n
		}
	}
	return fmt.Errorf("the log (head %d) is not what the reference held after any of the steps %d to %d; compared with step %d (+ is the log):\n%s",
		got.Head, lo, hi, near, w.States[near].Diff(got, 6))
}

// Resume goes on with the steps after n, up to last, and checks that every answer
// and the state at the end are the reference's. Step n may have been in doubt, so
// it is done again first if that must change nothing: a batch with an ID is a
// duplicate, a sweep has nothing left to do.
func (w *Workload) Resume(ctx context.Context, l Log, c *Clock, n, last int) error {
	if n > 0 {
		if err := w.again(ctx, l, c, n); err != nil {
			return err
		}
	}
	for i := n + 1; i <= last; i++ {
		if err := w.Do(ctx, l, c, i); err != nil {
			return fmt.Errorf("going on with step %d: %w", i, err)
		}
	}
	c.Set(0)
	got, err := Take(ctx, l)
	if err != nil {
		return err
	}
	if end := max(n, last); !got.Equal(w.States[end]) {
		return fmt.Errorf("after going on: %w", w.mismatch(got, end, end))
	}
	return nil
}

// again does step n, which is known to be there, once more.
func (w *Workload) again(ctx context.Context, l Log, c *Clock, n int) error {
	s := &w.Steps[n-1]
	if !s.Action.Single() {
		return w.Do(ctx, l, c, n)
	}
	if s.Action != Commit || s.Failed || s.Batch.ID == "" {
		return nil
	}
	c.Set(s.At)
	r, err := l.Commit(ctx, s.Batch)
	if err != nil {
		return fmt.Errorf("committing step %d again: %w", n, err)
	}
	want := s.Receipt
	want.Duplicate = true
	if w.States[n].Equal(w.States[n-1]) {
		want.Duplicate = r.Duplicate // the step left no trace: it may not have been there
	}
	if !sameReceipt(r, want) {
		return fmt.Errorf("committing step %d again: receipt %+v, want %+v", n, r, want)
	}
	return nil
}

// Check runs the log's own check and returns its problems as one error.
func Check(ctx context.Context, l mainstem.Checker) error {
	var errs []error
	_, err := l.Check(ctx, func(p mainstem.Problem) {
		errs = append(errs, fmt.Errorf("check: %s: %s", p.Where, p.What))
	})
	if err != nil {
		errs = append(errs, fmt.Errorf("check: %w", err))
	}
	return errors.Join(errs...)
}
