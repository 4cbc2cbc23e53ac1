package event

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Parked is an event that a subscription put aside because its handler failed; see [ParkPoison]. It
// refers to the event and holds no copy, so that erasing a stream erases all its data.
type Parked struct {
	Subscription string
	Stream       string
	Version      mainstem.Version
	Position     mainstem.Position
	Attempts     int       // how often it was tried
	Reason       string    // the error of the last attempt, at most [MaxReason] bytes
	Time         time.Time // when it was last parked
}

// MaxReason is the number of bytes of an error that are kept with a parked event.
const MaxReason = 4 << 10

// A parked event is one record of the space event.parked/<store>:
//
//	key      <subscription> 00 <position, 8 bytes big-endian>
//	value    the error
//	headers  $stream; $version and $attempts, in decimal
const (
	headerStream   = "$stream"
	headerAttempts = "$attempts"
)

var parkedPolicy = mainstem.Policy{History: 1, NoFeed: true}

func parkedKey(name []byte, p mainstem.Position) []byte {
	key := append(bytes.Clone(name), 0)
	return binary.BigEndian.AppendUint64(key, uint64(p))
}

// poison applies the policy to ev, whose handling failed.
func (sub *Subscription) poison(ev *Recorded, failures int, cause error) error {
	if sub.opts.OnPoison == StopOnPoison {
		return fatalError{&PoisonError{
			Subscription: string(sub.name), Stream: ev.Stream, Version: ev.Version, Position: ev.Position, Type: ev.Type,
			Attempts: failures, Err: cause,
		}}
	}
	sub.opts.Logger.Error("event subscription parks an event", "subscription", string(sub.name),
		"stream", ev.Stream, "version", ev.Version, "position", ev.Position, "type", ev.Type, "failures", failures, "error", cause)
	b := &sub.batch
	b.Reset()
	sub.store.park(b, Parked{
		Subscription: string(sub.name), Stream: ev.Stream, Version: ev.Version, Position: ev.Position,
		Attempts: failures, Reason: cause.Error(),
	})
	if err := sub.commit(b, ev.Position); err != nil {
		if isFatal(err) {
			return err
		}
		return fatalError{fmt.Errorf("park event at position %d: %w", ev.Position, err)}
	}
	return nil
}

// ParkTo puts an event aside for a subscription as part of b, as [ParkPoison] does, for batches
// that also move the subscription's checkpoint past it. Time is not used.
func (s *Store) ParkTo(b *mainstem.Batch, p Parked) {
	if err := checkSubscription("park", p.Subscription); err != nil {
		b.Fail(err)
		return
	}
	s.park(b, p)
}

func (s *Store) park(b *mainstem.Batch, p Parked) {
	b.Ensure(s.spaces.parked, parkedPolicy)
	b.Add(mainstem.Write{
		Space: s.spaces.parked, Key: parkedKey([]byte(p.Subscription), p.Position),
		Value: []byte(p.Reason[:min(len(p.Reason), MaxReason)]),
		Headers: mainstem.Headers{
			{Name: headerStream, Value: []byte(p.Stream)},
			{Name: headerVersion, Value: strconv.AppendUint(nil, uint64(p.Version), 10)},
			{Name: headerAttempts, Value: strconv.AppendInt(nil, int64(p.Attempts), 10)},
		},
	})
}

func decodeParked(rec *mainstem.Record) (Parked, error) {
	i := len(rec.Key) - 9
	if i < 1 || rec.Key[i] != 0 {
		return Parked{}, mainstem.Errorf(mainstem.KindCorrupt, "decode", "the key is not a subscription and a position").At(rec.Space, rec.Key)
	}
	p := Parked{
		Subscription: string(rec.Key[:i]), Position: mainstem.Position(binary.BigEndian.Uint64(rec.Key[i+1:])),
		Reason: string(rec.Value), Time: rec.Time,
	}
	stream, _ := rec.Headers.Get(headerStream)
	attempts, _ := rec.Headers.Get(headerAttempts)
	p.Stream = string(stream)
	var err, err2 error
	p.Version, err = snapshotVersion(rec.Headers)
	p.Attempts, err2 = strconv.Atoi(string(attempts))
	if err = errors.Join(err, err2); err != nil {
		return Parked{}, mainstem.Errorf(mainstem.KindCorrupt, "decode", "parked event: %w", err).At(rec.Space, rec.Key)
	}
	return p, nil
}

// Parked yields the parked events of the subscription called name, in the order of the log.
func (s *Store) Parked(ctx context.Context, name string) iter.Seq2[Parked, error] {
	return s.parked(ctx, name, append([]byte(name), 0))
}

// ParkedUnder yields the parked events of all subscriptions whose names begin with prefix, ordered
// by name and then in the order of the log. An empty prefix is Invalid.
func (s *Store) ParkedUnder(ctx context.Context, prefix string) iter.Seq2[Parked, error] {
	return s.parked(ctx, prefix, []byte(prefix))
}

func (s *Store) parked(ctx context.Context, name string, prefix []byte) iter.Seq2[Parked, error] {
	return func(yield func(Parked, error) bool) {
		if err := checkSubscription("parked", name); err != nil {
			yield(Parked{}, err)
			return
		}
		for rec, err := range s.log.Scan(ctx, s.spaces.parked, mainstem.Range{Prefix: prefix}) {
			if isNotFound(err) {
				return
			}
			var p Parked
			if err == nil {
				p, err = decodeParked(&rec)
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// UnparkTo removes p from the parked events as part of b, whose other writes may be those that
// handle it. The commit conflicts if another process removed p first: each parked event is handled
// once.
func (s *Store) UnparkTo(b *mainstem.Batch, p Parked) {
	if err := checkSubscription("unpark", p.Subscription); err != nil {
		b.Fail(err)
		return
	}
	key := parkedKey([]byte(p.Subscription), p.Position)
	b.IfExists(s.spaces.parked, key)
	b.Add(mainstem.Write{Op: mainstem.OpForget, Space: s.spaces.parked, Key: key})
}

// RetryParked calls handler for each parked event of the subscription called name, in the order of
// the log. It removes the events that were handled, each in one commit with the writes of handler,
// and returns their number. An event whose handling fails again stays parked, with the new error;
// so does one that another RetryParked handles at the same time. Events that are not in their
// stream any more are removed without a call and counted as handled. The error is that of the log,
// never of handler.
func (s *Store) RetryParked(ctx context.Context, name string, handler Handler) (handled int, err error) {
	for p, err := range s.Parked(ctx, name) {
		if err != nil {
			return handled, err
		}
		ok, err := s.retryParked(ctx, p, handler)
		if err != nil {
			return handled, err
		}
		if ok {
			handled++
		}
	}
	return handled, nil
}

func (s *Store) retryParked(ctx context.Context, p Parked, handler Handler) (bool, error) {
	evs, err := s.Load(ctx, p.Stream, &LoadOptions{From: p.Version, To: p.Version})
	if err != nil {
		return false, err
	}
	var failure error
	for try := 1; try == 1 || try <= staleTries && isStale(failure); try++ {
		b := mainstem.NewBatch()
		b.Durability = s.opts.Durability
		failure = nil
		if len(evs) == 1 && evs[0].Position == p.Position {
			failure = protect(func() error { return handler(ctx, b, evs[0]) })
		}
		if failure == nil {
			s.UnparkTo(b, p)
			_, failure = s.log.Commit(ctx, b)
		}
	}
	switch {
	case failure == nil:
		return true, nil
	case ctx.Err() != nil, isUnavailable(failure), errors.Is(failure, mainstem.ErrClosed), errors.Is(failure, mainstem.ErrUnknownOutcome):
		return false, failure
	}
	p.Attempts, p.Reason = p.Attempts+1, failure.Error()
	err = s.now(ctx, func(b *mainstem.Batch) {
		b.IfExists(s.spaces.parked, parkedKey([]byte(p.Subscription), p.Position))
		s.park(b, p)
	})
	if errors.Is(err, mainstem.ErrConflict) {
		err = nil // another process has handled it
	}
	return false, err
}
