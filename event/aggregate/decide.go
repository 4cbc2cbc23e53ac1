package aggregate

import (
	"context"
	"errors"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// afterConflict is the pause before a decision is made anew.
var afterConflict = backoff.Policy{First: time.Millisecond, Max: 50 * time.Millisecond, Jitter: 1}

// decision is one decision: load returns a state of type T, and save decides on it and
// saves. An error of the caller's function is a decisionError.
type decision[T any] struct {
	id   string
	load func() (T, error)
	save func(T) (event.Appended, error)
}

// decide makes a decision on the cached state, if there is one, else on a loaded one, and
// anew after conflicts as often as s allows.
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

// onCached makes the decision on the cached state. It is final unless there is none, or it was
// old, which a conflict proves; or may have been: the decision failed, or nothing happened.
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

func (d *decision[T]) onLoaded(c *cache[T]) (event.Appended, error) {
	v, err := d.load()
	if err != nil {
		return event.Appended{}, err
	}
	done, err := d.save(v)
	if err == nil {
		c.put(d.id, v)
	}
	return done, err
}

// isConflict reports whether err is a conflict that a new decision may solve: the stream is at
// another version, and takes events. A conflict that the caller's function returned is none.
func isConflict(err error) bool {
	var sealed *event.SealedError
	var inline *event.InlineError
	return errors.Is(err, mainstem.ErrConflict) && !errors.As(err, &sealed) && !errors.As(err, &inline)
}

// decisionError is an error of the caller's function: it ends the call, whatever its kind. It
// does not unwrap, so nothing here looks at that kind.
type decisionError struct{ err error }

func (e *decisionError) Error() string { return e.err.Error() }
