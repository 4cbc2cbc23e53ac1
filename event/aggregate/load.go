package aggregate

import (
	"context"
	"fmt"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// GapError reports that a state cannot be computed: the first events of the stream were truncated
// or forgotten, and there is no snapshot of the repository's [Options.SnapshotVersion] and codec.
// It is Invalid.
type GapError struct {
	Stream string
	First  mainstem.Version // of the oldest event that is stored; 0 if there is none
}

// Error names the oldest stored event and what to do.
func (e *GapError) Error() string {
	return fmt.Sprintf("stream %.64q: its events begin at version %d, and no snapshot of the state before that can be read: "+
		"open the repository with the SnapshotVersion and codec of the one that wrote it", e.Stream, e.First)
}

// Unwrap makes it an error of kind Invalid.
func (e *GapError) Unwrap() error { return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "load"} }

// state receives a stream as it is loaded: at most one call of restore, then one of apply for each
// event, in order.
type state struct {
	restore func(data []byte) error // sets the state to that of a snapshot
	apply   func(v any) error       // adds a decoded event to the state
}

// at is the point of a stream that a state is at.
type at struct {
	version  mainstem.Version // of the last event, or of the tombstone; the version that a save expects
	snapshot mainstem.Version // of the newest snapshot that was read or written; 0 if none
	events   bool             // whether the stream has events or a snapshot
}

// load feeds the stream of id to st up to the point p, or up to the newest event if p is zero. A
// position or a time is first turned into the version of the last stored event at or before it.
func (s *streams) load(ctx context.Context, id string, p Point, st state) (at, error) {
	stream, err := s.check(id)
	if err != nil {
		return at{}, err
	}
	upTo := p.version
	if p.position != 0 || !p.time.IsZero() {
		last, err := s.store.Load(ctx, stream, &event.LoadOptions{UpTo: p.position, Until: p.time, Backward: true, Limit: 1})
		if err != nil {
			return at{}, err
		}
		if len(last) == 0 {
			return at{}, s.noneAtPoint(ctx, stream)
		}
		upTo = last[0].Version
	}
	got, err := s.store.LoadState(ctx, stream, &event.StateOptions{UpTo: upTo, SnapshotType: s.snapshot, NoSnapshot: s.opts.SnapshotEvery == 0})
	if err != nil {
		return at{}, err
	}
	if got.Gap {
		return at{}, s.gap(ctx, stream)
	}
	return s.replay(stream, &got, st)
}

// noneAtPoint returns nil if a stream without stored events at a point had none then, and a
// [*GapError] if its first events were removed.
func (s *streams) noneAtPoint(ctx context.Context, stream string) error {
	first, err := s.store.LoadState(ctx, stream, &event.StateOptions{UpTo: 1, NoSnapshot: true})
	if err != nil || !first.Gap {
		return err
	}
	return s.gap(ctx, stream)
}

// gap returns the GapError of a stream.
func (s *streams) gap(ctx context.Context, stream string) error {
	gap := &GapError{Stream: stream}
	first, err := s.store.Load(ctx, stream, &event.LoadOptions{Limit: 1})
	if err != nil {
		return err
	}
	if len(first) > 0 {
		gap.First = first[0].Version
	}
	return gap
}

// replay feeds a snapshot and the events after it to st. Events are upcast and decoded on the way.
func (s *streams) replay(stream string, got *event.State, st state) (at, error) {
	a := at{version: got.Version, events: got.Snapshot != nil || len(got.Events) > 0}
	if got.Snapshot != nil {
		a.snapshot = got.Snapshot.Version
		if err := st.restore(got.Snapshot.Data); err != nil {
			return at{}, fmt.Errorf("stream %.64q: snapshot of version %d: %w", stream, got.Snapshot.Version, err)
		}
	}
	if len(got.Events) == 0 {
		return a, nil
	}
	each := s.types.Each
	if s.opts.Strict {
		each = s.types.EachStrict
	}
	apply := func(v any, r event.Recorded) error {
		if err := st.apply(v); err != nil {
			return fmt.Errorf("stream %.64q: apply version %d of type %s: %w", stream, r.Version, r.Type, err)
		}
		return nil
	}
	for i := range got.Events {
		if err := each(got.Events[i], apply); err != nil {
			return at{}, err
		}
	}
	return a, nil
}

// check returns the stream of id; an ID that gives no valid stream name is Invalid.
func (s *streams) check(id string) (string, error) {
	if id == "" {
		return "", mainstem.Refusef(mainstem.KindInvalid, "aggregate", "category %s: the ID is empty", s.category)
	}
	stream := s.stream(id)
	return stream, event.ValidateStream(stream)
}

func (s *streams) notFound(id string) error {
	return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "load", Space: s.store.Space(), Key: []byte(s.stream(id))}
}
