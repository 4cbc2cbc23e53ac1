package aggregate

import (
	"context"
	"errors"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// afterConflict is the pause before a decision is repeated.
var afterConflict = backoff.Policy{First: time.Millisecond, Max: 50 * time.Millisecond, Jitter: 1}

// decision is one call of Update or Handle: load returns a state of type T, and save calls the
// caller's function with it and appends the events. An error of the caller's function is a
// decisionError.
type decision[T any] struct {
	id   string
	load func() (T, error)
	save func(T) (event.Appended, error)
	// keep reports whether a state that was loaded and saved may be cached.
	keep func(event.Appended) bool
}

// decide makes a decision with optimistic concurrency:
//
//  1. If the cache has the state, decide on it and save, without reading the log.
//  2. Unless that was final, load the state, decide and save.
//  3. After a conflict, repeat step 2 up to s.opts.Retries times.
//
// Step 1 is safe without a read because the save expects the version of the cached state. It is
// final only if that version was confirmed, by a successful append, or if the error has nothing to
// do with the state; see onCached.
func decide[T any](ctx context.Context, s *streams, c *cache[T], d decision[T]) (event.Appended, error) {
	done, final, err := d.onCached(c)
	for try := 1; !final; try++ {
		done, err = d.onLoaded(c)
		if err == nil || !isConflict(err) || try > s.opts.Retries || !afterConflict.Wait(ctx, try) {
			break
		}
	}
	var refused *decisionError
	if errors.As(err, &refused) {
		err = refused.err
	}
	if err != nil {
		return event.Appended{}, err
	}
	return done, nil
}

// onCached makes the decision on the cached state. The result is final unless there is no such
// state or it may be stale. It is stale after a conflict. It may be stale if the caller's function
// refused or raised nothing, because then no append has tested the version.
func (d *decision[T]) onCached(c *cache[T]) (done event.Appended, final bool, err error) {
	v, ok := c.take(d.id)
	if !ok {
		return event.Appended{}, false, nil
	}
	done, err = d.save(v)
	if err == nil && done.First != 0 {
		c.put(d.id, v)
		return done, true, nil
	}
	var refused *decisionError
	return done, err != nil && !errors.As(err, &refused) && !isConflict(err), err
}

// onLoaded makes the decision on a loaded state, and caches the state afterwards if it may be kept.
func (d *decision[T]) onLoaded(c *cache[T]) (event.Appended, error) {
	v, err := d.load()
	if err != nil {
		return event.Appended{}, err
	}
	done, err := d.save(v)
	if err == nil && d.keep(done) {
		c.put(d.id, v)
	}
	return done, err
}

// isConflict reports whether a new decision may resolve err. It may not if the stream accepts no
// events, or if the store has other inline projections than the program. An error of the caller's
// function never counts, because decisionError hides its kind.
func isConflict(err error) bool {
	var sealed *event.SealedError
	var inline *event.InlineError
	return errors.Is(err, mainstem.ErrConflict) && !errors.As(err, &sealed) && !errors.As(err, &inline)
}

// decisionError is an error of the caller's function: it ends the call, whatever its kind. It has
// no Unwrap, so that errors.Is does not find a Conflict of the caller in it.
type decisionError struct{ err error }

func (e *decisionError) Error() string { return e.err.Error() }
