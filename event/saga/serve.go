package saga

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/internal/outcome"
	"github.com/mainstemdev/mainstem/internal/wake"
	"github.com/mainstemdev/mainstem/kv"
)

// Pauses after failures.
var (
	acquireAgain  = backoff.Policy{First: 200 * time.Millisecond, Max: 2 * time.Second, Jitter: 0.5} // of acquiring a lease
	watchAgain    = backoff.Policy{First: 50 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.5}  // of reading or watching tables
	afterConflict = backoff.Policy{First: time.Millisecond, Max: 50 * time.Millisecond, Jitter: 1}   // of commits, by conflicts
)

// releaseTime is the longest time that releasing a lease may take.
const releaseTime = 5 * time.Second

// serve carries out messages and timeouts until soft ends. With a Keeper it does so only while it
// holds the lease of the type.
func (u *unit) serve(hard, soft context.Context) {
	if u.opts.Keeper == nil {
		u.carryOn(hard, soft)
		return
	}
	key := "saga/" + u.store + "/" + u.saga.name
	for tries := 1; soft.Err() == nil; tries++ {
		l, err := u.opts.Keeper.Acquire(soft, key, "")
		if err != nil {
			acquireAgain.Wait(soft, tries)
			continue
		}
		tries = 0
		held, cancel := context.WithCancel(soft)
		var lost sync.WaitGroup
		lost.Go(func() {
			select {
			case <-l.Done():
			case <-held.Done():
			}
			cancel()
		})
		u.carryOn(hard, held)
		cancel()
		lost.Wait()
		ctx, end := context.WithTimeout(context.WithoutCancel(hard), releaseTime)
		if err := l.Release(ctx); err != nil {
			u.opts.Logger.Warn("the lease of sagas is not given up, and ends by itself", "store", u.store, "saga", u.saga.name, "error", err)
		}
		end()
	}
}

// carryOn carries out messages and timeouts and removes old sagas until soft ends. It returns when
// those under way have ended.
func (u *unit) carryOn(hard, soft context.Context) {
	var wg sync.WaitGroup
	messages, timeouts := make(chan struct{}, 1), make(chan struct{}, 1)
	wg.Go(func() { watch(soft, u.inbox, u.saga.name+"-", messages) })
	wg.Go(func() { watch(soft, u.timers, u.saga.name+"\x00", timeouts) })
	wg.Go(func() { u.deliver(hard, soft, messages) })
	wg.Go(func() { u.expire(hard, soft, timeouts) })
	wg.Go(func() { u.retain(hard, soft) })
	wg.Wait()
}

// watch signals changed when something was added to or changed in a table under prefix, and when a
// watch begins, since changes before that are not reported. After errors it watches again, until
// ctx ends.
func watch[T any](ctx context.Context, b *kv.Bucket[T], prefix string, changed chan struct{}) {
	o := &kv.WatchOptions{Prefix: prefix, UpdatesOnly: true, MetaOnly: true, IgnoreDeletes: true}
	for failures := 1; ; failures++ {
		for _, err := range b.Watch(ctx, o) {
			if err != nil {
				break
			}
			failures = 0
			wake.Signal(changed)
		}
		if !watchAgain.Wait(ctx, failures) {
			return
		}
	}
}

// wait returns when woken is signalled or, if timed, at the time at. It returns false if ctx ends
// first.
func wait(ctx context.Context, woken <-chan struct{}, at time.Time, timed bool) bool {
	var due <-chan time.Time
	if timed {
		t := time.NewTimer(time.Until(at))
		defer t.Stop()
		due = t.C
	}
	select {
	case <-woken:
	case <-due:
	case <-ctx.Done():
		return false
	}
	return true
}

// change calls do, and commits its changes of sagas. The commit depends on the control record; if
// that has changed, the error is errChanged. Its outcome is unknown only if ctx ends, or the log takes
// no more commits.
func (u *unit) change(ctx context.Context, do func(w *work) error) error {
	b := mainstem.NewBatch()
	w := u.work(b)
	if err := do(w); err != nil {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	is := u.expect(b)
	b.Durability = u.sub.Durability
	_, err := outcome.Commit(ctx, u.log, b)
	return u.unlessChanged(ctx, is, err)
}

// changeAgain is change that is repeated when its commit conflicts with another one. An error of do
// is returned at once, also one of kind Conflict: the caller counts it as an attempt.
func (u *unit) changeAgain(ctx context.Context, do func(w *work) error) error {
	for tries := 1; ; tries++ {
		var failed error // of do
		err := u.change(ctx, func(w *work) error {
			failed = do(w)
			return failed
		})
		if failed != nil || !errors.Is(err, mainstem.ErrConflict) || !afterConflict.Wait(ctx, tries) {
			return err
		}
	}
}

// unlessChanged returns errChanged if err is a conflict and the control record does not meet the
// condition is, which the commit had; else err.
func (u *unit) unlessChanged(ctx context.Context, is kv.Condition, err error) error {
	if errors.Is(err, mainstem.ErrConflict) && errors.Is(u.unchanged(ctx, is), errChanged) {
		return errChanged
	}
	return err
}

// endless reports whether err says nothing about the work that was tried: it is tried again without
// end, and the failure does not count as an attempt.
func endless(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, mainstem.ErrUnavailable) || errors.Is(err, mainstem.ErrUnknownOutcome) || errors.Is(err, mainstem.ErrClosed)
}
