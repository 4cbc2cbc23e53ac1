package command

import (
	"context"
	"errors"

	"github.com/mainstemdev/mainstem"
)

// Hook is called when the handler has succeeded, before the commit. It may write into the
// batch. An error of it fails the command.
type Hook func(ctx context.Context, b *mainstem.Batch, r *Result) error

// attempt is one try of one dispatch: what becomes one commit.
type attempt struct {
	bus       *Bus
	batch     *mainstem.Batch
	hooks     []Hook
	committed []func(mainstem.Receipt, *Result)
	joined    bool // the batch is another attempt's, which commits it

	own   mainstem.Batch // what batch is, unless joined; here, with room for some hooks, it is no allocation of its own
	rooms struct {
		hooks     [4]Hook
		committed [1]func(mainstem.Receipt, *Result)
	}
}

func newAttempt(b *Bus) *attempt {
	at := &attempt{bus: b}
	at.batch, at.hooks, at.committed = &at.own, at.rooms.hooks[:0], at.rooms.committed[:0]
	return at
}

type (
	attemptKey struct{}
	joinKey    struct{}
	hookKey    struct{}
)

func attemptOf(ctx context.Context) *attempt {
	at, _ := ctx.Value(attemptKey{}).(*attempt)
	return at
}

// Batch returns the batch of the command that ctx is of: what a handler writes into it is
// committed with all else that the command leads to, after the handler has returned without an
// error. It belongs to the handler until then. Outside of a dispatch it is a batch whose commit fails.
//
// A write that takes ctx and not the batch, such as Put of a bucket, is a commit of its own,
// and stays when the command fails.
func Batch(ctx context.Context) *mainstem.Batch {
	if at := attemptOf(ctx); at != nil {
		return at.batch
	}
	b := mainstem.NewBatch()
	b.Fail(mainstem.Refusef(mainstem.KindInvalid, "command", "command.Batch outside of a dispatch: the context is not that of a handler"))
	return b
}

// BeforeCommit lets a middleware write into the batch of the command that ctx is of, once
// the handler has succeeded. Hooks are called in the order in which they were added; with
// [Retry] further in, those of a middleware outside of it are called once for each try.
// Outside of a dispatch it does nothing.
func BeforeCommit(ctx context.Context, hook Hook) {
	if at := attemptOf(ctx); at != nil {
		at.hooks = append(at.hooks, hook)
	}
}

// WithHook returns a context with which the next command that is dispatched calls hook before its
// commit, in front of the hooks of the middleware, as [BeforeCommit] says: for those that dispatch
// commands out of a queue, and take them off it in the commit of what they led to. Commands that
// its handler dispatches do not call it, nor does a command that was carried out before.
func WithHook(ctx context.Context, hook Hook) context.Context {
	return context.WithValue(ctx, hookKey{}, hook)
}

// Join returns a context with which a handler dispatches another command as part of its own:
// both are one commit, that of the outer command. If the inner one fails, the outer one does too,
// also if its handler returns no error. [Retry] tries the outer one only.
// Without Join a command that a handler dispatches is a commit of its own.
func Join(ctx context.Context) context.Context { return context.WithValue(ctx, joinKey{}, true) }

// begin returns the context of a dispatch, and its first attempt.
func (b *Bus) begin(ctx context.Context) (context.Context, *attempt) {
	at := newAttempt(b)
	outer := attemptOf(ctx)
	if joins, _ := ctx.Value(joinKey{}).(bool); joins && outer != nil {
		at.batch, at.joined = outer.batch, true
		ctx = context.WithValue(ctx, joinKey{}, false)
	}
	if hook, _ := ctx.Value(hookKey{}).(Hook); hook != nil {
		at.hooks = append(at.hooks, hook)
		ctx = context.WithValue(ctx, hookKey{}, Hook(nil))
	}
	return context.WithValue(ctx, attemptKey{}, at), at
}

// again returns the context of another try, with an empty batch and the hooks that were there
// before the first one.
func (at *attempt) again(ctx context.Context, hooks int) context.Context {
	next := newAttempt(at.bus)
	next.hooks = append(next.hooks, at.hooks[:hooks]...)
	return context.WithValue(ctx, attemptKey{}, next)
}

// errDuplicate ends a try whose command turns out to be carried out already; see Idempotency.
var errDuplicate = errors.New("the command was carried out before")
