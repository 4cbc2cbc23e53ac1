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

// Handler handles one event of a subscription. Its writes into b are committed
// together with the checkpoint that says that ev is handled: both or neither, so
// each event takes effect exactly once. It may be called again for an event whose
// batch was not committed, so its other effects happen at least once. An error
// or a panic writes nothing. ev belongs to the handler; b ends with the call.
type Handler func(ctx context.Context, b *mainstem.Batch, ev Recorded) error

// BatchHandler is a [Handler] of several events at a time: 1 to
// [SubscribeOptions.MaxBatch], in order, one commit for all of them. If it fails,
// it is called again with each of them alone.
type BatchHandler func(ctx context.Context, b *mainstem.Batch, evs []Recorded) error

// PoisonPolicy says what becomes of an event that its handler cannot handle.
type PoisonPolicy uint8

// The policies.
const (
	// StopOnPoison ends the subscription with a [*PoisonError]. Its checkpoint stays
	// before the event.
	StopOnPoison PoisonPolicy = iota
	// ParkPoison puts the event aside, in the same commit that moves the checkpoint
	// past it, and goes on; see [Store.Parked]. Later events of the same stream are
	// handled all the same.
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

// SubscribeOptions tune a subscription. Nil and zero fields mean the defaults.
type SubscribeOptions struct {
	Filter // which events

	// After and Tail say where a subscription without a checkpoint begins: after a
	// position, or after the newest event. Default: at the first event.
	After mainstem.Position
	Tail  bool

	// Until, if not 0, ends the subscription, without an error, when everything up to that
	// position is handled: its checkpoint is there then, or behind it already. A position
	// beyond the newest of the log is Invalid.
	Until mainstem.Position

	// MaxBatch is the most events of one commit while there is more than one to
	// handle. Default 1 for Subscribe, 100 for SubscribeBatch. With more than 1, a
	// Handler that reads what it wrote does not see what it wrote for earlier events
	// of the same commit.
	MaxBatch int
	// Durability of the commits. Default: the log's. [mainstem.OS] is safe too, and
	// fast: what a power cut takes back is handled anew, effects and checkpoint together.
	Durability mainstem.Durability

	// Attempts is how often an event is tried before it counts as poison. Default 5;
	// negative means without end. Errors of kind Unavailable do not count.
	Attempts int
	// Backoff is the pause after the first failure; it doubles with each further one,
	// up to MaxBackoff. Defaults 50ms and 10s.
	Backoff, MaxBackoff time.Duration
	// OnPoison says what to do with an event that failed that often.
	OnPoison PoisonPolicy
	// Conflicts is how often events are handled again, at once, because a condition that
	// their handler put into the batch did not hold, before that counts as a failure: for
	// handlers that read what others write too. Several events are handled in halves after a
	// few, for a large commit would lose against small ones. Default 0.
	Conflicts int

	// Expect, if set, adds conditions to every commit of the subscription, those that only
	// move or create its checkpoint and those that park an event too: nothing is committed
	// where they do not hold. A conflict with them is tried as one of the handler's, or ends the
	// subscription where no handler was called. It is called by one goroutine at a time.
	Expect func(b *mainstem.Batch)
	// Commit, if set, commits what the handler wrote, and the checkpoint with it, in place of the log's Commit: for handlers
	// that write into another database too. Its errors mean what those of the log mean, and it is called again with
	// the same batch where the log would be. Commits that only move or create the checkpoint, and those that park an
	// event, are the log's. It is called by one goroutine at a time.
	Commit func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error)

	// Exclusive ends an instance that finds its checkpoint moved, with
	// [ErrCheckpointMoved]. Without it, several instances of the subscription may run, in
	// this process or in others: the one whose commit comes first wins; the others pause
	// and go on from its checkpoint, so one takes over when another ends. Each event takes
	// effect once either way.
	Exclusive bool

	// OnCaughtUp is called, from the subscription's goroutine, when everything that
	// was there when the subscription started is handled. See [Subscription.CaughtUp].
	OnCaughtUp func(mainstem.Position)
	// Logger receives, as Error, why the subscription ended (but not after Close or when
	// ctx ends, which is Debug), as Warn, failures that are tried again, and, as Info,
	// that another instance has moved the checkpoint, and which. Default: slog.Default().
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
	saved  []byte // the filter as it is saved with the checkpoint
	self   string // what this instance is called in the checkpoints that it writes
	handle BatchHandler

	hard context.Context // of handlers and commits: ends with the caller's
	soft context.Context // of feeds and pauses: ends with Close too
	stop context.CancelFunc

	position atomic.Uint64
	live     atomic.Bool // following, with nothing known to be unhandled
	caughtUp chan struct{}
	catchOne sync.Once
	done     chan struct{}
	err      error // set before done is closed

	// Only the subscription's goroutine uses these.
	sel     *selector
	record  mainstem.Version  // version of the checkpoint's record, 0 if there is none
	written mainstem.Position // position in that record
	owner   string            // instance that wrote that record, "" if it does not say
	rival   string            // the other instance that was logged last
	batch   mainstem.Batch
	size    int // events of one commit at the most: MaxBatch, and less after conflicts
}

// Subscribe starts to call handler for every event that o selects, in the order
// of the log, from the subscription's checkpoint on, and goes on as events come,
// without polling, until ctx ends or Close is called. The checkpoint has a name, is
// created by this call, and survives restarts of the program. See [Handler] for what
// is guaranteed.
//
// The subscription owns one goroutine. It ends, with an error in
// [Subscription.Err], when ctx does, when the log is closed, when an event is poison,
// or, if it is exclusive, when another instance handles its events. The end is logged, and
// a program should watch [Subscription.Done]. After errors of kind Unavailable it goes on.
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

// Position returns the position up to which everything is handled by this
// instance and committed.
func (sub *Subscription) Position() mainstem.Position {
	return mainstem.Position(sub.position.Load())
}

// Lag returns how far the subscription is behind the newest record of the store,
// in positions: an upper bound of the events to handle, 0 if there are none.
func (sub *Subscription) Lag(ctx context.Context) (uint64, error) {
	last, err := sub.store.LastPosition(ctx)
	if err != nil {
		return 0, err
	}
	position := sub.Position()
	if sub.live.Load() || last <= position {
		return 0, nil
	}
	return uint64(last - position), nil
}

// CaughtUp returns a channel that is closed when everything that was there when the
// subscription started is handled.
func (sub *Subscription) CaughtUp() <-chan struct{} { return sub.caughtUp }

// WaitFor is [Store.WaitFor] for this subscription. If the subscription ends first,
// it returns the subscription's error, or Closed after Close.
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

// Err returns nil while the subscription runs and after Close, else why it ended.
func (sub *Subscription) Err() error {
	select {
	case <-sub.done:
		return sub.err
	default:
		return nil
	}
}

// Close lets the handler finish what it is at, commits that, ends the
// subscription and returns [Subscription.Err]. Do not call it from the handler. To end
// at once, cancel the context given to Subscribe.
func (sub *Subscription) Close() error {
	sub.stop()
	<-sub.done
	return sub.err
}
