package aggregate

import (
	"context"
	"errors"
	"reflect"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// Decider is a domain as pure functions, for states S, commands C and events E. E is usually an
// interface that the registered event types implement.
type Decider[S, C, E any] struct {
	// Initial returns the state without events.
	Initial func() S
	// Decide returns the events that a command leads to, none if it changes nothing, or the error
	// with which the command is refused.
	Decide func(S, C) ([]E, error)
	// Evolve returns the state after an event. It may change the given state and return it.
	Evolve func(S, E) S
	// Terminal, if set, reports whether a state accepts no further commands: Handle then returns
	// [ErrTerminal].
	Terminal func(S) bool
}

// ErrTerminal is the error of a command to a state that has ended; see [Decider.Terminal].
var ErrTerminal = errors.New("the state is terminal and takes no commands")

// Deciders handles commands with a [Decider]: it is a [Repository] for pure functions. It is safe
// for concurrent use.
type Deciders[S, C, E any] struct {
	streams
	decider Decider[S, C, E]
	codec   snapshotCodec
	cache   cache[*decided[S]]
}

// decided is a state and the point of its stream that it is at.
type decided[S any] struct {
	state S
	at    at
}

// OpenDecider returns the streams of a category in store as states of d. It is like [Open]; a
// snapshot is the encoded S, which is decoded into the state of Initial as [Open] says.
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
		if err := checkSnapshots[S](s.opts.SnapshotCodec); err != nil {
			return nil, mainstem.Refusef(mainstem.KindInvalid, "aggregate", "category %s: %w", category, err)
		}
		first := d.Initial()
		if _, err := r.codec.snapshot(&first); err != nil {
			return nil, mainstem.Refusef(mainstem.KindInvalid, "aggregate", "category %s: snapshot of the initial state: %w", category, err)
		}
	}
	return r, nil
}

// Load returns the newest state of id and the version of its stream. Without events it is the
// initial state, and the version is 0 or that of the stream's tombstone. The errors are those of
// [Repository.Load], except NotFound; an event that is not an E is Invalid.
func (r *Deciders[S, C, E]) Load(ctx context.Context, id string) (S, mainstem.Version, error) {
	d, err := r.load(ctx, id, Point{})
	return d.state, d.at.version, err
}

// LoadAt is Load as of p, a point in the past, like [Repository.LoadAt]. If the stream had no
// events at p it returns the initial state.
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
			if t := reflect.TypeFor[S](); !hasOwnForm(t) && !implements(t, reflect.TypeFor[Snapshotter]()) {
				s = r.decider.Initial() // for its maps
			}
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
// appended since. After a conflict it decides again on the new state, up to [Options.Retries]
// times. If Decide fails or returns no events nothing is written. When Handle returns, the events
// have the durability of [Options.Durability]. An unknown outcome is handled as by
// [Repository.Save].
func (r *Deciders[S, C, E]) Handle(ctx context.Context, id string, cmd C) (event.Appended, error) {
	return decide(ctx, &r.streams, &r.cache, decision[*decided[S]]{
		id:   id,
		load: func() (*decided[S], error) { return r.load(ctx, id, Point{}) },
		save: func(d *decided[S]) (event.Appended, error) { return r.save(ctx, id, d, cmd) },
		keep: func(event.Appended) bool { return true }, // a stream without events has a state too
	})
}

// HandleTo is [Deciders.Handle] as part of b: it loads, decides once, and appends the events on
// condition that the stream is still at the version that was loaded. If there are none it adds that
// condition alone. A batch takes one decision for each aggregate; a second is Invalid. An error of
// the load or of Decide leaves b as it was. Any other error also fails b: Commit returns it too.
func (r *Deciders[S, C, E]) HandleTo(ctx context.Context, b *mainstem.Batch, id string, cmd C) error {
	if err := r.decideIn(b, r.stream(id)); err != nil {
		return err
	}
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

// change decides on d, and evolves d by the events.
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

// save decides on d and appends the events. After an error d is not used any more, since it may
// contain events that were not written.
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
