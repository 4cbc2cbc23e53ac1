package projection

import (
	"context"
	"errors"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// fault is a row of the table projection-faults/<store>, by subscription: why a subscription has
// failed, for other processes. It is valid only while the record of the checkpoint is the one of
// that time: every later commit of the subscription, by any engine, makes it invalid.
type fault struct {
	Error    string            `json:"error"` // text; at most event.MaxReason bytes
	Time     time.Time         `json:"time"`
	Revision mainstem.Version  `json:"revision"` // version of the checkpoint's record; 0: there was none
	Stream   string            `json:"stream,omitempty"`
	Version  mainstem.Version  `json:"version,omitempty"`
	Position mainstem.Position `json:"position,omitempty"` // of the event that could not be handled; 0 if there is none
	Attempts int               `json:"attempts,omitempty"`
}

// fault records that the part has failed, first in the log and then in this process, so a process
// that sees the state also finds the row.
func (p *part) fault(ctx context.Context, cause error) {
	defer p.setState(Faulted, cause)
	p.u.mu.Lock()
	p.u.mu.faults++
	p.u.mu.Unlock()
	logger := p.u.e.opts.Logger.With("store", p.u.e.store.Name(), "projection", p.name)
	logger.Error("a projection has failed", "error", cause)
	cp, err := p.u.e.store.Checkpoint(ctx, p.name)
	if err == nil || errors.Is(err, mainstem.ErrNotFound) {
		f := fault{Error: cause.Error(), Time: time.Now().UTC(), Revision: cp.Revision}
		f.Error = f.Error[:min(len(f.Error), event.MaxReason)]
		var poison *event.PoisonError
		if errors.As(cause, &poison) {
			f.Stream, f.Version, f.Position, f.Attempts = poison.Stream, poison.Version, poison.Position, poison.Attempts
		}
		_, err = p.u.e.controls.faults.Put(ctx, p.name, f)
	}
	if err != nil && ctx.Err() == nil {
		logger.Warn("other processes cannot see that a projection has failed", "error", err)
	}
}

// faultOf returns the valid fault of a subscription whose checkpoint is cp, and whether there is
// one.
func (e *Engine) faultOf(ctx context.Context, name string, cp event.Checkpoint) (fault, bool, error) {
	f, err := e.controls.faults.Get(ctx, name)
	if errors.Is(err, mainstem.ErrNotFound) {
		return fault{}, false, nil
	}
	return f.Value, err == nil && f.Value.Revision == cp.Revision, err
}

// Faults returns the events at which a projection is faulted, at most one for each partition, in
// whatever processes they run. If there are none the error is NotFound.
func (e *Engine) Faults(ctx context.Context, name string) ([]event.Parked, error) {
	ctl, _, found, err := e.controls.get(ctx, name)
	if err == nil && !found {
		err = unknown(name)
	}
	if err != nil {
		return nil, err
	}
	return e.skipAllTo(ctx, mainstem.NewBatch(), name, &ctl)
}

// Skip parks the events that [Engine.Faults] returns and restarts the projection after them, in
// whatever processes it runs; see [event.Store.Parked]. It returns the parked events.
func (e *Engine) Skip(ctx context.Context, name string) ([]event.Parked, error) {
	var parked []event.Parked
	_, err := e.controls.changeWith(ctx, e.store.Log(), name, func(c *control, b *mainstem.Batch) (err error) {
		c.Restarts++
		parked, err = e.skipAllTo(ctx, b, name, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	return parked, nil
}

// skipAllTo parks the events at which the subscriptions of a projection are faulted, as part of b.
// It includes the subscriptions that build tables, and that of a replay.
func (e *Engine) skipAllTo(ctx context.Context, b *mainstem.Batch, name string, c *control) (parked []event.Parked, err error) {
	names := subscriptions(name, 0, c.partitions())
	if c.Next > 0 {
		names = append(names, subscriptions(name, c.Next, c.partitions())...)
	}
	if c.Replay > 0 {
		names = append(names, replaySet(name, c.Replay))
	}
	for _, s := range names {
		p, ok, err := e.skipTo(ctx, b, s)
		if err != nil {
			return nil, err
		}
		if ok {
			parked = append(parked, p)
		}
	}
	if len(parked) == 0 {
		return nil, mainstem.Refusef(mainstem.KindNotFound, "skip", "projection %s is not faulted at an event", name)
	}
	return parked, nil
}

// skipTo parks the event at which a subscription is faulted and moves the checkpoint past it, as
// part of b. It returns false if there is no such event.
func (e *Engine) skipTo(ctx context.Context, b *mainstem.Batch, name string) (event.Parked, bool, error) {
	cp, err := e.store.Checkpoint(ctx, name)
	if err != nil {
		return event.Parked{}, false, ignoreNotFound(err)
	}
	f, ok, err := e.faultOf(ctx, name, cp)
	if err != nil || !ok || f.Position == 0 {
		return event.Parked{}, false, err
	}
	p := event.Parked{Subscription: name, Stream: f.Stream, Version: f.Version, Position: f.Position, Attempts: f.Attempts, Reason: f.Error, Time: f.Time}
	e.store.ParkTo(b, p)
	e.store.MoveCheckpointTo(b, cp, f.Position)
	return p, true, nil
}

func ignoreNotFound(err error) error {
	if errors.Is(err, mainstem.ErrNotFound) {
		return nil
	}
	return err
}
