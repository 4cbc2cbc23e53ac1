package aggregate

import (
	"context"
	"fmt"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// GapError says that a state cannot be loaded: its first events were truncated or
// forgotten, and there is no snapshot of the form that the repository reads. It is Invalid.
type GapError struct {
	Stream string
	First  mainstem.Version // the oldest event that is held; 0 if there is none
}

// Error says what is missing, and what to do.
func (e *GapError) Error() string {
	return fmt.Sprintf("stream %.64q: its events begin at version %d, and no snapshot of the state before that can be read: "+
		"open the repository with the SnapshotVersion and codec of the one that wrote it", e.Stream, e.First)
}

// Unwrap makes it an error of kind Invalid.
func (e *GapError) Unwrap() error { return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "load"} }

// state is what a stream is loaded into.
type state struct {
	restore func(data []byte) error // of a snapshot
	apply   func(v any) error       // of an event
}

// at says what was loaded.
type at struct {
	version  mainstem.Version // of the last event, or of the tombstone
	snapshot mainstem.Version // that it began with; 0 if none
	events   bool             // the stream has events
}

// load brings st to the newest version of the stream, or to the moment p unless it is zero.
func (s *streams) load(ctx context.Context, id string, p Point, st state) (at, error) {
	stream, err := s.check(id)
	if err != nil {
		return at{}, err
	}
	upTo := p.version
	if p.position != 0 || !p.time.IsZero() {
		last, err := s.store.Load(ctx, stream, &event.LoadOptions{UpTo: p.position, Until: p.time, Backward: true, Limit: 1})
		if err != nil || len(last) == 0 {
			return at{}, err
		}
		upTo = last[0].Version
	}
	got, err := s.store.LoadState(ctx, stream, &event.StateOptions{UpTo: upTo, SnapshotType: s.snapshot, NoSnapshot: s.opts.SnapshotEvery == 0})
	if err != nil {
		return at{}, err
	}
	if got.Gap {
		gap := &GapError{Stream: stream}
		if len(got.Events) > 0 {
			gap.First = got.Events[0].Version
		}
		return at{}, gap
	}
	return s.replay(stream, &got, st)
}

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

// check returns the stream of id, or an Invalid error.
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
