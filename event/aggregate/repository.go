package aggregate

import (
	"context"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// Repository loads and saves the aggregates of one category: the aggregate with ID 42 of
// category order is the stream order-42. It has no state but the cache of [Options.Cache], and
// is safe for concurrent use; an aggregate belongs to one goroutine.
type Repository[A Aggregate] struct {
	streams
	make  func(id string) A
	codec snapshotCodec
	cache cache[A]
}

// Open returns the repository of the aggregates of a category in store. make returns a new
// aggregate without events, never nil. Nothing is read or written.
//
// With [Options.SnapshotEvery] the error is also Invalid if a snapshot would lose part of the
// state: a field of A that the codec cannot see, unless A implements [Snapshotter].
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
		if err := checkSnapshots[A](); err != nil {
			return nil, mainstem.Refusef(mainstem.KindInvalid, "aggregate", "category %s: %w", category, err)
		}
		if _, err := r.codec.snapshot(r.New("")); err != nil {
			return nil, mainstem.Refusef(mainstem.KindInvalid, "aggregate", "category %s: snapshot of an aggregate without events: %w", category, err)
		}
	}
	return r, nil
}

// New returns an aggregate without events, which nothing was read for: saving it expects
// that its stream has none.
func (r *Repository[A]) New(id string) A {
	a := r.make(id)
	*a.root() = Root{id: id}
	return a
}

// Load returns the aggregate as its stream says, or NotFound if it has no events. The
// errors are those of [event.Store.LoadState] and [event.Types.Decode], those of Apply, and [*GapError].
func (r *Repository[A]) Load(ctx context.Context, id string) (A, error) {
	return r.found(r.load(ctx, id, Point{}))
}

// LoadOrNew is Load that returns an aggregate without events if there are none.
func (r *Repository[A]) LoadOrNew(ctx context.Context, id string) (A, error) {
	a, _, err := r.load(ctx, id, Point{})
	return a, err
}

// LoadAt is Load as of a moment of the past, as far as the events are still held: NotFound if
// the stream had none then. Saving it conflicts if events came later.
func (r *Repository[A]) LoadAt(ctx context.Context, id string, p Point) (A, error) {
	if err := p.check(); err != nil {
		var none A
		return none, err
	}
	return r.found(r.load(ctx, id, p))
}

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

// SaveTo appends the uncommitted events of a as part of b, on condition that the stream is
// at the version of a, and a snapshot if one is due. Without uncommitted events it adds nothing. After the
// commit, end it with [Root.Clear]. It reads what the projections of [Options.Inline] read, else nothing. An error, also that
// of events that cannot be encoded, is returned, and by Commit, too.
func (r *Repository[A]) SaveTo(ctx context.Context, b *mainstem.Batch, a A) error {
	c := r.change(a)
	if len(c.events) == 0 {
		return nil
	}
	c.metadata = c.metadata.Or(event.MetadataFrom(ctx))
	_, err := r.addTo(ctx, b, c)
	if err != nil {
		b.Fail(err)
	}
	return err
}

// Save appends the uncommitted events of a and returns what became of them when they are as
// durable as [Options.Durability] says. They are appended on condition that the stream is at the
// version of a, no events if that is 0: otherwise the error is an [*event.ConflictError], and a is
// as before. If the outcome of the commit is unknown, the same commit is repeated until it is known
// or ctx ends; only then is the outcome Unknown. Without uncommitted events nothing is written.
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

func (r *Repository[A]) change(a A) *change {
	root := a.root()
	c := &change{id: root.id, at: at{version: root.version, snapshot: root.snapshot}, events: root.uncommitted, metadata: root.metadata}
	if r.opts.SnapshotEvery > 0 {
		c.state = func() ([]byte, error) { return r.codec.snapshot(a) }
	}
	return c
}

// Update loads the aggregate, which must have events, calls f, which decides and raises, and
// saves. After a conflict it does all of that again with what the stream holds then, up to
// [Options.Retries] times. So f may be called several times: it should do nothing but
// look at the aggregate and raise events, and must not keep it. An error of f ends Update, and nothing is written.
func (r *Repository[A]) Update(ctx context.Context, id string, f func(A) error) (event.Appended, error) {
	return r.update(ctx, id, r.Load, f)
}

// UpdateOrNew is Update that begins with an aggregate without events if there are none.
func (r *Repository[A]) UpdateOrNew(ctx context.Context, id string, f func(A) error) (event.Appended, error) {
	return r.update(ctx, id, r.LoadOrNew, f)
}

func (r *Repository[A]) update(ctx context.Context, id string, load func(context.Context, string) (A, error), f func(A) error) (event.Appended, error) {
	return decide(ctx, &r.streams, &r.cache, decision[A]{
		id:   id,
		load: func() (A, error) { return load(ctx, id) },
		save: func(a A) (event.Appended, error) {
			if err := f(a); err != nil {
				return event.Appended{}, &decisionError{err}
			}
			return r.Save(ctx, a)
		},
	})
}

// UpdateTo is [Repository.Update] as part of b: it loads, calls f once, and adds the events with
// the condition that the stream is still at the version that was read, also if f raised nothing.
// It returns the version that the aggregate has after the commit. After a conflict of the
// commit, b is to be built anew. A batch takes one decision on an aggregate: a second is Invalid.
func (r *Repository[A]) UpdateTo(ctx context.Context, b *mainstem.Batch, id string, f func(A) error) (mainstem.Version, error) {
	return r.updateTo(ctx, b, id, r.Load, f)
}

// UpdateOrNewTo is UpdateTo that begins with an aggregate without events if there are none.
func (r *Repository[A]) UpdateOrNewTo(ctx context.Context, b *mainstem.Batch, id string, f func(A) error) (mainstem.Version, error) {
	return r.updateTo(ctx, b, id, r.LoadOrNew, f)
}

func (r *Repository[A]) updateTo(ctx context.Context, b *mainstem.Batch, id string, load func(context.Context, string) (A, error), f func(A) error) (mainstem.Version, error) {
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

// Result says what the events became that b appended to the aggregate, given the receipt of its
// commit; see [event.Store.Result].
func (r *Repository[A]) Result(b *mainstem.Batch, receipt mainstem.Receipt, id string) (event.Appended, bool) {
	return r.store.Result(b, receipt, r.stream(id))
}
