package aggregate

import (
	"context"
	"errors"
	"maps"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/outcome"
)

// change is what a save adds to a stream.
type change struct {
	id       string
	at       at             // the point of the stream that the events were decided at
	events   []any          // as Go values, oldest first; at least one
	metadata event.Metadata // of all events
	// state encodes the state after the events, for a snapshot. It is called only if one is due.
	state func() ([]byte, error)
}

// addTo appends c as part of b: new event IDs, the events on condition of the version that was
// loaded, the writes of the inline projections, and a snapshot if one is due. It returns the
// version of the newest snapshot after the commit. After an error b may hold a part of that, so
// addTo fails b.
func (s *streams) addTo(ctx context.Context, b *mainstem.Batch, c *change) (snapshot mainstem.Version, err error) {
	defer func() {
		if err != nil {
			b.Fail(err)
		}
	}()
	stream, err := s.check(c.id)
	if err != nil {
		return 0, err
	}
	if err := s.decideIn(b, stream); err != nil {
		return 0, err
	}
	metadata := unstamped(c.metadata)
	events := make([]event.Event, len(c.events))
	for i, v := range c.events {
		if events[i], err = s.types.Encode(v); err != nil {
			return 0, err
		}
		events[i].ID = event.NewID()
		events[i].Metadata = events[i].Metadata.Or(metadata)
	}
	if s.opts.Inline == nil {
		s.store.AppendTo(b, stream, event.AtVersion(c.at.version), events)
	} else if err := s.opts.Inline.AppendTo(ctx, b, stream, event.AtVersion(c.at.version), events); err != nil {
		return 0, err
	}
	last := c.at.version + mainstem.Version(len(events))
	if every := mainstem.Version(s.opts.SnapshotEvery); every == 0 || last-c.at.snapshot < every {
		return c.at.snapshot, nil
	}
	data, err := c.state()
	if err != nil {
		return 0, mainstem.Refusef(mainstem.KindInvalid, "aggregate", "stream %.64q: snapshot of version %d: %w", stream, last, err)
	}
	s.store.SaveSnapshotTo(b, event.Snapshot{Stream: stream, Version: last, Type: s.snapshot, Data: data})
	return last, nil
}

// decideIn fails b, with the error that it returns, if b appends to stream already.
func (s *streams) decideIn(b *mainstem.Batch, stream string) error {
	writes := b.Writes()
	for i := range writes {
		if w := &writes[i]; w.Op == mainstem.OpPut && w.Space == s.store.Space() && string(w.Key) == stream {
			err := mainstem.Refusef(mainstem.KindInvalid, "aggregate", "stream %.64q: the batch appends to it already: a second decision would not see the events of the first", stream)
			b.Fail(err)
			return err
		}
	}
	return nil
}

// unstamped returns m without the schema version of an event from which a caller may have taken m.
func unstamped(m event.Metadata) event.Metadata {
	if _, stamped := m.Custom[event.SchemaName]; stamped {
		m.Custom = maps.Clone(m.Custom)
		delete(m.Custom, event.SchemaName)
	}
	return m
}

// staleTries is how often commit builds a batch because of a changed index.
const staleTries = 8

// commit writes c in a batch of its own. With inline projections it builds a new batch after a
// conflict about their rows, as often as [Inline.Again] allows, and also when the index of the store
// was not known: the decision itself stays as it is.
func (s *streams) commit(ctx context.Context, c *change) (event.Appended, at, error) {
	c.metadata = c.metadata.Or(event.MetadataFrom(ctx))
	for try := 1; ; try++ {
		done, now, err := s.commitOnce(ctx, c)
		var stale *event.StaleIndexError
		switch {
		case errors.As(err, &stale) && try < staleTries:
		case err == nil || s.opts.Inline == nil || !s.opts.Inline.Again(ctx, s.stream(c.id), err, try):
			return done, now, err
		}
	}
}

// commitOnce builds a batch for c and commits it, again while the outcome is unknown; see
// [outcome.Commit].
func (s *streams) commitOnce(ctx context.Context, c *change) (event.Appended, at, error) {
	b := mainstem.NewBatch()
	b.Durability = s.opts.Durability
	snapshot, err := s.addTo(ctx, b, c)
	if err != nil {
		return event.Appended{}, at{}, err
	}
	r, err := outcome.Commit(ctx, s.store.Log(), b)
	if err != nil {
		return event.Appended{}, at{}, s.store.Explain(ctx, err)
	}
	done, _ := s.store.Result(b, r, s.stream(c.id))
	done.Duplicate = false // set if a try of this call was repeated; these events are new all the same
	return done, at{version: done.Last, snapshot: snapshot, events: true}, nil
}
