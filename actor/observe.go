package actor

import (
	"context"
	"runtime/debug"
	"time"
)

// Observer is called at the steps of all actors of a node; see [NodeOptions.Observer]. Its methods
// are called by the goroutines that take these steps: those of actors, of senders, and of callers
// of [Spawn]. So they must be quick, must not block, and must be safe for concurrent use. If one
// panics, the node logs it. All this holds for a [Tracer], too. Embed [NoObserver] to implement
// only some.
type Observer interface {
	// Started: the Start method of an incarnation has returned nil, or there is none.
	Started(a AnyRef)
	// Ended: an incarnation has ended, and its Stop method has returned. It is also called for an
	// incarnation whose Start method failed, for which Started was not called.
	Ended(a AnyRef, reason error)
	// Handled: Receive has handled a message. waited is the time between Send and Receive, took
	// the time in Receive; reason is the error of Receive, or nil. It is not called for functions
	// of timers, monitors and answers, nor for a stashed message when that is handled again.
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

// Tracer carries traces along with messages; see [NodeOptions.Tracer]. Like an [Observer] it is
// called by many goroutines at once. A [Propagator] carries traces to other nodes, too.
type Tracer interface {
	// Sent is called when a message is sent, with the context that was passed to Send. The node
	// keeps the returned value with the message and passes it to Received.
	Sent(ctx context.Context, to AnyRef) any
	// Received is called before a message is handled, with the value of Sent (nil if there is
	// none). life ends when the node has stopped. While the message is handled, the values of the
	// actor's [Context] are those of ctx. done is called after that, with the error of Receive.
	Received(life context.Context, carried any, by AnyRef) (ctx context.Context, done func(reason error))
}

// noWait is the context of sends that do not wait for room in a mailbox: nil.
var noWait context.Context

// trail is the part of an observed message for the observer and the tracer.
type trail struct {
	sent    time.Time // when it was sent, or came from another node
	carried any       // the value of Tracer.Sent or Propagator.Extract
}

// observe returns x with a trail, for a message that is being sent. It allocates x if it is nil.
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

// harmless calls an observer, a tracer, or another function that is no part of an actor, and logs a
// panic in it. The goroutines of actors and timers make these calls: without the recovery a panic
// would end the actor, or the program.
func (n *Node) harmless(f func()) {
	if err := guard(func() error { f(); return nil }); err != nil {
		report(n.log.Error, "what watches the node panicked", "err", err)
	}
}

// report logs. A panic of the log handler is ignored, since it can be reported nowhere.
func report(log func(msg string, args ...any), msg string, args ...any) {
	_ = guard(func() error { log(msg, args...); return nil })
}

// receive calls Receive for an observed message, with the tracer before it and both after it. It
// recovers from a panic itself, so that both get the reason.
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
