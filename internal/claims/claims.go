// Package claims is subscriptions whose events are handled by consumers in other programs: each
// consumer claims events, and confirms each of them. (In the terms of EventStoreDB, persistent
// subscriptions.) Package viewhttp serves them, and commands administer them.
//
//	s, err := claims.Open(store, "mailer")
//	err = s.Put(ctx, claims.Config{Strategy: claims.RoundRobin, Timeout: 30 * time.Second, MaxRetry: 10, Buffer: 500})
//	got, err := s.Claim(ctx, "consumer-1", 10, 0)
//
// # Nouns
//
// A [Config] selects events, and says how they are divided among consumers. A claim gives an event
// to one consumer until a deadline. A [Token] identifies one claim of one event; the consumer
// confirms the event (ack) or refuses it (nack) by its token: [State.Resolve], called in
// [Subscription.Change]. An event that is refused too often, or that no consumer confirms, is
// parked.
//
// # Guarantees
//
// Each event that a Config selects is given to a consumer at least once, and again after each
// deadline, until it is confirmed, skipped or parked. The whole state is in the log: claims survive
// a restart, and any process may change the state. A change is one commit, on condition that the
// state has not changed since it was read. See [State] for the states of an event.
//
// # Concurrency
//
// A Subscription is a handle without a state of its own. All methods may be called from many
// goroutines. A [State] belongs to one goroutine.
//
//	state.go       the state of a subscription and its transitions, without a log
//	claims.go      the stored form; claiming
//	administer.go  operations for operators
//
//snippet:var store *event.Store
package claims

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// The stored form, in JSON. The layout is persisted.
//
//	event.claims/<store>         key: name                                            value: State
//	event.claims.parked/<store>  key: name 00 position (8 bytes, big-endian)          value: Parked
const (
	claimsPrefix = "event.claims/"
	parkedPrefix = "event.claims.parked/"
)

var claimsPolicy = mainstem.Policy{History: 1, NoFeed: true}

// MaxReason is the largest number of bytes in the reason of a parked event.
const MaxReason = 4 << 10

// The pauses of this package.
var (
	// contention is the pause after a conflict with another consumer.
	contention = backoff.Policy{First: 50 * time.Microsecond, Max: 20 * time.Millisecond, Jitter: 1}
	// asking is the pause of a consumer that waits for events. It polls, since consumers on other
	// servers may return events at any time.
	asking = backoff.Policy{First: 10 * time.Millisecond, Max: 250 * time.Millisecond, Jitter: 0.2}
)

// claimBytes is about how many bytes of events one claim returns. A larger event is returned alone.
const claimBytes = 1 << 20

// Subscription is a handle on a subscription of a store.
type Subscription struct {
	log   mainstem.Log
	store *event.Store
	name  string
}

// Open returns a handle on the subscription of store called name, whether or not it exists. The
// name has 1 to [event.MaxSubscription] letters, digits, dots, dashes and underlines.
func Open(store *event.Store, name string) (*Subscription, error) {
	if !validName(name) {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "", "the name %.60q of the subscription: want 1 to %d letters, digits, dots, dashes and underlines", name, event.MaxSubscription)
	}
	return &Subscription{log: store.Log(), store: store, name: name}, nil
}

func validName(name string) bool {
	return name != "" && len(name) <= event.MaxSubscription && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	})
}

// Name returns the name of the subscription.
func (s *Subscription) Name() string { return s.name }

// Store returns the store whose events it gives out.
func (s *Subscription) Store() *event.Store { return s.store }

func (s *Subscription) claims() string { return claimsPrefix + s.store.Name() }
func (s *Subscription) parked() string { return parkedPrefix + s.store.Name() }

func (s *Subscription) parkedKey(p mainstem.Position) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(s.name), 0), uint64(p))
}

// Parked is a parked event: a reference, without its data.
type Parked struct {
	Position mainstem.Position `json:"position,string"`
	Stream   string            `json:"stream"`
	Version  mainstem.Version  `json:"version"`
	Attempts int               `json:"attempts"`
	Reason   string            `json:"reason"`
	Time     time.Time         `json:"time"` // when it was parked
}

// Load returns the state, and the version of its record for save. It is NotFound if the
// subscription does not exist.
func (s *Subscription) Load(ctx context.Context) (*State, mainstem.Version, error) {
	rec, err := s.log.Get(ctx, s.claims(), []byte(s.name))
	if err != nil {
		if errors.Is(err, mainstem.ErrNotFound) {
			err = s.notFound()
		}
		return nil, 0, err
	}
	var state State
	if err := json.Unmarshal(rec.Value, &state); err != nil {
		return nil, 0, mainstem.Errorf(mainstem.KindCorrupt, "subscription", "%w", err).At(s.claims(), rec.Key)
	}
	return &state, rec.Version, nil
}

// save adds the state to b and commits b, on condition that the record has the version, or does not
// exist if version is 0.
func (s *Subscription) save(ctx context.Context, b *mainstem.Batch, state *State, version mainstem.Version) error {
	value, err := json.Marshal(state)
	if err != nil {
		return mainstem.Refusef(mainstem.KindInternal, "subscription", "encode the state: %w", err)
	}
	b.Ensure(s.claims(), claimsPolicy)
	if version == 0 {
		b.IfAbsent(s.claims(), []byte(s.name))
	} else {
		b.IfVersion(s.claims(), []byte(s.name), version)
	}
	b.Put(s.claims(), []byte(s.name), value)
	_, err = s.log.Commit(ctx, b)
	return err
}

// Park adds to b the records of parked events. reason has at most [MaxReason] bytes.
func (s *Subscription) Park(b *mainstem.Batch, entries []Entry, reason string, now time.Time) {
	for _, e := range entries {
		value, err := json.Marshal(Parked{e.Position, e.Stream, e.Version, e.Attempt, reason, now.UTC()})
		if err != nil {
			b.Fail(mainstem.Refusef(mainstem.KindInternal, "subscription", "encode a parked event: %w", err))
			return
		}
		b.Ensure(s.parked(), claimsPolicy)
		b.Put(s.parked(), s.parkedKey(e.Position), value)
	}
}

// Change reads the state, calls edit, and commits the state and b. After a conflict it starts
// again, until it succeeds or ctx ends: so edit may be called several times, each time with a new
// state and batch. An error of edit is returned, and nothing is written.
func (s *Subscription) Change(ctx context.Context, edit func(b *mainstem.Batch, state *State) error) (*State, error) {
	for n := 1; ; n++ {
		state, version, err := s.Load(ctx)
		if err != nil {
			return nil, err
		}
		b := mainstem.NewBatch()
		if err := edit(b, state); err != nil {
			return nil, err
		}
		err = s.save(ctx, b, state, version)
		if !errors.Is(err, mainstem.ErrConflict) {
			return state, err
		}
		if err := wait(ctx, n); err != nil {
			return nil, err
		}
	}
}

// wait waits after conflict n, until ctx ends.
func wait(ctx context.Context, n int) error {
	if !contention.Wait(ctx, n) {
		return mainstem.Ended(ctx, "subscription", time.Time{}, "other consumers").WithOutcome(mainstem.NotWritten)
	}
	return nil
}

// unanswered is the reason of events that are parked because their deadlines have passed.
const unanswered = "no consumer has confirmed it"

// Claimed is an event that a consumer has claimed.
type Claimed struct {
	event.Recorded
	Token Token // identifies this claim, for the answer
}

// StoppedError reports that a consumer has stopped the subscription, so no events can be claimed.
// It is of kind Unavailable.
type StoppedError struct{ Reason string }

func (e *StoppedError) Error() string {
	return fmt.Sprintf("the subscription was stopped: %s; PUT it again to go on", e.Reason)
}

// Unwrap makes the error one of kind Unavailable.
func (e *StoppedError) Unwrap() error {
	return &mainstem.Error{Kind: mainstem.KindUnavailable, Outcome: mainstem.NotWritten}
}

// errNothing ends a claim that finds no event and has no reason to write the state.
var errNothing = errors.New("nothing to hand out")

// claim gives at most limit events to a consumer, in one commit: it takes back the events whose
// deadlines have passed, reads further events of the store, and selects those that the consumer may
// have.
func (s *Subscription) claim(ctx context.Context, consumer string, limit int) ([]Claimed, error) {
	var out []Claimed
	_, err := s.Change(ctx, func(b *mainstem.Batch, state *State) (err error) {
		out = nil
		if state.Stopped != "" {
			return &StoppedError{Reason: state.Stopped}
		}
		now := time.Now()
		known := state.Consumers[consumer]
		overdue := state.Expire(now)
		s.Park(b, overdue, unanswered, now)
		state.see(consumer, now)
		before := state.Read
		if err := s.fill(ctx, state, limit); err != nil {
			return err
		}
		indexes := state.offer(consumer, limit)
		if out, err = s.take(ctx, state, indexes, consumer, now); err != nil {
			return err
		}
		// A consumer that waits is recorded four times in a message timeout, so that it does not
		// expire and keeps its streams.
		fresh := now.UnixNano()-known < int64(state.Config.Timeout)/4
		if len(indexes)+len(overdue) == 0 && fresh && state.Read == before {
			return errNothing
		}
		return nil
	})
	if err == errNothing {
		return nil, nil
	}
	return out, err
}

// sizeOf returns about how many bytes an event has.
func sizeOf(r *event.Recorded) int {
	n := len(r.Stream) + len(r.Type) + len(r.Data) + 256
	for k, v := range r.Metadata.Custom {
		n += len(k) + len(v)
	}
	return n
}

// manyPassed is the number of positions without a selected event after which a claim stores that it
// has read them. Fewer are read again by the next claim.
const manyPassed = 10_000

// fill reads further events of the store into the state, as many as the buffer has space for and
// the consumer can use. With the strategy Pinned it fills the buffer, since the next events may be
// for other consumers.
func (s *Subscription) fill(ctx context.Context, state *State, limit int) error {
	places := state.Config.Buffer - len(state.Entries)
	if places <= 0 {
		return nil
	}
	if state.Config.Strategy != Pinned {
		places = min(places, limit)
	}
	head, err := s.log.Head(ctx)
	if err != nil {
		return err
	}
	o := event.FeedOptions{After: state.Read, Limit: places, Filter: state.Config.Filter}
	n := 0
	for r, err := range s.store.Feed(ctx, &o) {
		if err != nil {
			return err
		}
		n++
		state.Entries = append(state.Entries, Entry{Position: r.Position, Stream: r.Stream, Version: r.Version})
		state.Read = r.Position
	}
	// All events up to head have been read. Storing that is worth a write if the state is written
	// anyway, or if many positions were read without a selected event.
	if n < places && head > state.Read && (n > 0 || head-state.Read > manyPassed) {
		state.Read = head
	}
	return nil
}

// take gives the entries at indexes to a consumer, up to about claimBytes, and returns their
// events. Entries whose events are gone, because their stream was deleted or truncated, are removed
// as done.
func (s *Subscription) take(ctx context.Context, state *State, indexes []int, consumer string, now time.Time) ([]Claimed, error) {
	var out []Claimed
	size := 0
	goneAt := map[mainstem.Position]bool{}
	for _, i := range indexes {
		e := &state.Entries[i]
		events, err := s.store.Load(ctx, e.Stream, &event.LoadOptions{From: e.Version, To: e.Version, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(events) == 0 || events[0].Position != e.Position {
			goneAt[e.Position] = true
			continue
		}
		if size += sizeOf(&events[0]); len(out) > 0 && size > claimBytes {
			break
		}
		e.Attempt++
		e.Consumer, e.Deadline = consumer, now.Add(state.Config.Timeout).UnixNano()
		out = append(out, Claimed{events[0], Token{state.Epoch, e.Position, e.Attempt}})
	}
	state.Entries = slices.DeleteFunc(state.Entries, func(e Entry) bool { return goneAt[e.Position] })
	return out, nil
}

// Claim gives at most limit events, of about 1 MiB together, to a consumer. If there is none, it
// waits for one, for up to wait. An event that is not confirmed within the timeout of the [Config]
// is given out again, to any consumer. If a consumer has stopped the subscription, the error is a
// [*StoppedError].
func (s *Subscription) Claim(ctx context.Context, consumer string, limit int, wait time.Duration) ([]Claimed, error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for n := 1; ; n++ {
		out, err := s.claim(ctx, consumer, limit)
		if err != nil || len(out) > 0 || wait <= 0 || !asking.Wait(waiting, n) {
			return out, err
		}
	}
}
