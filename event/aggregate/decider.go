package aggregate

import (
	"context"
	"errors"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// Decider is the domain as three or four pure functions, for states S, commands C and events E.
// E is usually an interface that the registered event types implement.
type Decider[S, C, E any] struct {
	// Initial returns the state without events.
	Initial func() S
	// Decide returns what happens because of a command, nothing if nothing does.
	Decide func(S, C) ([]E, error)
	// Evolve returns the state after an event. It may change and return the one that it is given.
	Evolve func(S, E) S
	// Terminal, if set, reports that a state takes no commands any more: Handle returns [ErrTerminal].
	Terminal func(S) bool
}

// ErrTerminal says that a command came for a state that has ended; see [Decider.Terminal].
var ErrTerminal = errors.New("the state is terminal and takes no commands")

// Deciders handles commands with a [Decider]: a [Repository] for pure functions. It is safe for
// concurrent use.
type Deciders[S, C, E any] struct {
	streams
	decider Decider[S, C, E]
	codec   snapshotCodec
	cache   cache[*decided[S]]
}

// decided is a state and where its stream stood.
type decided[S any] struct {
	state S
	at    at
}

// OpenDecider returns the streams of a category in store as states of d; like [Open]. A snapshot
// is the encoding of S.
func OpenDecider[S, C, E any](store *event.Store, types *event.Types, category string, d Decider[S, C, E], opts *Options) (*Deciders[S, C, E], error) {
	if d.Initial == nil || d.Decide == nil || d.Evolve == nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "aggregate", "category %.40q: a Decider needs Initial, Decide and Evolve", category)
	}
	s, err := openStreams(store, types, category, opts)
	if err != nil {
		return nil, err
	}
	r := &Deciders[S, C, E]{streams: s, decider: d, codec: snapshotCodec{s.opts.SnapshotCodec}}
	r.cache.limit = s.opts.Cache
	if s.opts.SnapshotEvery > 0 {
		if err := checkSnapshots[S](); err != nil {
			return nil, mainstem.Refusef(mainstem.KindInvalid, "aggregate", "category %s: %w", category, err)
		}
		first := d.Initial()
		if _, err := r.codec.snapshot(&first); err != nil {
			return nil, mainstem.Refusef(mainstem.KindInvalid, "aggregate", "category %s: snapshot of the initial state: %w", category, err)
		}
	}
	return r, nil
}

// Load returns the state of id and the version of its stream. Without events it is the
// initial state, and the version is 0 or that of the stream's tombstone.
func (r *Deciders[S, C, E]) Load(ctx context.Context, id string) (S, mainstem.Version, error) {
	d, err := r.load(ctx, id, Point{})
	return d.state, d.at.version, err
}

// LoadAt is Load as of a moment of the past, as far as the events are still held.
func (r *Deciders[S, C, E]) LoadAt(ctx context.Context, id string, p Point) (S, mainstem.Version, error) {
	if err := p.check(); err != nil {
		var none S
		return none, 0, err
	}
	d, err := r.load(ctx, id, p)
	return d.state, d.at.version, err
}

func (r *Deciders[S, C, E]) load(ctx context.Context, id string, p Point) (*decided[S], error) {
	d := &decided[S]{state: r.decider.Initial()}
	var err error
	d.at, err = r.streams.load(ctx, id, p, state{
		restore: func(data []byte) error {
			var s S
			err := r.codec.restore(data, &s)
			d.state = s
			return err
		},
		apply: func(v any) error {
			ev, ok := v.(E)
			if !ok {
				return mainstem.Refusef(mainstem.KindInvalid, "aggregate", "the event is a %T, which the decider's event type does not include", v)
			}
			d.state = r.decider.Evolve(d.state, ev)
			return nil
		},
	})
	return d, err
}

// Handle loads the state of id, decides, and appends the events on condition that nothing was
// appended since. After a conflict it decides anew, up to [Options.Retries] times. An error of
// Decide is returned, and nothing is written; so it is if there are no events. The events returned
// are as durable as [Options.Durability] says.
func (r *Deciders[S, C, E]) Handle(ctx context.Context, id string, cmd C) (event.Appended, error) {
	return decide(ctx, &r.streams, &r.cache, decision[*decided[S]]{
		id:   id,
		load: func() (*decided[S], error) { return r.load(ctx, id, Point{}) },
		save: func(d *decided[S]) (event.Appended, error) { return r.save(ctx, id, d, cmd) },
	})
}

// HandleTo is [Deciders.Handle] as part of b: it loads, decides once, and adds the events with the
// condition that the stream is still at the version that was read, also if there are none.
func (r *Deciders[S, C, E]) HandleTo(ctx context.Context, b *mainstem.Batch, id string, cmd C) error {
	d, err := r.load(ctx, id, Point{})
	if err != nil {
		return err
	}
	c, err := r.change(id, d, cmd)
	if err != nil {
		return err
	}
	if len(c.events) == 0 {
		r.store.ExpectTo(b, r.stream(id), event.AtVersion(d.at.version))
		return nil
	}
	c.metadata = event.MetadataFrom(ctx)
	_, err = r.addTo(ctx, b, c)
	return err
}

// change decides, and lets the events happen to d.
func (r *Deciders[S, C, E]) change(id string, d *decided[S], cmd C) (*change, error) {
	if r.decider.Terminal != nil && r.decider.Terminal(d.state) {
		return nil, ErrTerminal
	}
	events, err := r.decider.Decide(d.state, cmd)
	if err != nil {
		return nil, err
	}
	c := &change{id: id, at: d.at, events: make([]any, len(events)), state: func() ([]byte, error) { return r.codec.snapshot(&d.state) }}
	for i, ev := range events {
		c.events[i] = ev
		d.state = r.decider.Evolve(d.state, ev)
	}
	return c, nil
}

// save decides on d and appends.
func (r *Deciders[S, C, E]) save(ctx context.Context, id string, d *decided[S], cmd C) (event.Appended, error) {
	c, err := r.change(id, d, cmd)
	if err != nil {
		return event.Appended{}, &decisionError{err}
	}
	if len(c.events) == 0 {
		return event.Appended{Stream: r.stream(id), Last: d.at.version}, nil
	}
	done, now, err := r.commit(ctx, c)
	if err != nil {
		return event.Appended{}, err
	}
	d.at = now
	return done, nil
}
