package saga

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// conflicts is how often events are handled again after a conflict with another commit for the same
// saga, such as by a command or a timeout. It is large, since each conflict means that another
// commit has succeeded.
const conflicts = 1000

// subscription returns the name of the subscription of a type.
func subscription(saga string) string { return "saga/" + saga }

// unit is one type of sagas in an engine.
type unit struct {
	*Engine
	saga       *Saga
	sub        *event.SubscribeOptions
	retentions []retention // of Follow.Keep and KeepFailed
	rest       *rests      // the sagas whose messages are not to be tried now
	gate       gate        // see control.go
	handled    Stats       // of the last call of the handler of the subscription; used by its goroutine only

	mu    sync.Mutex // guards stats
	stats Stats
}

func newUnit(e *Engine, s *Saga, so *event.SubscribeOptions, retentions []retention) *unit {
	u := &unit{
		Engine: e, saga: s, sub: so, retentions: retentions, stats: Stats{Saga: s.name},
		rest: &rests{policy: backoff.Policy{First: e.opts.Backoff, Max: e.opts.MaxBackoff, Jitter: 0.2}},
	}
	u.gate.on = true
	so.Expect, so.Commit = func(b *mainstem.Batch) { u.expect(b) }, u.commitEvents
	return u
}

// count changes the stats under their lock.
func (u *unit) count(f func(*Stats)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f(&u.stats)
}

// countEvents adds the numbers of events in s to the stats.
func (u *unit) countEvents(s Stats) {
	u.count(func(all *Stats) {
		all.Handled, all.Ignored, all.Early = all.Handled+s.Handled, all.Ignored+s.Ignored, all.Early+s.Early
	})
}

// commitEvents commits what the handler of the subscription has written, and then counts its events.
func (u *unit) commitEvents(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	r, err := u.log.Commit(ctx, b)
	if err == nil {
		u.countEvents(u.handled)
	}
	return r, err
}

// step returns the handler of the subscription. If it is called again with the same first event,
// the commit may have failed because the control record has changed. It then returns errChanged,
// which does not count as a failure of the event.
func (u *unit) step() event.BatchHandler {
	var tried mainstem.Position // position of the first event of the last call
	return func(ctx context.Context, b *mainstem.Batch, evs []event.Recorded) error {
		is, _ := u.gate.get()
		if first := evs[0].Position; first > tried {
			tried = first
		} else if err := u.unchanged(ctx, is); err != nil {
			return err
		}
		var err error
		if u.handled, err = u.handle(ctx, b, evs); err != nil && ctx.Err() == nil {
			u.count(func(s *Stats) { s.Failures++ })
		}
		return err
	}
}

// follow runs the subscription until soft ends. It starts it again after failures.
func (u *unit) follow(hard, soft context.Context) {
	restart := backoff.Policy{First: u.opts.RestartAfter, Max: max(time.Minute, u.opts.RestartAfter), Jitter: 0.2}
	for failures := 1; soft.Err() == nil; failures++ {
		sub, err := u.events.SubscribeBatch(hard, subscription(u.saga.name), u.sub, u.step())
		if err == nil {
			u.count(func(s *Stats) { s.Err = nil })
			began := sub.Position()
			select {
			case <-sub.Done():
			case <-soft.Done():
				_ = sub.Close()
				return
			}
			if err = sub.Err(); sub.Position() != began {
				failures = 1
			}
		}
		if soft.Err() != nil {
			return
		}
		u.count(func(s *Stats) { s.Err = err })
		u.opts.Logger.Error("sagas cannot follow their events", "store", u.store, "saga", u.saga.name, "error", err)
		restart.Wait(soft, failures)
	}
}

// handle applies events to their sagas, and writes the result into b. It returns the numbers of
// events.
func (u *unit) handle(ctx context.Context, b *mainstem.Batch, evs []event.Recorded) (s Stats, err error) {
	w := u.work(b)
	now := time.Now()
	load := func(ctx context.Context, id string) (*instance, error) { return u.load(ctx, w, id, now) }
	for _, r := range evs {
		if err := u.saga.each(ctx, load, u.types, r, now, &s); err != nil {
			return s, err
		}
	}
	return s, w.flush()
}

// load returns a saga for an event, like [work.load]. In a saga that Retry has started anew, it
// handles the start event first if that still waits in the inbox: the handlers of other events must
// not get the zero state.
func (u *unit) load(ctx context.Context, w *work, id string, now time.Time) (*instance, error) {
	in, err := w.load(ctx, id)
	if err != nil || !in.found || !in.row.Status.live() || in.row.State != nil {
		return in, err
	}
	messages, err := in.pending(ctx)
	if err != nil {
		return nil, err
	}
	if len(messages) == 0 || messages[0].Event == nil || *messages[0].Event != in.row.Start {
		return nil, mainstem.Errorf(mainstem.KindConflict, "saga", "%s has changed since it was read", id)
	}
	t, err := u.taskOf(ctx, in, messages[0].message)
	if err == nil {
		in.gone = append(in.gone, messages[0].n)
		err = in.handle(ctx, t, now)
	}
	if err != nil { // no fault of this event: it waits until deliver has handled or refused the message
		return nil, mainstem.Errorf(mainstem.KindUnavailable, "saga", "%s: its start event must be handled again first: %w", id, err)
	}
	return in, nil
}

// each applies the events that r is decoded and upcast to.
func (s *Saga) each(ctx context.Context, load func(context.Context, string) (*instance, error), types *event.Types, r event.Recorded, now time.Time, stats *Stats) error {
	if r.Type == event.TypeDeleted {
		return nil
	}
	part := -1
	return types.Each(r, func(v any, r event.Recorded) error {
		part++
		if err := s.route(ctx, load, v, r, part, now, stats); err != nil {
			return fmt.Errorf("saga %s: %s: %w", s.name, r.Type, err)
		}
		return nil
	})
}

// route applies one event to its saga: it starts the saga if it does not exist and the type of the
// event starts one, else it calls the [On] handler of the type, or counts the event. Only sagas
// that are started or running get events.
func (s *Saga) route(ctx context.Context, load func(context.Context, string) (*instance, error), v any, r event.Recorded, part int, now time.Time, stats *Stats) error {
	h := s.events[reflect.TypeOf(v)]
	if h == nil {
		return nil
	}
	in, key, err := s.find(ctx, load, h.start, v, r)
	if err != nil {
		return err
	}
	if in != nil && !in.found {
		if err := in.begin(ctx, s, key, &r, part, now); err != nil {
			return err
		}
		stats.Handled++
		return in.handle(ctx, eventTask(s, h.start.do, v, r, part, StepStarted), now)
	}
	if h.on != nil {
		if in, _, err = s.find(ctx, load, h.on, v, r); err != nil {
			return err
		}
	}
	switch {
	case in == nil:
	case !in.found:
		stats.Early++
	case h.on == nil || !in.row.Status.live():
		stats.Ignored++
		in.ignore()
	default:
		stats.Handled++
		return in.handle(ctx, eventTask(s, h.on.do, v, r, part, StepHandled), now)
	}
	return nil
}

// find returns the saga of an event according to a route, and its key; nil if the event is for
// none.
func (s *Saga) find(ctx context.Context, load func(context.Context, string) (*instance, error), by *route, v any, r event.Recorded) (*instance, string, error) {
	if by == nil {
		return nil, "", nil
	}
	key := by.key(v, r)
	if key == "" {
		return nil, "", nil
	}
	if err := s.checkKey(key); err != nil {
		return nil, "", err
	}
	in, err := load(ctx, idOf(s.name, key))
	return in, key, err
}
