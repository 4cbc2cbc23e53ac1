package claims

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// Parked yields the parked events in the order of their positions. An error ends the sequence.
func (s *Subscription) Parked(ctx context.Context) iter.Seq2[Parked, error] {
	return s.ParkedAfter(ctx, 0)
}

// ParkedAfter is Parked for the events after a position.
func (s *Subscription) ParkedAfter(ctx context.Context, after mainstem.Position) iter.Seq2[Parked, error] {
	return func(yield func(Parked, error) bool) {
		r := mainstem.Range{Prefix: append([]byte(s.name), 0), Start: s.parkedKey(after + 1)}
		for rec, err := range s.log.Scan(ctx, s.parked(), r) {
			if errors.Is(err, mainstem.ErrNotFound) {
				return
			}
			var p Parked
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

// Retry makes parked events wait again: those at positions, or all if none is given, as long as the
// buffer has space. Their attempts are counted from 0 again. It returns their number, and left if
// parked events remain for lack of space.
//
// After a Reset to an earlier position, an event may be parked that has an entry, or that fill will
// still read. Retry adds no second entry for it: the event is only not parked any more. An event
// after Read that the Config does not select any more stays parked.
func (s *Subscription) Retry(ctx context.Context, positions ...mainstem.Position) (n int, left bool, err error) {
	_, err = s.Change(ctx, func(b *mainstem.Batch, state *State) error {
		n, left = 0, false
		var back []Entry
		for p, err := range s.chosen(ctx, positions) {
			if err != nil {
				return err
			}
			if len(state.Entries)+n >= state.Config.Buffer {
				left = true
				break
			}
			_, waits := state.find(p.Position)
			if p.Position > state.Read {
				if waits, err = s.reads(ctx, state, &p); err != nil {
					return err
				}
				if !waits {
					continue
				}
			}
			if !waits {
				back = append(back, Entry{Position: p.Position, Stream: p.Stream, Version: p.Version, Attempt: p.Attempts, Before: p.Attempts})
			}
			b.Delete(s.parked(), s.parkedKey(p.Position))
			n++
		}
		state.PutBack(back)
		return nil
	})
	return n, left, err
}

// reads reports whether fill will read a parked event that is after Read.
func (s *Subscription) reads(ctx context.Context, state *State, p *Parked) (bool, error) {
	f := state.Config.Filter
	if len(f.Streams) > 0 && !slices.Contains(f.Streams, p.Stream) {
		return false, nil
	}
	f.Streams = []string{p.Stream} // so that the feed reads no other stream
	for r, err := range s.store.Feed(ctx, &event.FeedOptions{After: p.Position - 1, Limit: 1, Filter: f}) {
		return err == nil && r.Position == p.Position, err
	}
	return false, nil
}

// maxDropped is the largest number of parked events that are removed in one commit.
const maxDropped = 1000

// Drop removes the parked events at positions, or all if none is given, in commits of up to 1,000.
// It returns their number, also with an error.
func (s *Subscription) Drop(ctx context.Context, positions ...mainstem.Position) (n int, err error) {
	for {
		removed := 0
		_, err = s.Change(ctx, func(b *mainstem.Batch, _ *State) error {
			removed = 0
			for p, err := range s.chosen(ctx, positions) {
				if err != nil {
					return err
				}
				b.Delete(s.parked(), s.parkedKey(p.Position))
				if removed++; removed == maxDropped {
					break
				}
			}
			return nil
		})
		if err != nil {
			return n, err
		}
		if n += removed; removed < maxDropped {
			return n, nil
		}
	}
}

// chosen yields the parked events at positions; all if positions is empty.
func (s *Subscription) chosen(ctx context.Context, positions []mainstem.Position) iter.Seq2[Parked, error] {
	wanted := make(map[mainstem.Position]bool, len(positions))
	for _, at := range positions {
		wanted[at] = true
	}
	return func(yield func(Parked, error) bool) {
		for p, err := range s.Parked(ctx) {
			if err == nil && len(wanted) > 0 && !wanted[p.Position] {
				continue
			}
			if !yield(p, err) {
				return
			}
		}
	}
}

// Names yields the names of the subscriptions of a store of this package, in their order.
func Names(ctx context.Context, store *event.Store) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for rec, err := range store.Log().Scan(ctx, claimsPrefix+store.Name(), mainstem.Range{KeysOnly: true}) {
			if errors.Is(err, mainstem.ErrNotFound) {
				return
			}
			if !yield(string(rec.Key), err) || err != nil {
				return
			}
		}
	}
}

// Put creates the subscription, or replaces its [Config]. In the second case claims and position
// are kept, From has no effect, and a stopped subscription continues. Of concurrent calls, the last
// one replaces the Config of the others.
func (s *Subscription) Put(ctx context.Context, c Config) error {
	for n := 1; ; n++ {
		_, err := s.Change(ctx, func(_ *mainstem.Batch, state *State) error {
			state.Config, state.Stopped = c, ""
			return nil
		})
		if !errors.Is(err, mainstem.ErrNotFound) {
			return err
		}
		err = s.save(ctx, mainstem.NewBatch(), &State{Epoch: uint64(time.Now().UnixNano()), Config: c, Read: c.From}, 0)
		if !errors.Is(err, mainstem.ErrConflict) {
			return err
		}
		if err := wait(ctx, n); err != nil { // another process has created it meanwhile
			return err
		}
	}
}

// Delete removes the subscription and its parked events, in commits of up to 1,000 of them. The last
// commit removes the subscription, on condition that it has not changed since the parked events were
// read: so none is left. After an error, some parked events may be removed. Delete is NotFound if
// the subscription does not exist.
func (s *Subscription) Delete(ctx context.Context) error {
	for n := 1; ; {
		last, err := s.deleteStep(ctx)
		switch {
		case errors.Is(err, mainstem.ErrConflict):
			if err := wait(ctx, n); err != nil {
				return err
			}
			n++
		case last || err != nil:
			return err
		}
	}
}

// deleteStep is one commit of Delete. It reports whether it was the last one.
func (s *Subscription) deleteStep(ctx context.Context) (bool, error) {
	rec, err := s.log.Get(ctx, s.claims(), []byte(s.name))
	if errors.Is(err, mainstem.ErrNotFound) {
		return false, s.notFound()
	}
	if err != nil {
		return false, err
	}
	b := mainstem.NewBatch()
	b.IfVersion(s.claims(), rec.Key, rec.Version)
	last := true
	for p, err := range s.Parked(ctx) {
		if err != nil {
			return false, err
		}
		if last = b.Len() < maxDropped; !last {
			break
		}
		b.Delete(s.parked(), s.parkedKey(p.Position))
	}
	if last {
		b.Delete(s.claims(), rec.Key)
	}
	_, err = s.log.Commit(ctx, b)
	return last, err
}

// Reset makes the subscription begin after a position. Tokens of earlier claims become stale, and a
// stopped subscription continues. Parked events stay parked; those after the position are given to
// consumers all the same.
func (s *Subscription) Reset(ctx context.Context, after mainstem.Position) error {
	_, err := s.Change(ctx, func(_ *mainstem.Batch, state *State) error {
		state.Epoch++
		state.Read, state.Entries, state.Stopped = after, nil, ""
		return nil
	})
	return err
}

// Info is the progress of a subscription.
type Info struct {
	Config    Config
	Position  mainstem.Position // all events up to it are done or parked
	Last      mainstem.Position // newest record of the store
	Claimed   int               // events that consumers have claimed
	Waiting   int               // events that were read and are not claimed
	Parked    int               // parked events
	Consumers int               // consumers that were seen within the timeout
	Stopped   string            // why no events are given out; "": they are

	read mainstem.Position // State.Read
}

// Info returns the progress of the subscription. It reads all parked events.
func (s *Subscription) Info(ctx context.Context) (Info, error) {
	state, _, err := s.Load(ctx)
	if err != nil {
		return Info{}, err
	}
	last, err := s.store.LastPosition(ctx)
	if err != nil {
		return Info{}, err
	}
	in := Info{Config: state.Config, Position: state.Mark(), Last: last, Stopped: state.Stopped, read: state.Read}
	overdue := state.Expire(time.Now()) // the next claim parks them
	in.Consumers = len(state.Consumers)
	in.Claimed, in.Waiting = state.Counts()
	in.Waiting += len(overdue)
	for _, err := range s.Parked(ctx) {
		if err != nil {
			return Info{}, err
		}
		in.Parked++
	}
	return in, nil
}

// Lag returns how many events are not done or parked, at most limit. in is the result of Info.
func (s *Subscription) Lag(ctx context.Context, in *Info, limit int) (int, error) {
	n := in.Claimed + in.Waiting
	if n >= limit {
		return limit, nil
	}
	for _, err := range s.store.Feed(ctx, &event.FeedOptions{After: in.read, Limit: limit - n, Filter: in.Config.Filter}) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// Next returns the first event that is not done, in the form of a parked event. It is NotFound if
// all are done.
func (s *Subscription) Next(ctx context.Context) (Parked, error) {
	state, _, err := s.Load(ctx)
	if err != nil {
		return Parked{}, err
	}
	e, err := s.first(ctx, state)
	return Parked{Position: e.Position, Stream: e.Stream, Version: e.Version, Attempts: e.Attempt}, err
}

// first returns the first entry of the state. If there is none, it reads the next event of the
// store into the state.
func (s *Subscription) first(ctx context.Context, state *State) (Entry, error) {
	if len(state.Entries) == 0 {
		if err := s.fill(ctx, state, 1); err != nil {
			return Entry{}, err
		}
	}
	if len(state.Entries) == 0 {
		return Entry{}, mainstem.Refusef(mainstem.KindNotFound, "subscription", "subscription %s of the store %s has no event to pass over: all are done", s.name, s.store.Name())
	}
	return state.Entries[0], nil
}

// Skip parks the event at a position, which must be the result of [Subscription.Next]; a stopped
// subscription continues. If a consumer has claimed the event, its answer has no effect. If another
// event is the first by now, the error is of kind Conflict.
func (s *Subscription) Skip(ctx context.Context, at mainstem.Position, reason string) error {
	if len(reason) > MaxReason {
		return mainstem.Refusef(mainstem.KindInvalid, "skip", "the reason has %d bytes: the limit is %d", len(reason), MaxReason)
	}
	_, err := s.Change(ctx, func(b *mainstem.Batch, state *State) error {
		e, err := s.first(ctx, state)
		if err != nil {
			return err
		}
		if e.Position != at {
			return mainstem.Refusef(mainstem.KindConflict, "skip", "subscription %s: the event at position %d is not the first any more", s.name, at)
		}
		state.Entries, state.Stopped = state.Entries[1:], ""
		s.Park(b, []Entry{e}, reason, time.Now())
		return nil
	})
	return err
}

func (s *Subscription) notFound() error {
	return mainstem.Refusef(mainstem.KindNotFound, "subscription", "the store %s has no subscription %.60q: make it with PUT", s.store.Name(), s.name)
}
