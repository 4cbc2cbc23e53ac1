package event

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// How a subscription reads.
const (
	pageEvents = 512     // events read ahead while catching up
	pageBytes  = 4 << 20 // bytes read ahead while catching up
	// lookEvery is how many events follow handles one by one between tests of whether events arrive
	// faster than it handles them.
	lookEvery = 64
	// passOver is the number of positions without a selected event after which the checkpoint is
	// moved nevertheless, so that a restart need not read them again.
	passOver = 4096
)

// errClosing ends the loops of a subscription that is being closed.
var errClosing = errors.New("the subscription is closing")

// PoisonError reports an event that a subscription could not handle. Its chain contains the error
// of the last attempt.
type PoisonError struct {
	Subscription string
	Stream       string
	Version      mainstem.Version
	Position     mainstem.Position
	Type         string
	Attempts     int
	Err          error
}

// Error names the event and the error of the last attempt.
func (e *PoisonError) Error() string {
	return fmt.Sprintf("subscription %s: event %s, version %d of stream %.64q at position %d, failed %d times: %v",
		e.Subscription, e.Type, e.Version, e.Stream, e.Position, e.Attempts, e.Err)
}

// Unwrap returns the error of the last attempt.
func (e *PoisonError) Unwrap() error { return e.Err }

// fatalError ends the attempts to handle an event, whatever the cause.
type fatalError struct{ error }

func (e fatalError) Unwrap() error { return e.error }

// run is the subscription's goroutine.
func (sub *Subscription) run() {
	defer sub.stop()
	defer close(sub.done)
	sub.err = sub.end(errors.New("the handler ended its goroutine")) // kept if the handler ends the goroutine
	defer sub.logEnd()
	failures := 0
	for {
		before := sub.Position()
		err := sub.work()
		if sub.Position() != before {
			failures = 0
		}
		switch {
		case errors.Is(err, errReached):
			sub.err = nil
			return
		case sub.soft.Err() != nil:
			sub.err = sub.end(err)
			return
		case sub.survives(err):
			failures++
			moved := errors.Is(err, ErrCheckpointMoved)
			if !moved {
				sub.opts.Logger.Warn("event subscription goes back to its checkpoint", "store", sub.store.name, "subscription", string(sub.name), "error", err)
			}
			sub.pause(failures)
			err = sub.load(sub.soft)
			if err == nil && moved {
				sub.logMoved()
			}
			if err == nil || isUnavailable(err) || sub.soft.Err() != nil {
				continue
			}
		}
		sub.err = sub.end(err)
		return
	}
}

// logMoved logs which other instance handles the events now, once per instance.
func (sub *Subscription) logMoved() {
	if sub.owner == sub.rival && sub.owner != "" || sub.owner == sub.self {
		return
	}
	sub.rival = sub.owner
	owner := sub.owner
	if owner == "" {
		owner = "SetCheckpoint or an instance of an earlier version"
	}
	sub.opts.Logger.Info("another instance has moved the checkpoint of this event subscription, which goes on from there",
		"store", sub.store.name, "subscription", string(sub.name), "owner", owner, "position", sub.Position())
}

// logEnd logs why the subscription has ended.
func (sub *Subscription) logEnd() {
	fields := []any{"store", sub.store.name, "subscription", string(sub.name), "position", sub.Position()}
	if sub.err == nil || sub.hard.Err() != nil {
		sub.opts.Logger.Debug("event subscription has ended", fields...)
		return
	}
	sub.opts.Logger.Error("event subscription has ended: its events are no longer handled by this instance", append(fields, "error", sub.err)...)
}

// end turns err into the error that Err returns: nil after Close, Canceled if the
// caller's context ended.
func (sub *Subscription) end(err error) error {
	switch {
	case sub.hard.Err() != nil:
		return mainstem.Ended(sub.hard, "subscription "+string(sub.name), time.Time{}, "events")
	case sub.soft.Err() != nil && (errors.Is(err, errClosing) || errors.Is(err, mainstem.ErrCanceled) || sub.survives(err)):
		return nil
	}
	var fatal fatalError
	if errors.As(err, &fatal) {
		return fatal.error
	}
	return err
}

// survives reports whether the subscription continues after err, from its checkpoint.
func (sub *Subscription) survives(err error) bool {
	return isUnavailable(err) || errors.Is(err, ErrCheckpointMoved) && !sub.opts.Exclusive
}

func isUnavailable(err error) bool { return errors.Is(err, mainstem.ErrUnavailable) }

// work handles events until an error occurs.
func (sub *Subscription) work() error {
	for {
		if err := sub.catchUp(); err != nil {
			return err
		}
		sub.catchOne.Do(func() {
			close(sub.caughtUp)
			if sub.opts.OnCaughtUp != nil {
				sub.opts.OnCaughtUp(sub.Position())
			}
		})
		if err := sub.follow(); err != nil {
			return err
		}
	}
}

// catchUp handles the events that are stored already, in pages.
func (sub *Subscription) catchUp() error {
	for {
		if sub.reached(sub.Position()) {
			return errReached
		}
		p, readErr := sub.store.page(sub.soft, sub.sel, sub.Position(), max(pageEvents, sub.opts.MaxBatch), pageBytes)
		for evs := sub.within(p.events); len(evs) > 0; {
			n := min(len(evs), sub.size)
			if err := sub.process(evs[:n]); err != nil {
				return err
			}
			evs = evs[n:]
		}
		if sub.reached(p.next) {
			return sub.finish()
		}
		if readErr != nil {
			return readErr
		}
		if err := sub.pass(p.next); err != nil {
			return err
		}
		if p.last {
			return nil
		}
	}
}

// pass records that no event up to p needs handling.
func (sub *Subscription) pass(p mainstem.Position) error {
	if p <= sub.Position() {
		return nil
	}
	if p-sub.written >= passOver {
		b := &sub.batch
		b.Reset()
		if err := sub.commit(b, p); err != nil {
			return err
		}
	}
	sub.position.Store(uint64(p))
	return nil
}

// follow handles events one by one as they arrive. It returns nil if they arrive faster than it
// handles them, because reading pages is faster.
func (sub *Subscription) follow() error {
	s, after := sub.store, sub.Position()
	if err := sub.sel.open(sub.soft, s, after); err != nil {
		return err
	}
	handled := 0
	for rec, err := range s.log.Feed(sub.soft, sub.sel.filter(s, after, true)) {
		selected := false
		if err == nil {
			selected, err = sub.sel.wants(sub.soft, s, &rec)
		}
		switch {
		case err != nil:
		case selected:
			handled++
			err = sub.one(&rec)
		default:
			err = sub.pass(rec.Position)
		}
		if err != nil {
			return err
		}
		if selected && handled%lookEvery == 0 && sub.opts.MaxBatch > 1 {
			if lag, err := sub.Lag(sub.soft); err != nil || lag > uint64(sub.opts.MaxBatch) {
				return err
			}
		}
	}
	return errClosing
}

// one handles the event in rec.
func (sub *Subscription) one(rec *mainstem.Record) error {
	c := sub.store.collector()
	defer sub.store.release(c)
	if err := c.add(rec); err != nil {
		return err
	}
	return sub.process(c.flush(nil))
}

// process handles evs and commits. If that fails for several events, each is handled alone; a
// single event is tried again until it succeeds or is poison.
func (sub *Subscription) process(evs []Recorded) error {
	err := sub.attempt(evs)
	if err == nil || isFatal(err) {
		return err
	}
	if moved := sub.checkMoved(); moved != nil {
		return moved
	}
	if half := len(evs) / 2; half > 0 && sub.opts.Conflicts > 0 && errors.Is(err, mainstem.ErrConflict) {
		sub.size = half
		if err := sub.process(evs[:half]); err != nil {
			return err
		}
		return sub.process(evs[half:])
	}
	if len(evs) > 1 {
		for i := range evs {
			if err := sub.process(evs[i : i+1]); err != nil {
				return err
			}
		}
		return nil
	}
	ev := &evs[0]
	failures := 0
	for pauses := 1; ; pauses++ {
		if !isUnavailable(err) {
			failures++
		}
		if sub.opts.Attempts >= 0 && failures >= sub.opts.Attempts {
			return sub.poison(ev, failures, err)
		}
		sub.opts.Logger.Warn("event subscription tries again", "subscription", string(sub.name),
			"stream", ev.Stream, "version", ev.Version, "position", ev.Position, "type", ev.Type, "failures", failures, "error", err)
		if !sub.pause(pauses) {
			return errClosing
		}
		if err = sub.attempt(evs); err == nil || isFatal(err) {
			return err
		}
		if moved := sub.checkMoved(); moved != nil {
			return moved
		}
	}
}

func isFatal(err error) bool {
	var fatal fatalError
	return errors.As(err, &fatal) || errors.Is(err, errClosing)
}

// afterConflict is the pause before events are handled again after a conflict. It is short, because
// the other commit has finished.
var afterConflict = backoff.Policy{First: time.Millisecond, Max: 20 * time.Millisecond, Jitter: 1}

// splitAfter is how many conflicts it takes until several events are handled in halves. A large
// commit takes long to prepare, and so would conflict again and again with small ones that change
// the same rows.
const splitAfter = 3

// attempt calls the handler and commits its batch. It repeats both after conflicts, except those on
// the checkpoint, as often as the options say; and if the handler has appended by a handle that did
// not know the index of its store, which it knows then.
func (sub *Subscription) attempt(evs []Recorded) error {
	conflicts := sub.opts.Conflicts
	if len(evs) > 1 {
		conflicts = min(conflicts, splitAfter)
	}
	for n := 1; ; n++ {
		err := sub.attemptOnce(evs)
		if err == nil && n == 1 && len(evs) >= sub.size {
			sub.size = min(sub.opts.MaxBatch, sub.size+sub.size/4+1)
		}
		repeat := conflicts
		if isStale(err) {
			repeat = max(repeat, staleTries)
		}
		if n > repeat || isFatal(err) || !errors.Is(err, mainstem.ErrConflict) {
			return err
		}
		if !afterConflict.Wait(sub.soft, n) {
			return errClosing
		}
	}
}

// attemptOnce calls the handler once and commits its batch.
func (sub *Subscription) attemptOnce(evs []Recorded) error {
	if sub.soft.Err() != nil {
		return errClosing
	}
	b := &sub.batch
	b.Reset()
	if err := protect(func() error { return sub.handle(sub.hard, b, evs) }); err != nil {
		if sub.hard.Err() != nil {
			return errClosing
		}
		return err
	}
	p := evs[len(evs)-1].Position
	if sub.opts.Commit != nil {
		return sub.commitBy(sub.opts.Commit, b, p)
	}
	return sub.commit(b, p)
}

// protect turns a panic of f into an error.
func protect(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the handler panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// pause waits before the n-th repetition; it returns false if the subscription is being closed.
func (sub *Subscription) pause(n int) bool {
	return backoff.Policy{First: sub.opts.Backoff, Max: sub.opts.MaxBackoff}.Wait(sub.soft, n)
}
