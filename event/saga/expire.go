package saga

import (
	"context"
	"errors"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/kv"
)

// Timeouts. The keys of the table are in the order in which the timeouts are due; see timerKey.
// expire sweeps the table when the next timeout is due, when a timeout was added, and when one that
// failed may be tried again. A sweep has three steps:
//
//  1. It reads the keys that are due at the time when it began.
//  2. It waits until the subscription has handled all events that are in the store now. So an event
//     that was appended before the timeout was due is handled before it.
//  3. It handles the timeouts one by one, each in the commit that removes its row.
//
// The row of the saga decides whether a timeout is pending: a key whose timeout was cancelled,
// replaced or handled meanwhile has no effect.

// duePage is the number of keys that are read at a time.
const duePage = 100

// expire handles the timeouts of the type when they are due, until soft ends.
func (u *unit) expire(hard, soft context.Context, woken chan struct{}) {
	tried := &rests{policy: backoff.Policy{First: u.opts.Backoff, Max: u.opts.MaxBackoff, Jitter: 0.2}}
	for failures := 0; ; {
		began := time.Now()
		next, pending, err := u.sweep(hard, soft, began, tried)
		if at, ok := tried.next(began); ok && (!pending || at.Before(next)) {
			next, pending = at, true
		}
		if failures++; err == nil {
			failures = 0
		} else if soft.Err() == nil {
			u.opts.Logger.Warn("the timeouts of sagas cannot be read", "store", u.store, "saga", u.saga.name, "error", err)
			next, pending = time.Now().Add(watchAgain.Delay(failures)), true
		}
		if !wait(soft, woken, next, pending) {
			return
		}
	}
}

// sweep handles the timeouts that are due at now. It returns when the next one is due; false if
// there is none.
func (u *unit) sweep(hard, soft context.Context, now time.Time, tried *rests) (time.Time, bool, error) {
	prefix := u.saga.name + "\x00"
	for after, caughtUp := "", false; ; {
		n := 0
		var due []string
		var next time.Time
		for key, err := range u.timers.Keys(soft, &kv.Query{Prefix: prefix, After: after, Limit: duePage}) {
			if err != nil {
				return time.Time{}, false, err
			}
			at, _, _, err := splitTimerKey(key)
			if err != nil {
				return time.Time{}, false, err
			}
			if n++; at.After(now) {
				next = at
				break
			}
			due = append(due, key)
			after = key
		}
		// Once in a sweep is enough: all timeouts of the sweep were due before this call.
		if len(due) > 0 && !caughtUp {
			if err := u.catchUp(soft); err != nil {
				return time.Time{}, false, err
			}
			caughtUp = true
		}
		for _, key := range due {
			if soft.Err() != nil {
				return time.Time{}, false, soft.Err()
			}
			u.expireOne(hard, key, tried)
		}
		if !next.IsZero() || n < duePage {
			return next, !next.IsZero(), nil
		}
	}
}

// catchUp waits until all events that are in the store now are handled, by this engine or another
// one.
func (u *unit) catchUp(ctx context.Context) error {
	last, err := u.events.LastPosition(ctx)
	if err != nil || last == 0 {
		return err
	}
	return u.WaitFor(ctx, u.saga.name, last)
}

// expireOne handles one timeout, unless it waits after a failure. After [Options.Attempts] failures
// it fails the saga.
func (u *unit) expireOne(ctx context.Context, key string, tried *rests) {
	if !tried.take(key, time.Now()) {
		return
	}
	defer tried.leave(key)
	err := u.timeout(ctx, key, nil)
	if err == nil {
		tried.succeeded(key)
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	if errors.Is(err, errChanged) {
		tried.failed(key, false, time.Now())
		return
	}
	u.count(func(s *Stats) { s.Failures++ })
	if n := tried.failed(key, !endless(ctx, err), time.Now()); n >= u.opts.Attempts {
		if err = u.timeout(ctx, key, err); err == nil {
			tried.succeeded(key)
			return
		}
	}
	u.opts.Logger.Warn("a timeout of a saga is tried again", "store", u.store, "timeout", key, "error", err)
}

// timeout handles the timeout with a key, in the commit that removes it. If cause is not nil, it
// fails the saga with that cause instead of calling the handler.
func (u *unit) timeout(ctx context.Context, key string, cause error) error {
	due, id, name, err := splitTimerKey(key)
	if err != nil {
		return err
	}
	handled := false
	err = u.changeAgain(ctx, func(w *work) error {
		handled = false
		in, err := w.load(ctx, id)
		if err != nil {
			return err
		}
		if at, is := in.row.Timeouts[name]; !is || !storedDue(at).Equal(due) {
			u.timers.DeleteTo(w.b, key) // it was handled, cancelled or replaced meanwhile
			return nil
		}
		handled = true
		return u.handleTimeout(ctx, in, name, cause)
	})
	if err == nil && handled {
		u.count(func(s *Stats) { s.Timeouts++ })
	}
	return err
}

// handleTimeout applies a timeout to its saga: it calls the handler, or fails the saga if there is
// a cause.
func (u *unit) handleTimeout(ctx context.Context, in *instance, name string, cause error) error {
	if u.saga.timeouts[name] == nil {
		return mainstem.Errorf(mainstem.KindUnavailable, "saga", "%s has no handler for timeout %s any more", u.saga.name, name)
	}
	delete(in.row.Timeouts, name)
	t := timeoutTask(u.saga, name)
	if cause == nil {
		return in.handle(ctx, t, time.Now())
	}
	return in.fail(ctx, time.Now(), t.entry, failure{Error: cause.Error(), Step: t.again})
}
