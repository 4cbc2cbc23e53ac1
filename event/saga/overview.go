package saga

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/kv"
)

// MaxCount is up to how many the numbers of an [Overview] are counted, each.
const MaxCount = 100_000

// Overview is how the sagas of one type stand, in whatever processes they run. It belongs to the caller.
type Overview struct {
	Saga     string
	Paused   time.Time         // since when; zero: it is not. See Records.Pause
	Count    map[Status]uint64 // of sagas, for each status
	Position mainstem.Position // every event up to it is handled
	Lag      uint64            // events that are still to be handled
	Parked   uint64            // events that were put aside; see Engine.RetryParked
	Commands uint64            // that wait to be carried out, compensations included
	Timeouts uint64            // that are pending
	// Waiting is since when the oldest waits of the commands, and of the timeouts that are due; zero if none waits.
	Waiting time.Time
}

// Running returns how many sagas have not ended.
func (o *Overview) Running() uint64 {
	return o.Count[Started] + o.Count[Running] + o.Count[Compensating]
}

// checkpoint returns the checkpoint of a type; NotFound if no engine has started it yet.
func (r *Records) checkpoint(ctx context.Context, saga string) (event.Checkpoint, error) {
	if err := checkName(saga); err != nil {
		return event.Checkpoint{}, mainstem.Refusef(mainstem.KindInvalid, "saga", "%.60q: %w", saga, err)
	}
	cp, err := r.source.Checkpoint(ctx, subscription(saga))
	if errors.Is(err, mainstem.ErrNotFound) {
		return cp, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "saga " + saga, Outcome: mainstem.NotWritten, Hint: "no engine has started it yet"}
	}
	return cp, err
}

// Overview returns how the sagas of a type stand; NotFound if no engine has started it yet. It walks what it counts,
// each number up to [MaxCount].
func (r *Records) Overview(ctx context.Context, saga string) (Overview, error) {
	cp, err := r.checkpoint(ctx, saga)
	if err != nil {
		return Overview{}, err
	}
	return r.overview(ctx, saga, cp)
}

// Overviews returns how the sagas of all types stand that engines have ever run on the store, ordered by name.
func (r *Records) Overviews(ctx context.Context) ([]Overview, error) {
	var out []Overview
	for cp, err := range r.source.Checkpoints(ctx) {
		if err != nil {
			return nil, err
		}
		saga, is := strings.CutPrefix(cp.Name, subscription(""))
		if !is || checkName(saga) != nil {
			continue
		}
		o, err := r.overview(ctx, saga, cp)
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

func (r *Records) overview(ctx context.Context, saga string, cp event.Checkpoint) (Overview, error) {
	c, _, err := r.control(ctx, saga)
	o := Overview{Saga: saga, Paused: c.Paused, Position: cp.Position, Count: make(map[Status]uint64)}
	for _, s := range Statuses {
		if err == nil {
			var n int64
			n, err = r.status.Count(ctx, &kv.Query{Prefix: string(s) + "/" + saga + "-", Limit: MaxCount})
			o.Count[s] = uint64(n)
		}
	}
	if err == nil {
		err = r.waitingTo(ctx, &o)
	}
	if err == nil {
		err = r.lagTo(ctx, &o, cp)
	}
	return o, err
}

// waitingTo puts into o what waits to be carried out.
func (r *Records) waitingTo(ctx context.Context, o *Overview) error {
	older := func(t time.Time) {
		if o.Waiting.IsZero() || t.Before(o.Waiting) {
			o.Waiting = t
		}
	}
	for e, err := range r.inbox.List(ctx, &kv.Query{Prefix: o.Saga + "-", Limit: MaxCount, KeysOnly: true}) {
		if err != nil {
			return err
		}
		o.Commands++
		older(e.Modified)
	}
	now := time.Now()
	for key, err := range r.timers.Keys(ctx, &kv.Query{Prefix: o.Saga + "\x00", Limit: MaxCount}) {
		if err != nil {
			return err
		}
		due, _, _, err := splitTimerKey(key)
		if err != nil {
			return err
		}
		if o.Timeouts++; o.Timeouts == 1 && due.Before(now) {
			older(due)
		}
	}
	return nil
}

// lagTo puts into o which events are still to be handled, and how many were put aside.
func (r *Records) lagTo(ctx context.Context, o *Overview, cp event.Checkpoint) error {
	filter, err := cp.Filter()
	if err != nil {
		return err
	}
	for _, err := range r.source.Feed(ctx, &event.FeedOptions{Filter: filter, After: cp.Position}) {
		if err != nil {
			return err
		}
		if o.Lag++; o.Lag == MaxCount {
			break
		}
	}
	for _, err := range r.source.Parked(ctx, cp.Name) {
		if err != nil {
			return err
		}
		if o.Parked++; o.Parked == MaxCount {
			break
		}
	}
	return nil
}
