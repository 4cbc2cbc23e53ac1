package command

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/aggregate"
	"github.com/mainstemdev/mainstem/internal/outcome"
	"github.com/mainstemdev/mainstem/kv"
)

// Handler handles a command of any type.
type Handler func(ctx context.Context, cmd Command) (Result, error)

// Middleware wraps a handler with behaviour that is common to commands.
type Middleware func(next Handler) Handler

// Options tune a [Bus]. Nil and zero fields mean the defaults.
type Options struct {
	// Durability of the commits. Default: the log's.
	Durability mainstem.Durability
}

// Bus passes commands through its middleware to their handlers, and commits what they write. It is
// safe for concurrent use.
//
// The steps of a dispatch:
//
//  1. enter admits the command, or returns [ErrBusClosed].
//  2. dispatch puts the metadata of the command and a new attempt into the context.
//  3. The middleware call each other, the outermost first. They may add hooks to the attempt.
//     [Retry] makes a new attempt for each further try.
//  4. run calls the handler, then the hooks in their order, and commits the batch of the attempt.
//  5. The committed functions of the attempt complete the Result, and the middleware return, the
//     innermost first.
type Bus struct {
	log   mainstem.Log
	name  string
	opts  Options
	chain Handler          // the middleware around run
	done  *kv.Bucket[done] // the idempotency records, by type and key

	mu       sync.RWMutex       // guards the fields below
	handlers map[string]Handler // by command type

	// closed is set under mu when Close is called: from then on only dispatches by handlers of
	// dispatches under way are let in. running is the number of dispatches under way.
	//
	// Invariant: once closed is set and running is 0, running stays 0.
	closed  atomic.Bool
	running atomic.Int64
	idle    chan struct{} // closed by stopped, when closed is set and running is 0
	stopped sync.Once
}

// Open returns the bus called name in log. The first middleware is the outermost: it is called
// first. Open reads and writes nothing. Its error is Invalid.
func Open(log mainstem.Log, name string, o *Options, middleware ...Middleware) (*Bus, error) {
	switch {
	case log == nil:
		return nil, mainstem.Refusef(mainstem.KindInvalid, "command", "bus %.40q: the log is nil", name)
	case name == "":
		return nil, mainstem.Refusef(mainstem.KindInvalid, "command", "the bus has no name")
	case slices.ContainsFunc(middleware, func(m Middleware) bool { return m == nil }):
		return nil, mainstem.Refusef(mainstem.KindInvalid, "command", "bus %.40q: a middleware is nil", name)
	}
	table, err := kv.Open[done](log, "command/"+name, &kv.Options{Codec: rowsJSON, NoFeed: true})
	if err != nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "command", "bus %.40q: %w", name, err)
	}
	b := &Bus{log: log, name: name, done: table, handlers: make(map[string]Handler), idle: make(chan struct{})}
	if o != nil {
		b.opts = *o
	}
	b.chain = b.run
	for _, m := range slices.Backward(middleware) {
		b.chain = m(b.chain)
	}
	return b, nil
}

// Name returns the name that the bus was opened with.
func (b *Bus) Name() string { return b.name }

// Log returns the log that the bus commits to.
func (b *Bus) Log() mainstem.Log { return b.log }

// Types returns the command types that have a handler, sorted.
func (b *Bus) Types() []string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return slices.Sorted(maps.Keys(b.handlers))
}

// Handle registers the handler of the commands of Go type C. What it writes into [Batch] is
// committed after it has returned without an error. A second handler of a type is Exists. A C with
// a method Validate or IdempotencyKey that middleware would not find is Invalid: the method has
// another signature than in [ValidatedCommand] or [IdempotentCommand], or a pointer receiver while
// C is not a pointer.
func Handle[C Command](b *Bus, handle func(ctx context.Context, cmd C) (Result, error)) error {
	if handle == nil {
		return mainstem.Refusef(mainstem.KindInvalid, "command", "the handler of %s is nil", reflect.TypeFor[C]())
	}
	name, err := typeOf[C]()
	if err != nil {
		return err
	}
	return b.register(name, func(ctx context.Context, cmd Command) (Result, error) {
		c, ok := cmd.(C)
		if p, isPointer := cmd.(any).(*C); !ok && isPointer && p != nil {
			c, ok = *p, true
		}
		if !ok {
			return Result{}, mainstem.Refusef(mainstem.KindInvalid, "command", "command %s is a %T, and its handler takes a %s", name, cmd, reflect.TypeFor[C]())
		}
		return handle(ctx, c)
	})
}

// typeOf returns the command type of the Go type C, by calling CommandType on a zero value.
func typeOf[C Command]() (string, error) {
	t := reflect.TypeFor[C]()
	if err := checkMethods(t); err != nil {
		return "", err
	}
	var zero Command
	switch t.Kind() {
	case reflect.Interface:
		return "", mainstem.Refusef(mainstem.KindInvalid, "command", "%s is an interface: register a handler for each type that implements it", t)
	case reflect.Pointer:
		zero = reflect.New(t.Elem()).Interface().(Command)
	default:
		zero = reflect.Zero(t).Interface().(Command)
	}
	if name := zero.CommandType(); name != "" {
		return name, nil
	}
	return "", mainstem.Refusef(mainstem.KindInvalid, "command", "the command type of %s is empty", t)
}

// checkMethods returns an error if t has a method that middleware looks for but would not find: its
// signature differs, or it has a pointer receiver while commands are values.
func checkMethods(t reflect.Type) error {
	all := t // the type with the methods of both receivers
	if k := t.Kind(); k != reflect.Pointer && k != reflect.Interface {
		all = reflect.PointerTo(t)
	}
	_, validate := all.MethodByName("Validate")
	_, key := all.MethodByName("IdempotencyKey")
	name, want := "", ""
	switch {
	case validate && !t.Implements(reflect.TypeFor[ValidatedCommand]()):
		name, want = "Validate", "error"
	case key && !t.Implements(reflect.TypeFor[IdempotentCommand]()):
		name, want = "IdempotencyKey", "string"
	default:
		return nil
	}
	return mainstem.Refusef(mainstem.KindInvalid, "command", "%s has a method %s that no middleware would call: want func (%s) %s() %s", t, name, t, name, want)
}

// register adds the handler of a command type.
func (b *Bus) register(name string, h Handler) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.handlers[name] != nil {
		return mainstem.Refusef(mainstem.KindExists, "register handler", "command %s has a handler already", name)
	}
	b.handlers[name] = h
	return nil
}

// HandleAggregate registers the handler of commands for aggregates. It loads the aggregate with the
// command's AggregateID, without events if there are none, calls decide, and adds the raised events
// to the batch, on condition that the stream is still at the version that was loaded. The Result
// has the aggregate's ID and version. For an empty AggregateID it makes a new ID. A repository in
// another log than the bus is Invalid.
func HandleAggregate[C AggregateCommand, A aggregate.Aggregate](b *Bus, repo *aggregate.Repository[A], decide func(ctx context.Context, a A, cmd C) error) error {
	if repo == nil || decide == nil {
		return mainstem.Refusef(mainstem.KindInvalid, "command", "the repository or the function for %s is nil", reflect.TypeFor[C]())
	}
	if repo.Log() != b.log {
		return mainstem.Refusef(mainstem.KindInvalid, "command", "the repository for %s is in another log than the bus %s: events would be committed to the log of the bus", reflect.TypeFor[C](), b.name)
	}
	return Handle(b, func(ctx context.Context, cmd C) (Result, error) {
		id := cmd.AggregateID()
		if id == "" {
			id = event.NewID().String()
		}
		at := attemptOf(ctx)
		version, err := repo.UpdateOrNewTo(ctx, at.batch, id, func(a A) error { return decide(ctx, a, cmd) })
		if err != nil {
			return Result{}, err
		}
		at.committed = append(at.committed, func(receipt mainstem.Receipt, r *Result) {
			if done, ok := repo.Result(at.batch, receipt, id); ok {
				r.Version = done.Last
			}
		})
		return Result{AggregateID: id, Version: version}, nil
	})
}

// Dispatch passes cmd through the middleware to its handler and returns the result. When it
// returns, the writes of the command have the durability of [Options.Durability]. If the outcome of
// the commit is unknown, the same batch is committed again until the outcome is known or ctx ends,
// unless the log then takes no more commits; see [mainstem.FailStopper].
// A command is validated only by the middleware [Validation].
//
// The errors are those of the handler, the hooks and the middleware, Conflict and the other errors
// of a commit, [*HandlerNotFoundError], and [ErrBusClosed].
//
// Events that the handler appends through package aggregate carry the command's CorrelationID and
// Metadata, and as CausationID its CommandID, or its CausationID if it has no CommandID; see
// [event.WithMetadata].
func (b *Bus) Dispatch(ctx context.Context, cmd Command) (Result, error) {
	if err := b.enter(ctx, cmd); err != nil {
		return Result{}, err
	}
	defer b.leave()
	return b.dispatch(ctx, cmd)
}

// enter admits a dispatch. While Close waits for a handler, dispatches by that handler are still
// admitted.
func (b *Bus) enter(ctx context.Context, cmd Command) error {
	if cmd == nil {
		return mainstem.Refusef(mainstem.KindInvalid, "command", "dispatch: the command is nil")
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	if !b.closed.Load() {
		b.running.Add(1)
		return nil
	}
	if at := attemptOf(ctx); at == nil || at.bus != b {
		return ErrBusClosed
	}
	// The context is that of a handler, but may have outlived it.
	for n := b.running.Load(); n > 0; n = b.running.Load() {
		if b.running.CompareAndSwap(n, n+1) {
			return nil
		}
	}
	return ErrBusClosed
}

// leave ends a dispatch that enter has admitted.
func (b *Bus) leave() {
	if b.running.Add(-1) == 0 && b.closed.Load() {
		b.stopped.Do(func() { close(b.idle) })
	}
}

// dispatch puts the metadata of cmd and a new attempt into the context and calls the chain.
func (b *Bus) dispatch(ctx context.Context, cmd Command) (Result, error) {
	base := baseOf(cmd)
	if m := (event.Metadata{CorrelationID: base.CorrelationID, CausationID: base.CommandID, Custom: base.Metadata}); base.CommandID != "" {
		ctx = event.WithMetadata(ctx, m)
	} else if m.CausationID = base.CausationID; m.CorrelationID != "" || m.CausationID != "" || m.Custom != nil {
		ctx = event.WithMetadata(ctx, m)
	}
	ctx, at, err := b.begin(ctx)
	if err != nil {
		return Result{}, err
	}
	var r Result
	if !at.joined {
		r, err = b.chain(ctx, cmd)
	} else if r, err = observe(ctx, b.chain, cmd, at.batch.Fail); err != nil {
		at.batch.Fail(err) // it may hold a part of this command's writes
	}
	if err != nil {
		return Result{}, err
	}
	return r, nil
}

// run is the innermost handler of the chain: it calls the handler and then the hooks, and commits.
// A joined attempt leaves the commit to the outer command.
func (b *Bus) run(ctx context.Context, cmd Command) (Result, error) {
	name := cmd.CommandType()
	b.mu.RLock()
	h := b.handlers[name]
	b.mu.RUnlock()
	if h == nil {
		return Result{}, &HandlerNotFoundError{Type: name}
	}
	at := attemptOf(ctx)
	r, err := h(ctx, cmd)
	if err != nil {
		return Result{}, err
	}
	for _, hook := range at.hooks {
		if err := hook(ctx, at.batch, &r); err != nil {
			return Result{}, err
		}
	}
	if at.joined || len(at.batch.Writes())+len(at.batch.Conditions()) == 0 {
		return r, at.batch.Err()
	}
	at.batch.Durability = b.opts.Durability
	receipt, err := outcome.Commit(ctx, b.log, at.batch)
	if err != nil {
		return Result{}, err
	}
	r.Position = receipt.Last
	for _, do := range at.committed {
		do(receipt, &r)
	}
	return r, nil
}

// Close refuses further commands and waits for those under way, including those that their handlers
// dispatch. Calling it again does nothing more. It returns nil.
func (b *Bus) Close() error {
	b.mu.Lock()
	b.closed.Store(true)
	b.mu.Unlock()
	if b.running.Load() == 0 {
		b.stopped.Do(func() { close(b.idle) })
	}
	<-b.idle
	return nil
}

// isSealed reports whether err is that of a stream that accepts no events.
func isSealed(err error) bool {
	var sealed *event.SealedError
	return errors.As(err, &sealed)
}
