package actor

import (
	"context"
	"fmt"
	"github.com/mainstemdev/mainstem"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
)

// A question is asked in these steps:
//
//  1. Ask takes a question from a pool, or AskThen makes one. Its state says that it is open for
//     one ticket. A Reply with the ticket goes into the message, and the question itself into the
//     extra of the envelope, so that the runtime can fail it if the message is not handled.
//  2. It is closed for this ticket once: by an answer (Reply.Send or Fail), by abandon (the message
//     became a dead letter, or the actor failed during it), or by the asker that stops waiting.
//     Each does it by one compare-and-swap of state; the others notice that they came too late.
//  3. The one that closes it with an answer writes v and err and wakes the asker.
//  4. After an answer, Ask puts the question back into the pool with the next ticket, if its
//     message has left the mailbox: then only Replies with an old ticket refer to it, and those are
//     refused. Otherwise the garbage collector takes it: the envelope in the mailbox still holds
//     q.x, and would fail the later question if it became a dead letter.

// Reply is the address for the answer to a question: the From of gen_server:call. It is a field of
// the message that asks. Any actor that has it can answer, in its turn or later, and so can any
// goroutine. Only the first answer counts. The zero Reply is that of a message that asks nothing:
// answers to it are dropped.
type Reply[R any] struct {
	to     answerer[R]
	ticket uint64 // for the question in to
}

// answerer is the target of a Reply: a question of this node or another, or a function.
type answerer[R any] interface {
	answer(ticket uint64, v R, err error) error
}

// Send answers with a value. It fails with [ErrReplied] if an answer was given before or the asker
// has stopped waiting. For a question of another node, nil means only that the [Transport] accepted
// the answer. The value is not copied: it belongs to the asker then.
func (r Reply[R]) Send(v R) error {
	if r.to == nil {
		return nil
	}
	return r.to.answer(r.ticket, v, nil)
}

// Fail answers with an error, which Ask returns as it is. It fails as Send does.
func (r Reply[R]) Fail(err error) error {
	if r.to == nil {
		return nil
	}
	var none R
	return r.to.answer(r.ticket, none, err)
}

// Asked reports whether r is not the zero Reply, so that an answer reaches somebody.
func (r Reply[R]) Asked() bool { return r.to != nil }

// question is one call of Ask or AskThen, or waits in a pool for another call of Ask. See the top
// of this file.
//
// Invariants:
//   - state is 2*ticket while the question is open, and 2*ticket+1 once it is closed.
//   - The caller that closes it with an answer writes v and err, then sends to wake once or calls
//     then once. Only after that the asker reads v and err.
//   - A question in a pool is open for a ticket that no Reply has.
type question[R any] struct {
	node  *Node         // the node on which other nodes answer it; nil if none can
	x     extra         // the extra of its envelope: asked is the question itself
	state atomic.Uint64 // see above
	wake  chan struct{} // of capacity 1; nil with then
	then  func()        // of AskThen: posts the call of its function; else nil
	v     R             // the answer, with err
	err   error

	number uint64 // the last number that publish gave it, 0 if none; node.questions.mu guards it
}

// close closes the question for a ticket. It returns false if that was done before.
func (q *question[R]) close(ticket uint64) bool {
	return q.state.CompareAndSwap(2*ticket, 2*ticket+1)
}

func (q *question[R]) answer(ticket uint64, v R, err error) error {
	if !q.close(ticket) {
		return ErrReplied
	}
	q.v, q.err = v, err
	if q.then != nil {
		q.then()
	} else {
		q.wake <- struct{}{}
	}
	return nil
}

func (q *question[R]) abandon(ticket uint64, by Address, cause error) {
	if q.state.Load() == 2*ticket {
		var none R
		_ = q.answer(ticket, none, fault("ask", by, &noReply{cause}))
	}
}

// askPools are pools of questions to actors of one message type, by the type of the answer. Most
// message types have answers of one type, so the pool that was used last is found without a
// look-up.
type askPools struct {
	latest atomic.Pointer[askPool]
	all    sync.Map // reflect.Type of R -> *askPool
}

// askPool is a pool of *question[R].
type askPool struct {
	of reflect.Type // R
	sync.Pool
}

// poolOf returns the pool for answers of type R.
func poolOf[R any](ps *askPools) *askPool {
	t := reflect.TypeFor[R]()
	if p := ps.latest.Load(); p != nil && p.of == t {
		return p
	}
	v, ok := ps.all.Load(t)
	if !ok {
		p := &askPool{of: t}
		p.New = func() any {
			q := &question[R]{wake: make(chan struct{}, 1)}
			q.x.asked = q
			return q
		}
		v, _ = ps.all.LoadOrStore(t, p)
	}
	p := v.(*askPool)
	ps.latest.Store(p)
	return p
}

// noReply is an ErrNoReply that also wraps its cause.
type noReply struct{ cause error }

func (e *noReply) Error() string   { return fmt.Sprintf("%s: %s", ErrNoReply, e.cause) }
func (e *noReply) Unwrap() []error { return []error{ErrNoReply, e.cause} }

// Ask sends a message with a question to an actor and waits for the answer, like gen_server:call:
//
//	n, err := actor.Ask(ctx, counter, func(r actor.Reply[int]) Message { return Get{r} })
//
// ask makes the message; it is called once, by the calling goroutine.
//
// Ask fails with the error of [Ref.Send] if the message could not be sent; with [ErrNoReply] if the
// message became a dead letter or the actor ended while it handled it; with the error that was
// passed to [Reply.Fail]; and with Canceled if ctx ends first. After Canceled the message may still
// be handled, and its answer is refused with [ErrReplied]. An actor that handles the message,
// returns nil and keeps no Reply leaves the question open until ctx ends. There is no default
// timeout.
//
// An actor that asks passes its own [Context]: Ask returns when the actor is asked to end while it
// waits. The actor handles nothing else meanwhile; see [AskThen]. Two actors that ask each other
// wait for one another until a context ends.
//
//snippet:type Message any
//snippet:type Get struct{ actor.Reply[int] }
//snippet:var counter actor.Ref[Message]
func Ask[R, M any](ctx context.Context, to Ref[M], ask func(Reply[R]) M) (R, error) {
	var none R
	here, local := to.to.(*process[M])
	if !local {
		if to = to.seenBy(ctx); to.to == nil {
			return none, fault("ask", Address{}, ErrStopped)
		}
	}
	var pool *askPool
	var home *Node
	if local {
		pool, home = poolOf[R](&here.typeState.asks), here.node
	} else {
		pool, home = poolOf[R](to.to.asks()), to.home()
	}
	q := pool.Get().(*question[R])
	q.node = home
	ticket := q.state.Load() / 2
	q.x.ticket = ticket
	e := envelope[M]{m: ask(Reply[R]{q, ticket}), x: &q.x}
	var err error
	if local && !home.observed {
		err = here.put(ctx, User, e) // to.put would have to find out the type of the target again
	} else {
		err = to.put(ctx, User, e)
	}
	if err != nil {
		return none, err
	}
	if done := ctx.Done(); done == nil {
		<-q.wake
	} else {
		began := start(ctx)
		select {
		case <-q.wake:
		case <-done:
			if q.close(ticket) {
				return none, fault("ask", to.Address(), endOf(ctx, began, "the reply"))
			}
			<-q.wake
		}
	}
	v, err := q.v, q.err
	if q.x.taken.Load() == ticket+1 {
		// The mailbox does not hold q.x any more: the question can be used again.
		q.v, q.err = none, nil
		q.state.Store(2 * (ticket + 1))
		pool.Put(q)
	}
	return v, err
}

// AskThen sends a question to an actor and returns, like gen_server:send_request. When the answer
// has come, then is called in the turn of c's actor, in order with the messages from the actor that
// answers. An error of then ends the actor.
//
// then is called once, with the answer or with the errors of [Ask]: Canceled if no answer comes
// within the timeout (0: no limit), or the error of sending. It is not called after the incarnation
// of c's actor has ended, nor after cancel, which is for the actor's turn. The message is not taken
// back by either.
func AskThen[R, M, C any](c *Context[C], to Ref[M], timeout time.Duration, ask func(Reply[R]) M, then func(R, error) error) (cancel func()) {
	p := c.self
	to = to.seenBy(c)
	q := &question[R]{node: p.node}
	q.x.asked = q
	cancelled := false // in the actor's turn
	var timer *time.Timer
	done := &extra{inc: p.incarnation(), task: func() error {
		if cancelled {
			return nil
		}
		if timer != nil {
			timer.Stop()
		}
		return then(q.v, q.err)
	}}
	q.then = func() { p.post(User, done) }
	if timeout > 0 {
		timer = time.AfterFunc(timeout, func() {
			var none R
			_ = q.answer(0, none, fault("ask", to.Address(), &mainstem.DeadlineError{After: timeout, Waiting: "the reply"}))
		})
	}
	if err := to.put(c, User, envelope[M]{m: ask(Reply[R]{q, 0}), x: &q.x}); err != nil {
		var none R
		_ = q.answer(0, none, err)
	}
	return func() {
		cancelled = true
		q.close(0)
		if timer != nil {
			timer.Stop()
		}
	}
}

// Forward passes the question of the message that c's actor is handling on to another actor. m is
// that message, or another with the same [Reply]. From then on the question fails with [ErrNoReply]
// if m becomes a dead letter or the actor of to ends while it handles m, and no longer if c's actor
// ends.
//
// Order and errors are those of [Ref.Send]. After an error the question has failed. If the present
// message asks nothing, or its question was passed on or stashed, m is only sent.
func Forward[N, M any](c *Context[M], to Ref[N], m N) error {
	p := c.self
	e := envelope[N]{m: m}
	question, ticket := p.asking, p.ticket
	if question != nil {
		e.x = &extra{asked: question, ticket: ticket}
		p.asking = nil
	}
	to = to.seenBy(c)
	err := to.put(c, User, e)
	if err != nil && question != nil {
		question.abandon(ticket, to.Address(), err)
	}
	return err
}
