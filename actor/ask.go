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

// Reply is where the answer to a question goes. It is a field of the message
// that asks; any actor that has it can answer, at once or later, the first receiver or
// another that the message was passed on to. Only the first answer counts. The zero
// Reply is that of a message that asks nothing: what is sent to it is dropped.
type Reply[R any] struct {
	to     answerer[R]
	ticket uint64
}

type answerer[R any] interface {
	answer(ticket uint64, v R, err error) error
}

// Send answers with a value. It fails with [ErrReplied] if an answer was given
// before or nobody waits any more.
func (r Reply[R]) Send(v R) error {
	if r.to == nil {
		return nil
	}
	return r.to.answer(r.ticket, v, nil)
}

// Fail answers with an error, which the asker gets as it is.
func (r Reply[R]) Fail(err error) error {
	if r.to == nil {
		return nil
	}
	var none R
	return r.to.answer(r.ticket, none, err)
}

// Asked reports whether somebody asked: whether r is not the zero Reply.
func (r Reply[R]) Asked() bool { return r.to != nil }

// question is an Ask that is under way, or one that is over and waits in a pool
// to stand for another.
//
// Invariant: state is twice the ticket of the question, plus one once it is
// answered or given up. The caller that adds the one for an answer writes v and err, and
// then either sends to wake once or calls then.
type question[R any] struct {
	node  *Node // where it can be answered, if that is elsewhere
	x     extra // rides on the message, so that a dropped question is answered
	state atomic.Uint64
	wake  chan struct{} // of capacity 1; nil with then
	then  func()
	v     R
	err   error

	number uint64 // what other nodes answered to last, 0 if none did; node.questions.mu guards it
}

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

// askPools are the questions that the actors of one message type were asked, by
// the type of the answer. Most have one such type.
type askPools struct {
	latest atomic.Pointer[askPool]
	all    sync.Map // reflect.Type of R -> *askPool
}

type askPool struct {
	of reflect.Type
	sync.Pool
}

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

// noReply is ErrNoReply with its cause.
type noReply struct{ cause error }

func (e *noReply) Error() string   { return fmt.Sprintf("%s: %s", ErrNoReply, e.cause) }
func (e *noReply) Unwrap() []error { return []error{ErrNoReply, e.cause} }

// Ask sends a message with a question to an actor and waits for the answer:
//
//	n, err := actor.Ask(ctx, counter, func(r actor.Reply[int]) Message { return Get{r} })
//
// It fails with Canceled when ctx ends first; with Closed or Unavailable if the
// message could not be sent; with [ErrNoReply] if it was dropped, or the actor failed
// while it handled it; or with the error that was passed to [Reply.Fail].
//
// An actor that asks passes its own [Context]. It blocks no other actor, and when it
// is asked to end while it waits, Ask returns; use [AskThen] to handle other
// messages meanwhile.
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
		err = here.put(ctx, User, e) // as Ref.put would, which had to find out again what to is
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
		// Nothing refers to q.x any more: the question can stand for another.
		q.v, q.err = none, nil
		q.state.Store(2 * (ticket + 1))
		pool.Put(q)
	}
	return v, err
}

// AskThen sends a question to an actor and returns; when the answer comes, then
// is called in the turn of c's actor, between two messages, in order with other
// messages from those that answer. An error of then ends the actor.
//
// If no answer comes within the timeout (0: no limit), then is called with a
// Canceled error; if the message cannot be sent, with that error. cancel takes the
// question back: once it has returned in the actor's turn, then is not called. After
// the actor has ended or was restarted, it is not called either.
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

// Forward passes on the message that c's actor is handling, as it is or as
// another message with the same [Reply], with the question that it asks: from then on
// the question fails with [ErrNoReply] if to drops it or fails over it, and no longer if
// c's actor ends. Order and errors are those of [Ref.Send]; after an error the
// question has failed, if there was one. A message that asks nothing is only sent.
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
