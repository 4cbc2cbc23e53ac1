package command

import (
	"context"
	"errors"

	"github.com/mainstemdev/mainstem"
)

// Hook is called after the handler has succeeded and before the commit; see [BeforeCommit]. It may
// write into b and change r. Its error fails the command.
type Hook func(ctx context.Context, b *mainstem.Batch, r *Result) error

// attempt is one try of one dispatch: the unit of work that becomes one commit. It belongs to the
// goroutine of the dispatch.
type attempt struct {
	bus       *Bus
	batch     *mainstem.Batch
	hooks     []Hook                            // called before the commit, in this order
	committed []func(mainstem.Receipt, *Result) // called after the commit, to complete the result
	joined    bool                              // the batch is that of the outer attempt, which commits it
	scope     string                            // see WithScope

	// own is the batch unless the attempt is joined. It and the arrays of rooms are part of the
	// attempt so that a dispatch needs one allocation for all of them.
	own   mainstem.Batch
	rooms struct {
		hooks     [4]Hook
		committed [1]func(mainstem.Receipt, *Result)
	}
}

// newAttempt returns an attempt with an empty batch and no hooks.
func newAttempt(b *Bus) *attempt {
	at := &attempt{bus: b}
	at.batch, at.hooks, at.committed = &at.own, at.rooms.hooks[:0], at.rooms.committed[:0]
	return at
}

// The keys of context values.
type (
	attemptKey struct{} // *attempt
	joinKey    struct{} // bool; see Join
	hookKey    struct{} // Hook; see WithHook
	scopeKey   struct{} // string; see WithScope
)

// attemptOf returns the attempt of ctx, or nil outside of a dispatch.
func attemptOf(ctx context.Context) *attempt {
	at, _ := ctx.Value(attemptKey{}).(*attempt)
	return at
}

// Batch returns the batch of the command that ctx belongs to. The handler may write into it until
// it returns; then the batch is committed, if nothing failed. Outside of a dispatch Batch returns a
// batch whose commit fails with Invalid.
//
// A write that takes ctx instead of the batch, such as Put of a bucket, is a commit of its own, and
// remains when the command fails.
func Batch(ctx context.Context) *mainstem.Batch {
	if at := attemptOf(ctx); at != nil {
		return at.batch
	}
	b := mainstem.NewBatch()
	b.Fail(mainstem.Refusef(mainstem.KindInvalid, "command", "command.Batch outside of a dispatch: the context is not that of a handler"))
	return b
}

// BeforeCommit adds a hook to the command that ctx belongs to. Hooks are called in the order in
// which they were added. With [Retry] further in, the hooks of the middleware outside of it are
// called once for each try. Outside of a dispatch BeforeCommit does nothing.
func BeforeCommit(ctx context.Context, hook Hook) {
	if at := attemptOf(ctx); at != nil {
		at.hooks = append(at.hooks, hook)
	}
}

// WithHook returns a context with which the next dispatched command calls hook before its commit,
// before the hooks of the middleware; see [BeforeCommit]. It is for code that dispatches commands
// from a queue and removes each from the queue in the command's commit. The hook is not called by
// commands that the handler dispatches, nor for a command that [Idempotency] finds to be handled
// before.
func WithHook(ctx context.Context, hook Hook) context.Context {
	return context.WithValue(ctx, hookKey{}, hook)
}

// WithScope returns a context with which the CommandID of the next dispatched command counts as
// unique only within scope: [Idempotency] keeps apart equal CommandIDs of different scopes, and those
// without a scope. It does not change an IdempotencyKey, nor the commands that the handler
// dispatches.
func WithScope(ctx context.Context, scope string) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope)
}

// Join returns a context with which a handler dispatches another command as part of its own: both
// are one commit, that of the outer command. If the inner command fails or panics the outer one fails
// too, even if its handler returns no error. [Retry] tries only the outer command again. Without
// Join, a command that a handler dispatches is a commit of its own.
//
// Both buses must commit to the same log; else the inner command is Invalid, and fails the outer one.
func Join(ctx context.Context) context.Context { return context.WithValue(ctx, joinKey{}, true) }

// begin returns the context of a dispatch with its first attempt. It consumes Join, WithHook and
// WithScope, so that they do not reach the commands that the handler dispatches. It fails, and with
// it the outer command, if the dispatch joins a command of a bus of another log.
func (b *Bus) begin(ctx context.Context) (context.Context, *attempt, error) {
	at := newAttempt(b)
	outer := attemptOf(ctx)
	if joins, _ := ctx.Value(joinKey{}).(bool); joins && outer != nil {
		if outer.bus.log != b.log {
			err := mainstem.Refusef(mainstem.KindInvalid, "command", "join: the bus %s commits to another log than the bus %s of the outer command: dispatch without Join", b.name, outer.bus.name)
			outer.batch.Fail(err)
			return ctx, nil, err
		}
		at.batch, at.joined = outer.batch, true
		ctx = context.WithValue(ctx, joinKey{}, false)
	}
	if hook, _ := ctx.Value(hookKey{}).(Hook); hook != nil {
		at.hooks = append(at.hooks, hook)
		ctx = context.WithValue(ctx, hookKey{}, Hook(nil))
	}
	if at.scope, _ = ctx.Value(scopeKey{}).(string); at.scope != "" {
		ctx = context.WithValue(ctx, scopeKey{}, "")
	}
	return context.WithValue(ctx, attemptKey{}, at), at, nil
}

// again returns the context of another try: a new attempt with an empty batch and the first hooks
// of at, the ones that were added before the first try. A joined attempt is never tried again.
func (at *attempt) again(ctx context.Context, hooks int) context.Context {
	next := newAttempt(at.bus)
	next.scope = at.scope
	next.hooks = append(next.hooks, at.hooks[:hooks]...)
	return context.WithValue(ctx, attemptKey{}, next)
}

// errDuplicate ends a try that finds the idempotency record of its command; see Idempotency.
var errDuplicate = errors.New("the command was carried out before")
