package saga

import (
	"context"
	"errors"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/internal/wake"
	"github.com/mainstemdev/mainstem/kv"
)

// Delivery of messages. deliver walks over the sagas that have messages in the inbox, and gives
// each to a worker, unless a worker has it already or it waits after a failure (see rest.go). A
// worker carries out the messages of its saga in the order of their numbers:
//
//   - A command is dispatched to the bus. A hook adds the removal of the message, on condition that
//     it exists, to the commit of the command's handler.
//   - A compensation is the same, and the commit also notes it in the row of the saga.
//   - An event or timeout that Retry handles again is a step of the saga that also removes the
//     message.
//
// Only the first message of a saga is ever tried, so a failure delays the later ones. Several
// engines may try the same message: the condition lets one commit succeed, and the others get
// errTaken.
//
// Invariant: a message is removed in the commit of its effect, of its refusal, or of a failure of
// the saga that withdraws it. There is one exception: if the bus reports a duplicate, or a
// middleware returns without a commit, the message is removed afterwards, in a commit of its own.

// errTaken reports that another engine has carried out the message, or that it was withdrawn.
var errTaken = errors.New("the message is not there any more")

// deliver carries out messages until soft ends: those of one saga one after the other, those of up
// to [Options.Workers] sagas at a time. It starts a new pass when woken is signalled, and when a
// saga has waited long enough after a failure.
func (u *unit) deliver(hard, soft context.Context, woken chan struct{}) {
	slots := make(chan struct{}, u.opts.Workers)
	var workers sync.WaitGroup
	defer workers.Wait()
	for failures := 0; ; {
		began := time.Now()
		err := u.pass(soft, func(id string) bool {
			select {
			case slots <- struct{}{}:
			case <-soft.Done():
				return false
			}
			if !u.rest.take(id, time.Now()) {
				<-slots
				return true
			}
			workers.Go(func() {
				u.carryOut(hard, soft, id)
				u.rest.leave(id)
				<-slots
				wake.Signal(woken) // messages may have been added meanwhile, or the saga waits now
			})
			return true
		})
		at, timed := u.rest.next(began)
		if failures++; err == nil {
			failures = 0
		} else if soft.Err() == nil {
			u.opts.Logger.Warn("the commands of sagas cannot be read", "store", u.store, "saga", u.saga.name, "error", err)
			at, timed = time.Now().Add(watchAgain.Delay(failures)), true
		}
		if !wait(soft, woken, at, timed) {
			return
		}
	}
}

// pass calls do for each saga that has messages, in the order of their IDs, until do returns false.
func (u *unit) pass(ctx context.Context, do func(id string) bool) error {
	prefix := u.saga.name + "-"
	for start := prefix; ; {
		id := ""
		for key, err := range u.inbox.Keys(ctx, &kv.Query{Prefix: prefix, Start: start, Limit: 1}) {
			if err != nil {
				return err
			}
			id, _, _ = strings.Cut(key, "\x00")
		}
		if id == "" || !do(id) {
			return nil
		}
		start = id + "\x01" // after all messages of this saga
	}
}

// carryOut carries out the messages of one saga in order, until there are none, one must wait after
// a failure, or soft ends.
func (u *unit) carryOut(hard, soft context.Context, id string) {
	for soft.Err() == nil {
		m, err := u.first(hard, id)
		if err == nil && m.n == 0 {
			return
		}
		if err == nil {
			err = u.perform(hard, id, m)
		}
		switch {
		case err == nil:
			u.rest.succeeded(id)
		case errors.Is(err, errTaken):
			u.rest.succeeded(id)
		case !u.failed(hard, id, m, err):
			return
		}
	}
}

// first returns the first message of a saga. Its number is 0 if there is none.
func (u *unit) first(ctx context.Context, id string) (m numbered, err error) {
	for e, err := range u.inbox.List(ctx, &kv.Query{Prefix: id + "\x00", Limit: 1}) {
		if err != nil {
			return m, err
		}
		if _, m.n, err = splitInboxKey(e.Key); err != nil {
			return m, err
		}
		m.message = e.Value
	}
	return m, nil
}

// failed handles an error of a message; m.n is 0 if the message could not be read. The error is one
// of three:
//
//   - one that says nothing about the message: it is tried again without end;
//   - one that may be transient: it is tried [Options.Attempts] times, and then is a refusal;
//   - a refusal, which fails the saga.
//
// It returns true if the message is gone and the next one may be carried out at once.
func (u *unit) failed(ctx context.Context, id string, m numbered, err error) bool {
	now := time.Now()
	var unhandled *command.HandlerNotFoundError
	free := m.n == 0 || endless(ctx, err) || errors.As(err, &unhandled)
	passes := m.Kind == kindAgain && !errors.Is(err, mainstem.ErrNotFound) || u.opts.Passing(err)
	refused := !free && (!passes || u.rest.failed(id, true, now) >= u.opts.Attempts)
	if refused {
		refusal := u.refuse(ctx, id, m, err)
		if refusal == nil || errors.Is(refusal, errTaken) {
			u.rest.succeeded(id)
			return true
		}
		err, free = refusal, true
	}
	if free {
		u.rest.failed(id, false, now)
	}
	if errors.Is(err, errChanged) {
		return false
	}
	u.count(func(s *Stats) { s.Failures++ })
	if ctx.Err() == nil {
		u.opts.Logger.Warn("a command of a saga is tried again", "store", u.store, "saga", id, "number", m.n, "command", m.Type, "error", err)
	}
	return false
}

// perform carries out one message. It returns errTaken if the message is gone.
func (u *unit) perform(ctx context.Context, id string, m numbered) error {
	if m.Kind == kindAgain {
		return u.again(ctx, id, m)
	}
	name := commandID(u.saga.name, strings.TrimPrefix(id, u.saga.name+"-"), m.n)
	cmd, err := u.saga.decode(&m.message, name)
	if err != nil {
		return err
	}
	ctx = event.WithMetadata(ctx, event.Metadata{CorrelationID: m.Correlation, TenantID: m.Tenant, CausationID: name})
	tries := 0
	is, _ := u.gate.get() // then the condition of the last try
	hook := func(ctx context.Context, b *mainstem.Batch, _ *command.Result) error {
		if tries++; tries > 1 { // after a conflict: perhaps it is carried out elsewhere, or paused
			if err := errors.Join(u.there(ctx, id, m.n), u.unchanged(ctx, is)); err != nil {
				return err
			}
		}
		is = u.expect(b)
		w := u.work(b)
		if err := u.done(ctx, w, id, m); err != nil {
			return err
		}
		return w.flush()
	}
	r, err := u.dispatch(command.WithHook(ctx, hook), cmd, name)
	if err == nil && (r.Duplicate || tries == 0) { // done before, or a middleware returned without a commit
		err = u.change(ctx, func(w *work) error { return u.done(ctx, w, id, m) })
	}
	if err == nil {
		u.count(func(s *Stats) { s.Commands++ })
		return nil
	}
	return u.unlessTaken(ctx, id, m.n, u.unlessChanged(ctx, is, err))
}

// dispatch is [command.Bus.Dispatch] that turns a panic into a [*command.PanicError]. id is the ID
// that the saga gives its command. It is unique only within the store, since sagas of other stores
// may have the same type and key.
func (u *unit) dispatch(ctx context.Context, cmd command.Command, id string) (r command.Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			r, err = command.Result{}, &command.PanicError{Command: cmd.CommandType(), Value: v, Stack: debug.Stack()}
		}
	}()
	if c, ok := cmd.(interface{ CommandBase() command.Base }); ok && c.CommandBase().CommandID == id {
		ctx = command.WithScope(ctx, u.store)
	}
	return u.bus.Dispatch(ctx, cmd)
}

// done adds to w that a command was carried out: it removes the message, on condition that it
// exists, and notes a compensation in its saga.
func (u *unit) done(ctx context.Context, w *work, id string, m numbered) error {
	if m.Kind != kindUndo {
		u.inbox.DeleteTo(w.b, inboxKey(id, m.n), kv.IfExists())
		return nil
	}
	in, err := w.load(ctx, id)
	if err != nil {
		return err
	}
	in.changed = true
	in.gone = append(in.gone, m.n)
	in.undone(time.Now(), commandID(in.row.Saga, in.row.Key, m.n), m.message, nil)
	return nil
}

// there returns errTaken if a message does not exist any more.
func (u *unit) there(ctx context.Context, id string, n uint64) error {
	_, err := u.inbox.Get(ctx, inboxKey(id, n))
	if errors.Is(err, mainstem.ErrNotFound) {
		return errTaken
	}
	return err
}

// unlessTaken returns errTaken if the message does not exist any more, since err may be the
// consequence; else err.
func (u *unit) unlessTaken(ctx context.Context, id string, n uint64, err error) error {
	if gone := u.there(ctx, id, n); errors.Is(gone, errTaken) {
		return errTaken
	}
	return err
}

// refuse fails the saga because a message was refused, or notes that a compensation was. If the
// saga does not exist, it only removes the message.
func (u *unit) refuse(ctx context.Context, id string, m numbered, cause error) error {
	err := u.change(ctx, func(w *work) error {
		in, err := w.load(ctx, id)
		if err != nil {
			return err
		}
		if !in.found {
			u.inbox.DeleteTo(w.b, inboxKey(id, m.n), kv.IfExists())
			return nil
		}
		return in.refused(ctx, time.Now(), m.n, m.message, cause)
	})
	if err != nil {
		return u.unlessTaken(ctx, id, m.n, err)
	}
	u.count(func(s *Stats) { s.Refused++ })
	u.opts.Logger.Warn("a command of a saga was refused", "store", u.store, "saga", id, "number", m.n, "command", m.Type, "error", cause)
	return nil
}

// again handles an event or a timeout again, for Retry. If the saga is neither started nor running,
// it only removes the message. It returns errTaken if the message is gone.
func (u *unit) again(ctx context.Context, id string, m numbered) error {
	return u.changeAgain(ctx, func(w *work) error {
		if err := u.there(ctx, id, m.n); err != nil {
			return err
		}
		in, err := w.load(ctx, id)
		if err != nil {
			return err
		}
		in.gone, in.changed = append(in.gone, m.n), true
		if !in.row.Status.live() {
			return nil
		}
		t, err := u.taskOf(ctx, in, m.message)
		if err != nil {
			return err
		}
		return in.handle(ctx, t, time.Now())
	})
}

// taskOf returns the task of handling again the event or timeout of a message. An event that is
// gone, or that has no handler any more, is NotFound; a timeout without handler is Unavailable.
func (u *unit) taskOf(ctx context.Context, in *instance, m message) (t task, err error) {
	if m.Event == nil {
		if u.saga.timeouts[m.Timeout] == nil {
			return task{}, mainstem.Errorf(mainstem.KindUnavailable, "saga", "%s has no handler for timeout %s any more", u.saga.name, m.Timeout)
		}
		return timeoutTask(u.saga, m.Timeout), nil
	}
	evs, err := u.events.Load(ctx, m.Event.Stream, &event.LoadOptions{From: m.Event.Version, To: m.Event.Version})
	if err != nil {
		return task{}, err
	}
	gone := mainstem.Errorf(mainstem.KindNotFound, "saga", "version %d of stream %.100q cannot be handled again: it is gone, or has no handler any more", m.Event.Version, m.Event.Stream)
	if len(evs) == 0 {
		return task{}, gone
	}
	part := -1
	err = u.types.Each(evs[0], func(v any, r event.Recorded) error {
		part++
		h := u.saga.events[reflect.TypeOf(v)]
		switch {
		case part != m.Event.Part || h == nil:
		case *m.Event == in.row.Start && h.start != nil:
			t = eventTask(u.saga, h.start.do, v, r, part, StepStarted)
		case h.on != nil:
			t = eventTask(u.saga, h.on.do, v, r, part, StepHandled)
		}
		return nil
	})
	if err == nil && t.do == nil {
		err = gone
	}
	return t, err
}
