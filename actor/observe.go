package actor

import (
	"context"
	"runtime/debug"
	"time"
)

// Observer watches the actors of a node; see [NodeOptions.Observer]. Its methods
// are called by the goroutines of the actors: they must be quick and safe for
// concurrent use. Embed [NoObserver] to implement only some. One that panics harms no
// actor: the node logs it. The same goes for a [Tracer].
type Observer interface {
	// Started: an incarnation of an actor has begun.
	Started(a AnyRef)
	// Ended: an incarnation has ended.
	Ended(a AnyRef, reason error)
	// Handled: a message was handled. waited is how long it was in the mailbox, took
	// how long Receive ran; reason is why it ended the actor, or nil.
	Handled(a AnyRef, waited, took time.Duration, reason error)
	// Dropped: a message became a dead letter.
	Dropped(l DeadLetter)
}

// NoObserver is an [Observer] that does nothing.
type NoObserver struct{}

// Started does nothing.
func (NoObserver) Started(AnyRef) {}

// Ended does nothing.
func (NoObserver) Ended(AnyRef, error) {}

// Handled does nothing.
func (NoObserver) Handled(AnyRef, time.Duration, time.Duration, error) {}

// Dropped does nothing.
func (NoObserver) Dropped(DeadLetter) {}

// Tracer lets traces ride on messages; see [NodeOptions.Tracer].
type Tracer interface {
	// Sent is called when a message is sent, with the context that was passed to Send.
	// The value that it returns rides on the message.
	Sent(ctx context.Context, to AnyRef) any
	// Received is called before the message is handled, with what rides on it (nil if
	// nothing does); life ends when the node has stopped. While it is handled, values of the actor's [Context] come from ctx;
	// done is called after it.
	Received(life context.Context, carried any, by AnyRef) (ctx context.Context, done func(reason error))
}

// noWait is the context of sends that never wait.
var noWait context.Context

// trail is what observation puts on a message.
type trail struct {
	sent    time.Time
	carried any
}

// observe puts a trail on a message that is being sent.
func (n *Node) observe(ctx context.Context, to AnyRef, x *extra) *extra {
	if x == nil {
		x = new(extra)
	}
	x.trail = &trail{sent: time.Now()}
	if n.tracer != nil && ctx != nil {
		n.harmless(func() { x.trail.carried = n.tracer.Sent(ctx, to) })
	}
	return x
}

// harmless calls what watches actors and is none itself: an observer, a tracer, a
// listener. Those are called by the goroutines of actors and timers, where nobody
// could recover from their panics.
func (n *Node) harmless(f func()) {
	if err := guard(func() error { f(); return nil }); err != nil {
		report(n.log.Error, "what watches the node panicked", "err", err)
	}
}

// report logs. A handler that panics can be reported nowhere.
func report(log func(msg string, args ...any), msg string, args ...any) {
	_ = guard(func() error { log(msg, args...); return nil })
}

// receive calls Receive, and the observer and the tracer before and after.
func (p *process[M]) receive(m M, t *trail) (reason error) {
	n, self := p.node, Ref[M]{p}
	begin := time.Now()
	done := func(error) {}
	if n.tracer != nil {
		var ctx context.Context
		n.harmless(func() { ctx, done = n.tracer.Received(lifetime{n}, t.carried, self) })
		if ctx != nil {
			p.trace.Store(&ctx)
			defer p.trace.Store(nil)
		}
	}
	returned := false
	defer func() {
		if v := recover(); v != nil {
			reason = &PanicError{Value: v, Stack: debug.Stack()}
		} else if !returned {
			reason = Exited
		}
		took := time.Since(begin)
		if n.tracer != nil {
			n.harmless(func() { done(reason) })
		}
		if n.observer != nil {
			n.harmless(func() { n.observer.Handled(self, begin.Sub(t.sent), took, reason) })
		}
	}()
	reason = p.act.Receive(&p.ctx, m)
	returned = true
	return reason
}
