package viewhttp

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// The state of a subscription is the record under its name in the space event.claims/<store>;
// an event that it has parked is one of event.claims.parked/<store>, under its name, a zero byte,
// and the position, 8 bytes, big-endian. Both are JSON.
const (
	claimsPrefix = "event.claims/"
	parkedPrefix = "event.claims.parked/"
)

var claimsPolicy = mainstem.Policy{History: 1, NoFeed: true}

// maxReason is how many bytes of a reason are kept.
const maxReason = 4 << 10

// subscription is one of a store.
type subscription struct {
	h     *Handler
	store *event.Store
	name  string
}

func (s *subscription) claims() string { return claimsPrefix + s.store.Name() }
func (s *subscription) parked() string { return parkedPrefix + s.store.Name() }

func (s *subscription) parkedKey(p mainstem.Position) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(s.name), 0), uint64(p))
}

// parkedEvent is the value of a record of an event that was parked.
type parkedEvent struct {
	Position position  `json:"position"`
	Stream   string    `json:"stream"`
	Version  uint64    `json:"version"`
	Attempts int       `json:"attempts"`
	Reason   string    `json:"reason"`
	Time     time.Time `json:"time"`
}

// load returns the state and the version of its record.
func (s *subscription) load(ctx context.Context) (*claimState, mainstem.Version, error) {
	rec, err := s.h.log.Get(ctx, s.claims(), []byte(s.name))
	if err != nil {
		if errors.Is(err, mainstem.ErrNotFound) {
			err = mainstem.Refusef(mainstem.KindNotFound, "subscription", "the store %s has no subscription %.60q: make it with PUT", s.store.Name(), s.name)
		}
		return nil, 0, err
	}
	var state claimState
	if err := json.Unmarshal(rec.Value, &state); err != nil {
		return nil, 0, mainstem.Errorf(mainstem.KindCorrupt, "subscription", "%w", err).At(s.claims(), rec.Key)
	}
	return &state, rec.Version, nil
}

// save writes the state as part of b, on condition that its record is at a version; 0: it is not
// there.
func (s *subscription) save(ctx context.Context, b *mainstem.Batch, state *claimState, version mainstem.Version) error {
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
	_, err = s.h.log.Commit(ctx, b)
	return err
}

// park writes parked events as part of b.
func (s *subscription) park(b *mainstem.Batch, entries []claimEntry, reason string, now time.Time) {
	for _, e := range entries {
		value, err := json.Marshal(parkedEvent{position(e.Position), e.Stream, uint64(e.Version), e.Attempt, reason, now.UTC()})
		if err != nil {
			b.Fail(mainstem.Refusef(mainstem.KindInternal, "subscription", "encode a parked event: %w", err))
			return
		}
		b.Ensure(s.parked(), claimsPolicy)
		b.Put(s.parked(), s.parkedKey(e.Position), value)
	}
}

// change commits what edit makes of the state, again and again if somebody else was faster.
func (s *subscription) change(ctx context.Context, edit func(b *mainstem.Batch, state *claimState) error) (*claimState, error) {
	for n := 1; ; n++ {
		state, version, err := s.load(ctx)
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
		if !contention.Wait(ctx, n) {
			return nil, mainstem.Ended(ctx, "subscription", time.Time{}, "other consumers").WithOutcome(mainstem.NotWritten)
		}
	}
}

// unanswered is the reason of events that were parked because no consumer answered.
const unanswered = "no consumer has confirmed it"

// claimed is an event that was handed out.
type claimed struct {
	event.Recorded
	token   claimToken
	attempt int
}

// errNothing ends a claim that found nothing to hand out and nothing else to write.
var errNothing = errors.New("nothing to hand out")

// claim hands at most limit events to a consumer.
func (s *subscription) claim(ctx context.Context, consumer string, limit int) ([]claimed, error) {
	var out []claimed
	_, err := s.change(ctx, func(b *mainstem.Batch, state *claimState) (err error) {
		out = nil
		if state.Stopped != "" {
			return stopped(state.Stopped)
		}
		now := time.Now()
		known := state.Consumers[consumer]
		overdue := state.expire(now)
		s.park(b, overdue, unanswered, now)
		state.see(consumer, now)
		before := state.Read
		if err := s.fill(ctx, state, limit); err != nil {
			return err
		}
		indexes := state.offer(consumer, limit)
		if out, err = s.take(ctx, state, indexes, consumer, now); err != nil {
			return err
		}
		// A consumer that waits is noted now and then, so that its slots stay its own.
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

// manyPassed is how many positions a claim may look at again.
const manyPassed = 10_000

// fill takes further events of the store into the state, as long as there is a place and the
// consumer could have one of them.
func (s *subscription) fill(ctx context.Context, state *claimState, limit int) error {
	places := state.Config.Buffer - len(state.Entries)
	if places <= 0 {
		return nil
	}
	if state.Config.Strategy != pinned {
		places = min(places, limit)
	}
	head, err := s.h.log.Head(ctx)
	if err != nil {
		return err
	}
	o := event.FeedOptions{After: state.Read, Limit: places, Filter: event.Filter{Category: state.Config.Category, Types: state.Config.Types, Streams: state.Config.Streams}}
	n := 0
	for r, err := range s.store.Feed(ctx, &o) {
		if err != nil {
			return err
		}
		n++
		state.Entries = append(state.Entries, claimEntry{Position: r.Position, Stream: r.Stream, Version: r.Version})
		state.Read = r.Position
	}
	// All up to head was looked at. That is worth a write where there is one anyway, and where
	// much was looked at without success.
	if n < places && head > state.Read && (n > 0 || head-state.Read > manyPassed) {
		state.Read = head
	}
	return nil
}

// take hands out entries, in their order and up to about pageBytes, and returns their events.
// Those that are gone, because their stream was deleted or truncated, are done.
func (s *subscription) take(ctx context.Context, state *claimState, indexes []int, consumer string, now time.Time) ([]claimed, error) {
	var out []claimed
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
		if size += sizeOfEvent(&events[0]); len(out) > 0 && size > pageBytes {
			break
		}
		e.Attempt++
		e.Consumer, e.Deadline = consumer, now.Add(state.Config.Timeout).UnixNano()
		out = append(out, claimed{events[0], claimToken{state.Epoch, e.Position, e.Attempt}, e.Attempt})
	}
	state.Entries = slices.DeleteFunc(state.Entries, func(e claimEntry) bool { return goneAt[e.Position] })
	return out, nil
}

// asking is the pause of a consumer that waits for events: other consumers, on other servers,
// may give some back at any time.
var asking = backoff.Policy{First: 10 * time.Millisecond, Max: 250 * time.Millisecond, Jitter: 0.2}

// claimWithin is claim that waits until there is something.
func (s *subscription) claimWithin(ctx context.Context, consumer string, limit int, wait time.Duration) ([]claimed, error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for n := 1; ; n++ {
		out, err := s.claim(ctx, consumer, limit)
		if err != nil || len(out) > 0 || wait <= 0 || !asking.Wait(waiting, n) {
			return out, err
		}
	}
}

// allParked yields the parked events in the order of positions.
func (s *subscription) allParked(ctx context.Context) iter.Seq2[parkedEvent, error] {
	return func(yield func(parkedEvent, error) bool) {
		for rec, err := range s.h.log.Scan(ctx, s.parked(), mainstem.Range{Prefix: append([]byte(s.name), 0)}) {
			if errors.Is(err, mainstem.ErrNotFound) {
				return
			}
			var p parkedEvent
			if err == nil {
				if jerr := json.Unmarshal(rec.Value, &p); jerr != nil {
					err = mainstem.Errorf(mainstem.KindCorrupt, "subscription", "%w", jerr).At(s.parked(), rec.Key)
				}
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// retryParked makes parked events wait again, as many as have a place, with their attempts
// counted anew. left reports whether there are more.
func (s *subscription) retryParked(ctx context.Context) (n int, left bool, err error) {
	_, err = s.change(ctx, func(b *mainstem.Batch, state *claimState) error {
		n, left = 0, false
		var back []claimEntry
		for p, err := range s.allParked(ctx) {
			if err != nil {
				return err
			}
			if len(state.Entries)+len(back) >= state.Config.Buffer {
				left = true
				break
			}
			back = append(back, claimEntry{
				Position: mainstem.Position(p.Position), Stream: p.Stream, Version: mainstem.Version(p.Version), Attempt: p.Attempts, Before: p.Attempts,
			})
			b.Delete(s.parked(), s.parkedKey(mainstem.Position(p.Position)))
		}
		n = len(back)
		state.putBack(back)
		return nil
	})
	return n, left, err
}
