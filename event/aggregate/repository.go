package aggregate

import (
	"context"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// Repository loads and saves the aggregates of one category: the aggregate 42 of the category order
// is the stream order-42. It keeps no state except the cache of [Options.Cache]. It is safe for
// concurrent use; an aggregate belongs to one goroutine.
type Repository[A Aggregate] struct {
	streams
	make  func(id string) A // returns a new aggregate without events
	codec snapshotCodec     // of the aggregate's snapshots
	cache cache[A]          // of aggregates with events; used by Update and UpdateOrNew only
}

// Open returns the repository of the aggregates of a category in store. make returns a new
// aggregate without events, never nil. Open reads and writes nothing. Options out of range, a nil
// argument, and a category that is empty or contains a hyphen are Invalid.
//
// With [Options.SnapshotEvery], a state that a snapshot would not keep completely is Invalid too: A
// has a field that the codec cannot encode, and does not implement [Snapshotter].
func Open[A Aggregate](store *event.Store, types *event.Types, category string, make func(id string) A, opts *Options) (*Repository[A], error) {
	if make == nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "aggregate", "category %.40q: the function that makes an aggregate is nil", category)
	}
	s, err := openStreams(store, types, category, opts)
	if err != nil {
		return nil, err
	}
	r := &Repository[A]{streams: s, make: make, codec: snapshotCodec{s.opts.SnapshotCodec}}
	r.cache.limit = s.opts.Cache
	if s.opts.SnapshotEvery > 0 {
		if err := checkSnapshots[A](s.opts.SnapshotCodec); err != nil {
			return nil, mainstem.Refusef(mainstem.KindInvalid, "aggregate", "category %s: %w", category, err)
		}
		if _, err := r.codec.snapshot(r.New("")); err != nil {
			return nil, mainstem.Refusef(mainstem.KindInvalid, "aggregate", "category %s: snapshot of an aggregate without events: %w", category, err)
		}
	}
	return r, nil
}

// Log returns the log of the store.
func (r *Repository[A]) Log() mainstem.Log { return r.store.Log() }

// New returns an aggregate without events, and reads nothing. Saving it expects [event.NoStream].
func (r *Repository[A]) New(id string) A {
	a := r.make(id)
	*a.root() = Root{id: id}
	return a
}

// Load returns the aggregate in the newest state of its stream. If the stream has no events the
// error is NotFound. The other errors are those of [event.Store.LoadState], of
// [event.Types.Decode], of Apply and of restoring a snapshot, and [*GapError].
func (r *Repository[A]) Load(ctx context.Context, id string) (A, error) {
	return r.found(r.load(ctx, id, Point{}))
}

// LoadOrNew is Load, but returns an aggregate without events if the stream has none.
func (r *Repository[A]) LoadOrNew(ctx context.Context, id string) (A, error) {
	a, _, err := r.load(ctx, id, Point{})
	return a, err
}

// LoadAt is Load as of p, a point in the past. It needs the events up to p to be stored still: if
// they were removed since, the error is NotFound or a [*GapError]. If the stream had no events at p
// the error is NotFound; a zero version, position or time is Invalid. Saving the aggregate
// conflicts if events were appended after p.
func (r *Repository[A]) LoadAt(ctx context.Context, id string, p Point) (A, error) {
	if err := p.check(); err != nil {
		var none A
		return none, err
	}
	return r.found(r.load(ctx, id, p))
}

// load returns the aggregate as of p, or the newest state if p is zero, and whether it has events.
func (r *Repository[A]) load(ctx context.Context, id string, p Point) (A, bool, error) {
	a := r.New(id)
	got, err := r.streams.load(ctx, id, p, state{
		restore: func(data []byte) error { return r.codec.restore(data, a) },
		apply:   a.Apply,
	})
	root := a.root()
	root.id, root.version, root.snapshot = id, got.version, got.snapshot
	return a, got.events, err
}

// found returns a, or NotFound if it has no events.
func (r *Repository[A]) found(a A, events bool, err error) (A, error) {
	if err == nil && !events {
		err = r.notFound(a.root().id)
	}
	if err != nil {
		var none A
		return none, err
	}
	return a, nil
}

// SaveTo appends the uncommitted events of a as part of b, on condition that the stream is at the
// version of a, and adds a snapshot if one is due. Without uncommitted events it adds nothing. Call
// [Root.Clear] after the commit.
//
// SaveTo reads the log only for the projections of [Options.Inline]. Its error, for example of an
// event that cannot be encoded, also fails b: Commit returns it too.
func (r *Repository[A]) SaveTo(ctx context.Context, b *mainstem.Batch, a A) error {
	c := r.change(a)
	if len(c.events) == 0 {
		return nil
	}
	c.metadata = c.metadata.Or(event.MetadataFrom(ctx))
	snapshot, err := r.addTo(ctx, b, c)
	if a.root().added = 0; err == nil && snapshot != c.at.snapshot {
		a.root().added = snapshot
	}
	return err
}

// Save appends the uncommitted events of a on condition that the stream is at the version of a.
// When it returns, the events have the durability of [Options.Durability]; the result has their
// versions and positions. If the stream is at another version the error is an
// [*event.ConflictError]. After any error a is unchanged.
//
// If the outcome of a commit is unknown, Save commits the same batch again until the outcome is
// known; only if ctx ends before is the error one of outcome Unknown. Without uncommitted events it
// writes nothing.
func (r *Repository[A]) Save(ctx context.Context, a A) (event.Appended, error) {
	c := r.change(a)
	if len(c.events) == 0 {
		return event.Appended{Stream: r.stream(c.id), Last: c.at.version}, nil
	}
	done, now, err := r.commit(ctx, c)
	if err != nil {
		return event.Appended{}, err
	}
	root := a.root()
	root.Clear(now.version)
	root.snapshot = now.snapshot
	return done, nil
}

// change returns the uncommitted events of a as a change.
func (r *Repository[A]) change(a A) *change {
	root := a.root()
	c := &change{id: root.id, at: at{version: root.version, snapshot: root.snapshot}, events: root.uncommitted, metadata: root.metadata}
	if r.opts.SnapshotEvery > 0 {
		c.state = func() ([]byte, error) { return r.codec.snapshot(a) }
	}
	return c
}

// Update loads the aggregate, which must have events, calls f, which decides and raises events, and
// saves. After a conflict it does all of that again with the new state, up to [Options.Retries]
// times. So f may be called several times: it must have no other effect than on the aggregate, and
// must not keep it. An error of f ends Update, and nothing is written.
func (r *Repository[A]) Update(ctx context.Context, id string, f func(A) error) (event.Appended, error) {
	return r.update(ctx, id, false, f)
}

// UpdateOrNew is Update, but calls f with an aggregate without events if the stream has none.
func (r *Repository[A]) UpdateOrNew(ctx context.Context, id string, f func(A) error) (event.Appended, error) {
	return r.update(ctx, id, true, f)
}

// update is UpdateOrNew if orNew is true, else Update.
func (r *Repository[A]) update(ctx context.Context, id string, orNew bool, f func(A) error) (event.Appended, error) {
	events := false // whether the aggregate that was loaded last has events
	return decide(ctx, &r.streams, &r.cache, decision[A]{
		id: id,
		load: func() (a A, err error) {
			if a, events, err = r.load(ctx, id, Point{}); orNew {
				return a, err
			}
			return r.found(a, events, err)
		},
		keep: func(done event.Appended) bool { return events || done.First != 0 },
		save: func(a A) (event.Appended, error) {
			if err := f(a); err != nil {
				return event.Appended{}, &decisionError{err}
			}
			done, err := r.Save(ctx, a)
			a.root().metadata = event.Metadata{} // the cached aggregate is used by calls with other contexts
			return done, err
		},
	})
}

// UpdateTo is [Repository.Update] as part of b: it loads, calls f once, and appends the events on
// condition that the stream is still at the version that was loaded. If f raised nothing it adds
// that condition alone. It returns the version of the aggregate after the commit.
//
// UpdateTo does not try again: after a conflict of the commit the caller builds a new batch. A
// batch takes one decision for each aggregate; a second is Invalid. An error of the load or of f
// leaves b as it was. Any other error, for example of an event or a snapshot that cannot be encoded,
// also fails b: Commit returns it too.
func (r *Repository[A]) UpdateTo(ctx context.Context, b *mainstem.Batch, id string, f func(A) error) (mainstem.Version, error) {
	return r.updateTo(ctx, b, id, r.Load, f)
}

// UpdateOrNewTo is UpdateTo, but calls f with an aggregate without events if the stream has none.
func (r *Repository[A]) UpdateOrNewTo(ctx context.Context, b *mainstem.Batch, id string, f func(A) error) (mainstem.Version, error) {
	return r.updateTo(ctx, b, id, r.LoadOrNew, f)
}

func (r *Repository[A]) updateTo(ctx context.Context, b *mainstem.Batch, id string, load func(context.Context, string) (A, error), f func(A) error) (mainstem.Version, error) {
	if err := r.decideIn(b, r.stream(id)); err != nil {
		return 0, err
	}
	a, err := load(ctx, id)
	if err != nil {
		return 0, err
	}
	if err := f(a); err != nil {
		return 0, err
	}
	c := r.change(a)
	if len(c.events) == 0 {
		r.store.ExpectTo(b, r.stream(id), event.AtVersion(c.at.version))
		return c.at.version, nil
	}
	c.metadata = c.metadata.Or(event.MetadataFrom(ctx))
	if _, err := r.addTo(ctx, b, c); err != nil {
		return 0, err
	}
	return c.at.version + mainstem.Version(len(c.events)), nil
}

// Result returns the versions and positions of the events that b appended to the aggregate, given
// the receipt of its commit; see [event.Store.Result].
func (r *Repository[A]) Result(b *mainstem.Batch, receipt mainstem.Receipt, id string) (event.Appended, bool) {
	return r.store.Result(b, receipt, r.stream(id))
}
