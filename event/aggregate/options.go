package aggregate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/event"
)

// DefaultRetries is how often a decision is made anew after a conflict, unless
// [Options.Retries] says otherwise.
const DefaultRetries = 3

// Options tune a [Repository] or [Deciders]. Nil and zero fields mean the defaults.
type Options struct {
	// SnapshotEvery is how many events lie between two snapshots of a state. The snapshot is
	// in the commit that reaches the number. Default 0: none are written, and none are read.
	SnapshotEvery int
	// SnapshotVersion is the form of the snapshots: raise it when the state changes in a way
	// that the codec does not bridge. Snapshots of another form are ignored.
	SnapshotVersion int
	// SnapshotCodec encodes the state of snapshots. Default codec.JSON. An aggregate that
	// implements [Snapshotter] encodes itself.
	SnapshotCodec codec.Codec
	// Retries is how often Update and Handle decide anew after a conflict. Default
	// [DefaultRetries]; -1 means never.
	Retries int
	// Strict fails on events of unknown types also if the [event.Types] is lenient.
	Strict bool
	// Cache is how many states Update and Handle keep in memory for the next call, the
	// least recently used go first. A state is used only if nothing was appended since. Default 0.
	Cache int
	// Durability of what is saved. Default: the log's.
	Durability mainstem.Durability
	// Inline appends in place of the store, which must be its own: a store with inline projections,
	// which are then in the commit of every save. Default: the store appends, and refuses to if it has any.
	Inline Inline
}

// Inline is a store whose appends include projections: an InlineStore of package projection.
type Inline interface {
	// Store returns the store that the events are in.
	Store() *event.Store
	// AppendTo adds events, and what projections write about them, to b.
	AppendTo(ctx context.Context, b *mainstem.Batch, stream string, expected event.Expected, events []event.Event) error
	// Again reports, after a pause, whether an append to stream that failed with err may succeed when it is built
	// anew, though nothing has changed in the stream. The first try is 1.
	Again(ctx context.Context, stream string, err error, try int) bool
}

// Validate reports every field out of range.
func (o *Options) Validate() error {
	if o == nil {
		return nil
	}
	var wrong []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	check(o.SnapshotEvery >= 0, "SnapshotEvery is %d: want 0 (none) or more", o.SnapshotEvery)
	check(o.SnapshotVersion >= 0, "SnapshotVersion is %d: want 0 or more", o.SnapshotVersion)
	check(o.Retries >= -1, "Retries is %d: want -1 (never), 0 (default %d) or more", o.Retries, DefaultRetries)
	check(o.Cache >= 0, "Cache is %d: want 0 (none) or more", o.Cache)
	if len(wrong) == 0 {
		return nil
	}
	return mainstem.Refusef(mainstem.KindInvalid, "aggregate", "options: %w", errors.Join(wrong...))
}

// Point is a moment in the past of a stream.
type Point struct {
	version  mainstem.Version
	position mainstem.Position
	time     time.Time
}

// AtVersion is the moment after the event of version v.
func AtVersion(v mainstem.Version) Point { return Point{version: v} }

// AtPosition is the moment after the commit at position p of the log.
func AtPosition(p mainstem.Position) Point { return Point{position: p} }

// AtTime is the moment t, by the engine's clock: what was committed at t or before.
func AtTime(t time.Time) Point { return Point{time: t} }

func (p Point) check() error {
	if p == (Point{}) {
		return mainstem.Refusef(mainstem.KindInvalid, "aggregate", "load at: the point is zero: make it with AtVersion, AtPosition or AtTime from a version, position or time above zero")
	}
	return nil
}

// streams is what repositories and deciders have in common: the streams of one category.
type streams struct {
	store    *event.Store
	types    *event.Types
	category string
	opts     Options
	snapshot string // type of the snapshots
}

func openStreams(store *event.Store, types *event.Types, category string, opts *Options) (streams, error) {
	switch {
	case store == nil:
		return streams{}, mainstem.Refusef(mainstem.KindInvalid, "aggregate", "category %q: the store is nil", category)
	case types == nil:
		return streams{}, mainstem.Refusef(mainstem.KindInvalid, "aggregate", "category %q: the types are nil", category)
	case category == "" || strings.Contains(category, "-"):
		return streams{}, mainstem.Refusef(mainstem.KindInvalid, "aggregate", "category %.40q: want a name without a hyphen, which separates it from the ID", category)
	}
	if err := opts.Validate(); err != nil {
		return streams{}, err
	}
	if opts != nil && opts.Inline != nil && (opts.Inline.Store().Log() != store.Log() || opts.Inline.Store().Name() != store.Name()) {
		return streams{}, mainstem.Refusef(mainstem.KindInvalid, "aggregate", "category %q: Options.Inline is of the store %s, and the repository of %s, or of another log", category, opts.Inline.Store().Name(), store.Name())
	}
	s := streams{store: store, types: types, category: category}
	if opts != nil {
		s.opts = *opts
	}
	switch s.opts.Retries {
	case 0:
		s.opts.Retries = DefaultRetries
	case -1:
		s.opts.Retries = 0
	}
	if s.opts.SnapshotCodec == nil {
		s.opts.SnapshotCodec = codec.JSON
	}
	s.snapshot = fmt.Sprintf("%s@%d/%s", category, s.opts.SnapshotVersion, s.opts.SnapshotCodec.Name())
	if len(s.snapshot) > event.MaxType {
		return streams{}, mainstem.Refusef(mainstem.KindInvalid, "aggregate", "category %.40q has %d bytes: with snapshots the limit is about %d", category, len(category), event.MaxType-40)
	}
	return s, event.ValidateStream(s.stream("1"))
}

// stream returns the name of the stream of id.
func (s *streams) stream(id string) string { return s.category + "-" + id }
