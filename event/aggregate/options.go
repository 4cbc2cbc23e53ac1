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

// DefaultRetries is how often a decision is repeated after a conflict, unless [Options.Retries]
// says otherwise.
const DefaultRetries = 3

// Options tune a [Repository] or [Deciders]. Nil and zero fields mean the defaults.
type Options struct {
	// SnapshotEvery is the number of events after which a new snapshot of a state is written, in
	// the commit that reaches the number. Default 0: no snapshots are written, and none are read.
	SnapshotEvery int
	// SnapshotVersion is the version of the snapshots' format. Increase it when the state changes
	// in a way that the codec cannot decode, or decodes wrongly: a new field is zero in the state of
	// an old snapshot. Snapshots of another version are ignored.
	SnapshotVersion int
	// SnapshotCodec encodes snapshots. Default codec.JSON. An aggregate that implements
	// [Snapshotter] encodes itself. Snapshots of a codec with another name are ignored.
	SnapshotCodec codec.Codec
	// Retries is how often Update and Handle repeat a decision after a conflict. Default
	// [DefaultRetries]; -1 means never.
	Retries int
	// Strict makes loading fail on events of unregistered types even if the [event.Types] is
	// lenient.
	Strict bool
	// Cache is how many states Update and Handle keep in memory for later calls; the least recently
	// used are evicted. A cached state is saved only if nothing was appended since, because each
	// save expects its version. Default 0: none.
	Cache int
	// Durability is that of the commits of Save, Update and Handle. Default: the log's.
	Durability mainstem.Durability
	// Inline appends in place of the store, so that every save also writes the rows of the inline
	// projections. Its Store must be the store of the repository. Default: the store appends, which
	// fails with [*event.InlineError] if the store has inline projections.
	Inline Inline
}

// Inline is a store whose appends include inline projections: an InlineStore of package projection.
type Inline interface {
	// Store returns the store that the events are in.
	Store() *event.Store
	// AppendTo adds events, and the writes of the projections for them, to b.
	AppendTo(ctx context.Context, b *mainstem.Batch, stream string, expected event.Expected, events []event.Event) error
	// Again reports whether an append to stream that failed with err may succeed if it is built
	// again although the stream itself is unchanged: a row that a projection read has changed. It
	// pauses before it returns true. try counts from 1.
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

// Point is a point in the past of a stream: a version, a position or a time. The zero Point is
// none.
type Point struct {
	version  mainstem.Version
	position mainstem.Position
	time     time.Time
}

// AtVersion is the point after the event of version v, or after the newest event if there is no
// such version yet.
func AtVersion(v mainstem.Version) Point { return Point{version: v} }

// AtPosition is the point after the commit at position p of the log.
func AtPosition(p mainstem.Position) Point { return Point{position: p} }

// AtTime is the point after the last commit at time t or before, by the engine's clock.
func AtTime(t time.Time) Point { return Point{time: t} }

func (p Point) check() error {
	if p == (Point{}) {
		return mainstem.Refusef(mainstem.KindInvalid, "aggregate", "load at: the point is zero: make it with AtVersion, AtPosition or AtTime from a version, position or time above zero")
	}
	return nil
}

// streams is the common part of [Repository] and [Deciders]: the streams of one category.
type streams struct {
	store    *event.Store
	types    *event.Types
	category string
	opts     Options // with the defaults filled in; Retries 0 means never
	snapshot string  // [event.Snapshot.Type] of its snapshots, category@version/codec
}

// openStreams checks the arguments and fills in the defaults.
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
