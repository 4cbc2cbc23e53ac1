package projection

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// Live configures a live projection. Nil and zero fields mean the defaults.
type Live struct {
	// Drop leaves out events that come faster than the handlers handle them, and events at which a
	// handler fails; [Status.Dropped] counts them. Without Drop the projection falls behind, and
	// handles a failed event again until it succeeds.
	Drop bool
	// Buffer is the number of events that may wait before further ones are dropped. Default 256.
	// Used with Drop only.
	Buffer int
}

// DefaultBuffer is the default of [Live.Buffer].
const DefaultBuffer = 256

// RegisterLive adds a live projection, before Start: one without a checkpoint, for state of this
// process such as a cache or the connections of browsers. Every engine handles every event that is
// committed after [Status.State] has become [Running], and none from before the start. Events that
// are committed while it is paused, or while its control row changes, for example by a restart, are
// not handled either.
//
// The handlers must not write through their [Tx]: without a checkpoint each process would write,
// and again after each failure. A write is an error of kind Invalid.
func (e *Engine) RegisterLive(p *Projection, o *Live) error {
	if o == nil {
		o = &Live{}
	}
	l := *o
	if l.Buffer < 0 {
		return mainstem.Refusef(mainstem.KindInvalid, "register projection", "Buffer is %d: want 0 (default) or more", l.Buffer)
	}
	if l.Buffer == 0 {
		l.Buffer = DefaultBuffer
	}
	return e.register(p, &Async{Tail: true}, &l)
}

// beginLive starts the live projection at the newest record of the log, unless it is paused.
func (g *generation) beginLive() {
	if g.ctl.Paused {
		g.u.set(Paused, nil)
		return
	}
	l := &follower{u: g.u, part: &part{set: &set{g: g, n: 1}, u: g.u, name: g.u.p.name, stopping: make(chan struct{})}}
	g.u.add(l.part) // before Running, which is reported only when the part has its beginning
	g.u.set(Running, nil)
	g.wg.Go(func() {
		defer g.u.remove(l.part)
		ctx, cancel := g.untilLeaving()
		defer cancel()
		l.run(ctx)
	})
}

// follower runs a live projection while the control row stays the same.
type follower struct {
	u    *unit
	part *part
	at   mainstem.Position // everything up to it was handled or dropped; used by one goroutine
}

// run follows the feed until ctx ends. After an error it continues from at, after a pause.
func (l *follower) run(ctx context.Context) {
	retry := backoff.Policy{First: 10 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.5}
	begun := false
	for n := 1; ctx.Err() == nil; n++ {
		err := error(nil)
		if !begun {
			l.at, err = l.u.e.store.Log().Head(ctx)
			begun = err == nil
		}
		if err == nil {
			l.part.setState(Running, nil)
			before := l.at
			err = l.follow(ctx)
			if l.at != before {
				n = 1
			}
		}
		if ctx.Err() != nil {
			return
		}
		l.failed(err)
		l.part.setState(Restarting, err)
		retry.Wait(ctx, n)
	}
}

// failed logs and counts a failure, and sets the state to Faulted.
func (l *follower) failed(err error) {
	l.part.setState(Faulted, err)
	l.u.mu.Lock()
	l.u.mu.faults++
	l.u.mu.Unlock()
	l.u.e.opts.Logger.Error("a live projection has failed", "store", l.u.e.store.Name(), "projection", l.u.p.name, "error", err)
}

// follow handles the events after at until an error occurs.
func (l *follower) follow(ctx context.Context) error {
	if l.u.live.Drop {
		return l.followDropping(ctx)
	}
	for r, err := range l.feed(ctx) {
		if err == nil {
			err = l.handle(ctx, r)
		}
		if err != nil {
			return err
		}
		l.at = r.Position
	}
	return nil
}

// feed returns the selected events after at, and new ones as they are committed.
func (l *follower) feed(ctx context.Context) func(func(event.Recorded, error) bool) {
	return l.u.e.store.Feed(ctx, &event.FeedOptions{Filter: l.u.p.filter, After: l.at, Follow: true})
}

// followDropping reads events as fast as they come into a buffer, from which a second goroutine
// handles them. It drops events for which the buffer has no room. It returns after that goroutine
// has ended.
func (l *follower) followDropping(ctx context.Context) error {
	waiting := make(chan event.Recorded, l.u.live.Buffer)
	handled := make(chan struct{})
	go func() {
		defer close(handled)
		for r := range waiting {
			if ctx.Err() != nil {
				continue
			}
			if err := l.handle(ctx, r); err != nil && ctx.Err() == nil {
				l.failed(err)
				l.drop()
				l.part.setState(Running, nil)
			}
		}
	}()
	defer func() { close(waiting); <-handled }()
	for r, err := range l.feed(ctx) {
		if err != nil {
			return err
		}
		select {
		case waiting <- r.Clone():
		default:
			l.drop()
		}
		l.at = r.Position
	}
	return nil
}

// drop counts an event that is left out.
func (l *follower) drop() {
	l.u.mu.Lock()
	defer l.u.mu.Unlock()
	l.u.mu.dropped++
}

// handle calls the handlers with one event, and turns a panic into an error.
func (l *follower) handle(ctx context.Context, r event.Recorded) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the handler panicked: %v\n%s", p, debug.Stack())
		}
	}()
	began := time.Now()
	tx := newTx(mainstem.NewBatch())
	if err := l.u.p.apply(ctx, tx, l.u.e.types, r); err != nil {
		return err
	}
	if err := tx.flush(ctx); err != nil || tx.batch.Len() > 0 || tx.batch.Err() != nil {
		return mainstem.Refusef(mainstem.KindInvalid, "projection", "%s is live, and has written through its Tx: register it with Register", l.u.p.name)
	}
	l.u.note([]event.Recorded{r}, time.Since(began))
	return nil
}
