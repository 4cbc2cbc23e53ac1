package event

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Handler handles one event of a subscription. Its writes into b are committed together with the
// checkpoint that marks ev as handled: both or neither, so the writes of each event take effect
// exactly once. Handler may be called again for an event whose batch was not committed, so its
// other effects happen at least once. After an error or a panic nothing is written. ev belongs to
// the handler; b must not be used after the call.
type Handler func(ctx context.Context, b *mainstem.Batch, ev Recorded) error

// BatchHandler is a [Handler] of several events at a time: 1 to [SubscribeOptions.MaxBatch], in
// order, with one commit for all of them. If it fails, it is called again with each event alone.
type BatchHandler func(ctx context.Context, b *mainstem.Batch, evs []Recorded) error

// PoisonPolicy says what a subscription does with an event that its handler cannot handle.
type PoisonPolicy uint8

// The policies.
const (
	// StopOnPoison ends the subscription with a [*PoisonError]. Its checkpoint stays
	// before the event.
	StopOnPoison PoisonPolicy = iota
	// ParkPoison puts the event aside, in the commit that moves the checkpoint past it, and
	// continues; see [Store.Parked]. Later events of the same stream are handled nevertheless.
	ParkPoison
)

var poisonNames = [...]string{"stop", "park"}

// String returns "stop" or "park".
func (p PoisonPolicy) String() string {
	if int(p) < len(poisonNames) {
		return poisonNames[p]
	}
	return "unknown poison policy"
}

// SubscribeOptions configure a subscription. Nil and zero fields mean the defaults.
type SubscribeOptions struct {
	Filter // which events

	// After and Tail say where a subscription without a checkpoint begins: after a position, or
	// after the newest event. Default: at the first event.
	After mainstem.Position
	Tail  bool

	// Until, if not 0, ends the subscription, without an error, when everything up to that position
	// is handled; the checkpoint is then at Until, or after it already. A position beyond the
	// newest of the log is Invalid.
	Until mainstem.Position

	// MaxBatch is the largest number of events in one commit while several wait to be handled.
	// Default 1 for Subscribe, 100 for SubscribeBatch. With more than 1, reads by a Handler do not
	// see its own writes for earlier events of the same commit.
	MaxBatch int
	// Durability is that of the commits. Default: the log's. [mainstem.OS] is also safe, and fast:
	// events whose commits a power cut undoes are handled again, because the writes and the
	// checkpoint are undone together.
	Durability mainstem.Durability

	// Attempts is how often an event is tried before it counts as poison. Default 5;
	// negative means without end. Errors of kind Unavailable do not count.
	Attempts int
	// Backoff is the pause after the first failure; it doubles with each further one,
	// up to MaxBackoff. Defaults 50ms and 10s.
	Backoff, MaxBackoff time.Duration
	// OnPoison says what to do with an event that failed that often.
	OnPoison PoisonPolicy
	// Conflicts is how often events are handled again, at once, because a condition that their
	// handler added did not hold, before that counts as a failure. It is for handlers that read
	// records that others write too. After a few conflicts several events are handled in halves,
	// since a large commit would keep losing against small ones. Default 0.
	Conflicts int

	// Expect, if set, adds conditions to every commit of the subscription, including those that
	// only move or create its checkpoint and those that park an event: nothing is committed unless
	// they hold. A conflict with them is handled like one of the handler's, or ends the
	// subscription if no handler was called. It is called by one goroutine at a time.
	Expect func(b *mainstem.Batch)
	// Commit, if set, replaces the log's Commit for the batch with the handler's writes and the
	// checkpoint, for handlers that also write into another database. Its errors have the same
	// meaning as those of the log, and it is called again with the same batch in the same cases.
	// Commits that only move or create the checkpoint, and those that park an event, use the log.
	// It is called by one goroutine at a time.
	Commit func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error)

	// Exclusive ends an instance that finds its checkpoint moved, with [ErrCheckpointMoved].
	// Without it, several instances of the subscription may run, in this process or in others: the
	// first to commit handles the events; the others pause and continue from its checkpoint, so
	// another takes over when it ends. Each event takes effect once in both cases.
	Exclusive bool

	// OnCaughtUp is called, from the subscription's goroutine, when all events that existed when
	// the subscription started are handled. See [Subscription.CaughtUp].
	OnCaughtUp func(mainstem.Position)
	// Logger receives the reason why the subscription ended, as Error (after Close or the end of
	// ctx, as Debug); failures that are tried again, as Warn; and the name of another instance that
	// has moved the checkpoint, as Info. Default: slog.Default().
	Logger *slog.Logger
}

// The defaults.
const (
	DefaultMaxBatch   = 100 // of SubscribeBatch
	DefaultAttempts   = 5
	DefaultBackoff    = 50 * time.Millisecond
	DefaultMaxBackoff = 10 * time.Second
)

// Validate reports every field out of range.
func (o *SubscribeOptions) Validate() error {
	if o == nil {
		return nil
	}
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(o.MaxBatch >= 0, "MaxBatch is %d: want 0 (default) or more", o.MaxBatch)
	check(o.Durability >= mainstem.OS, "Durability %d is not one that this version knows", int64(o.Durability))
	check(o.Backoff >= 0 && o.MaxBackoff >= 0, "Backoff is %v, MaxBackoff %v: want 0 (default) or more", o.Backoff, o.MaxBackoff)
	check(o.Conflicts >= 0, "Conflicts is %d: want 0 (default) or more", o.Conflicts)
	check(!o.Tail || o.Until == 0, "Tail and Until exclude each other")
	check(o.OnPoison <= ParkPoison, "OnPoison is %d: want StopOnPoison or ParkPoison", o.OnPoison)
	check(!o.Tail || o.After == 0, "Tail and After exclude each other")
	if len(errs) == 0 {
		return nil
	}
	return mainstem.Refusef(mainstem.KindInvalid, "subscribe", "options: %w", errors.Join(errs...))
}

// Subscription is a running catch-up subscription. Its methods are safe for
// concurrent use.
type Subscription struct {
	store  *Store
	name   []byte
	opts   SubscribeOptions
	saved  []byte // the filter as stored with the checkpoint
	self   string // name of this instance in the checkpoints that it writes
	handle BatchHandler

	hard context.Context // for handlers and commits: ends with the caller's context
	soft context.Context // for feeds and pauses: ends with Close too
	stop context.CancelFunc

	position atomic.Uint64
	unwanted atomic.Uint64 // Lag has found no event to handle after Position and up to here
	caughtUp chan struct{}
	catchOne sync.Once
	done     chan struct{}
	err      error // set before done is closed

	// Used only by the subscription's goroutine.
	sel     *selector
	record  mainstem.Version  // version of the checkpoint's record, 0 if there is none
	written mainstem.Position // position in that record
	owner   string            // instance that wrote that record, "" if not known
	rival   string            // the other instance that was logged last
	batch   mainstem.Batch
	size    int // largest number of events of one commit: MaxBatch, and less after conflicts
}

// Subscribe starts to call handler for every event that o selects, in the order of the log, from
// the subscription's checkpoint on. It continues with new events as they are committed, without
// polling, until ctx ends or Close is called. The checkpoint belongs to name, is created by this
// call, and survives restarts of the program. See [Handler] for the guarantees.
//
// The subscription owns one goroutine. The subscription ends, with an error in [Subscription.Err],
// when ctx ends, when the log is closed, when an event is poison, or, if it is exclusive, when
// another instance handles its events. The end is logged, and a program should wait for
// [Subscription.Done]. After errors of kind Unavailable it continues.
func (s *Store) Subscribe(ctx context.Context, name string, o *SubscribeOptions, handler Handler) (*Subscription, error) {
	if handler == nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "subscribe", "subscription %.60q has no handler", name)
	}
	return s.subscribe(ctx, name, o, 1, func(ctx context.Context, b *mainstem.Batch, evs []Recorded) error {
		for i := range evs {
			if err := handler(ctx, b, evs[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// SubscribeBatch is [Store.Subscribe] for a handler of several events at a time.
func (s *Store) SubscribeBatch(ctx context.Context, name string, o *SubscribeOptions, handler BatchHandler) (*Subscription, error) {
	if handler == nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "subscribe", "subscription %.60q has no handler", name)
	}
	return s.subscribe(ctx, name, o, DefaultMaxBatch, handler)
}

func (s *Store) subscribe(ctx context.Context, name string, o *SubscribeOptions, maxBatch int, handle BatchHandler) (*Subscription, error) {
	if err := checkSubscription("subscribe", name); err != nil {
		return nil, err
	}
	sub := &Subscription{
		store: s, name: []byte(name), handle: handle,
		caughtUp: make(chan struct{}), done: make(chan struct{}),
	}
	if o != nil {
		sub.opts = *o
	}
	if err := sub.opts.Validate(); err != nil {
		return nil, err
	}
	sub.opts.setDefaults(maxBatch)
	sub.size = sub.opts.MaxBatch
	sub.saved = sub.opts.Filter.save()
	sub.self = newOwner()
	var err error
	if sub.sel, err = sub.opts.Filter.selector(); err != nil {
		return nil, err
	}
	if err := sub.checkUntil(ctx); err != nil {
		return nil, err
	}
	if err := sub.load(ctx); err != nil {
		return nil, err
	}
	sub.hard = ctx
	sub.soft, sub.stop = context.WithCancel(ctx)
	go sub.run()
	return sub, nil
}

func (o *SubscribeOptions) setDefaults(maxBatch int) {
	if o.MaxBatch == 0 {
		o.MaxBatch = maxBatch
	}
	if o.Attempts == 0 {
		o.Attempts = DefaultAttempts
	}
	if o.Backoff == 0 {
		o.Backoff = DefaultBackoff
	}
	if o.MaxBackoff == 0 {
		o.MaxBackoff = DefaultMaxBackoff
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

// Name returns the name of the subscription.
func (sub *Subscription) Name() string { return string(sub.name) }

// Position returns the position up to which this instance has handled and committed everything.
func (sub *Subscription) Position() mainstem.Position {
	return mainstem.Position(sub.position.Load())
}

// Lag returns how many positions the subscription is behind the newest record of the store: an
// upper bound of the number of events to handle, 0 if there are none.
func (sub *Subscription) Lag(ctx context.Context) (uint64, error) {
	last, err := sub.store.LastPosition(ctx)
	if err != nil {
		return 0, err
	}
	position := sub.Position()
	from := max(position, mainstem.Position(sub.unwanted.Load()))
	if last <= from {
		return 0, nil
	}
	next, err := sub.store.nextSelected(ctx, &sub.opts.Filter, from, last)
	if err != nil {
		return 0, err
	}
	if next == 0 {
		sub.unwanted.Store(uint64(last))
		if sub.Position() < position { // it was moved back meanwhile
			sub.unwanted.Store(0)
		}
		return 0, nil
	}
	return uint64(last - position), nil
}

// CaughtUp returns a channel that is closed when all events that existed when the subscription
// started are handled.
func (sub *Subscription) CaughtUp() <-chan struct{} { return sub.caughtUp }

// WaitFor is [Store.WaitFor] for this subscription: it returns when the checkpoint is in the log,
// which may be before Position and Lag of this instance follow, at the end of its commit. If the
// subscription ends first, it returns the subscription's error, or Closed after Close.
func (sub *Subscription) WaitFor(ctx context.Context, position mainstem.Position) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(sub.soft, cancel)()
	err := sub.store.WaitFor(waiting, sub.Name(), position)
	if err == nil || ctx.Err() != nil || sub.soft.Err() == nil {
		return err
	}
	<-sub.done
	if sub.err != nil {
		return sub.err
	}
	return mainstem.Errorf(mainstem.KindClosed, "wait for", "subscription %s was closed at position %d", sub.name, sub.Position())
}

// Done returns a channel that is closed when the subscription has ended.
func (sub *Subscription) Done() <-chan struct{} { return sub.done }

// Err returns the error with which the subscription ended; nil while it runs and after Close.
func (sub *Subscription) Err() error {
	select {
	case <-sub.done:
		return sub.err
	default:
		return nil
	}
}

// Close waits for the running call of the handler, commits its writes, ends the subscription and
// returns [Subscription.Err]. Do not call it from the handler. To end at once, cancel the context
// given to Subscribe.
func (sub *Subscription) Close() error {
	sub.stop()
	<-sub.done
	return sub.err
}
