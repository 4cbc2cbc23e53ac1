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

// Live tunes a live projection. Nil and zero fields mean the defaults.
type Live struct {
	// Drop lets events be left out that come faster than the handlers handle them, or that they fail
	// at; [Status.Dropped] counts them. Without it, the projection falls behind, and tries again.
	Drop bool
	// Buffer is how many events may wait before some are dropped. Default 256.
	Buffer int
}

// DefaultBuffer is how many events of a live projection may wait.
const DefaultBuffer = 256

// RegisterLive adds a live projection, before Start: one without a checkpoint, for what lives in this
// process, such as caches and connections of browsers. Every engine handles every event that is
// committed after it has started; what was there before it does not see. While it is paused it lets events
// pass. Its handlers may not write through their [Tx]: without a checkpoint, that would happen in each
// process, and again after each failure.
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

// beginLive begins at the newest record: what comes while the row changes is not there for this projection.
func (g *generation) beginLive() {
	if g.ctl.Paused {
		g.u.set(Paused, nil)
		return
	}
	l := &follower{u: g.u, part: &part{set: &set{g: g, n: 1}, u: g.u, name: g.u.p.name, stopping: make(chan struct{})}}
	g.u.set(Running, nil)
	g.wg.Go(func() {
		g.u.add(l.part)
		defer g.u.remove(l.part)
		ctx, cancel := context.WithCancel(g.ctx)
		defer cancel()
		go func() {
			select {
			case <-g.u.leaving:
				cancel()
			case <-ctx.Done():
			}
		}()
		l.run(ctx)
	})
}

// follower handles the events of a live projection as they come.
type follower struct {
	u    *unit
	part *part
	at   mainstem.Position // everything up to it was handled, or let pass
}

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

func (l *follower) failed(err error) {
	l.part.setState(Faulted, err)
	l.u.mu.Lock()
	l.u.mu.faults++
	l.u.mu.Unlock()
	l.u.e.opts.Logger.Error("a live projection has failed", "store", l.u.e.store.Name(), "projection", l.u.p.name, "error", err)
}

// follow handles events from where it was on, until there is an error.
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

func (l *follower) feed(ctx context.Context) func(func(event.Recorded, error) bool) {
	return l.u.e.store.Feed(ctx, &event.FeedOptions{Filter: l.u.p.filter, After: l.at, Follow: true})
}

// followDropping reads as fast as events come, and drops those that find the buffer full.
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

func (l *follower) drop() {
	l.u.mu.Lock()
	defer l.u.mu.Unlock()
	l.u.mu.dropped++
}

// handle calls the handlers with one event.
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
