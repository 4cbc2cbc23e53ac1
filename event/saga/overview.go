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

// MaxCount is the largest value of each number of an [Overview]: counting stops there.
const MaxCount = 100_000

// Overview is the numbers of the sagas of one type, of all processes. It belongs to the caller.
type Overview struct {
	Saga     string
	Paused   time.Time         // since when; zero: not paused. See Records.Pause
	Count    map[Status]uint64 // number of sagas in each status
	Position mainstem.Position // all events up to it are handled
	Lag      uint64            // events that are not handled yet
	Parked   uint64            // parked events; see Engine.RetryParked
	Commands uint64            // messages in the inbox: commands, compensations, and retries of events and timeouts
	Timeouts uint64            // pending timeouts
	// Waiting is the time since which the oldest message or overdue timeout waits; zero if there is
	// none.
	Waiting time.Time
}

// Running returns the number of sagas that have not ended.
func (o *Overview) Running() uint64 {
	return o.Count[Started] + o.Count[Running] + o.Count[Compensating]
}

// checkpoint returns the checkpoint of a type. It is NotFound if no engine has started the type
// yet.
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

// Overview returns the numbers of a type. It is NotFound if no engine has started the type yet. It
// reads every row that it counts, and is not as of one moment.
func (r *Records) Overview(ctx context.Context, saga string) (Overview, error) {
	cp, err := r.checkpoint(ctx, saga)
	if err != nil {
		return Overview{}, err
	}
	return r.overview(ctx, saga, cp)
}

// Overviews returns the overviews of all types that engines have started on the store, ordered by
// name.
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

// waitingTo sets the numbers of messages and timeouts in o.
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

// lagTo sets the numbers of unhandled and parked events in o.
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
