package kv

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Point is a moment in the past; see [Bucket.At].
type Point struct {
	position mainstem.Position
	time     time.Time
}

// AtPosition is the moment after the commit whose last position is p, such as [mainstem.Receipt].Last.
func AtPosition(p mainstem.Position) Point { return Point{position: p} }

// AtTime is the moment t by the engine's clock: everything committed at t or before.
func AtTime(t time.Time) Point { return Point{time: t} }

// String returns "position 42" or the time.
func (p Point) String() string {
	if p.time.IsZero() {
		return fmt.Sprintf("position %d", p.position)
	}
	return p.time.UTC().Format(time.RFC3339Nano)
}

// has reports whether r was already written at p.
func (p Point) has(r *mainstem.Record) bool {
	if p.time.IsZero() {
		return r.Position <= p.position
	}
	return !r.Time.After(p.time)
}

// over reports whether the value r had expired at p. A stored value has not expired at present, but
// p may lie in the future.
func (p Point) over(r *mainstem.Record) bool {
	return !p.time.IsZero() && !r.Expires.IsZero() && !r.Expires.After(p.time)
}

// Past is a table as it was at a moment in the past. It holds no resources and is safe for
// concurrent use.
type Past[T any] struct {
	b *Bucket[T]
	p Point
}

// At returns the table as it was at p, as far as the table keeps its history; see
// [Options.History]. Revisions that were removed since, by the limit on history, Purge, MaxAge or
// their time to live, are missing. A read that may be affected returns a [*HistoryError] and never
// an older value in place of the missing one.
//
// One case is not detected: a value that was the first of its key, or was written after a deletion,
// and has expired is missed until the engine has removed it, which takes some seconds. In a table
// with NoFeed the removal leaves no trace, so it is missed after that too.
func (b *Bucket[T]) At(p Point) *Past[T] { return &Past[T]{b, p} }

// At is [Bucket.At].
func (x *Indexed[T]) At(p Point) *Past[T] { return x.plain.At(p) }

// HistoryError reports that a table no longer holds its state at a moment in the past. It is
// NotFound.
type HistoryError struct {
	Table  string            // "database/table"
	Key    string            // "" if the error is about all keys that have no record any more
	At     Point             // the moment that was asked for
	Begins mainstem.Position // position of the oldest record of Key from which on the history is complete; 0 if that is not known
	Time   time.Time         // time of that record, or the time before which removed keys are forgotten; zero if that is not known
}

// Error says since when the history is complete.
func (e *HistoryError) Error() string {
	switch {
	case e.Key == "" && e.Time.IsZero():
		return fmt.Sprintf("table %s at %s: what MaxBytes has removed is forgotten", e.Table, e.At)
	case e.Key == "":
		return fmt.Sprintf("table %s at %s: history begins at %s: keys removed before that are forgotten", e.Table, e.At, e.Time.UTC().Format(time.RFC3339Nano))
	case e.Begins == 0:
		return fmt.Sprintf("table %s: key %.64q at %s: its newest revision has expired and is not held", e.Table, e.Key, e.At)
	}
	return fmt.Sprintf("table %s: key %.64q at %s: history begins at position %d, %s", e.Table, e.Key, e.At, e.Begins, e.Time.UTC().Format(time.RFC3339Nano))
}

// Unwrap makes it an error of kind NotFound.
func (e *HistoryError) Unwrap() error {
	return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "get at"}
}

func (a *Past[T]) validate() error {
	if a.p.time.IsZero() && a.p.position == 0 {
		return mainstem.Errorf(mainstem.KindInvalid, "get at", "the point is zero: make it with AtPosition or AtTime from a position or time above zero")
	}
	return nil
}

// Get returns the entry that key had. NotFound means that the key had no value then, or, as a
// [*HistoryError], that its history does not reach back so far. For a key without any record, that
// is so at a moment from before the table's removed keys were forgotten; see [Past.List].
func (a *Past[T]) Get(ctx context.Context, key string) (Entry[T], error) {
	if err := errors.Join(a.validate(), validateKey("get at", a.b.space, key)); err != nil {
		return Entry[T]{}, err
	}
	newest, err := a.b.log.Get(ctx, a.b.space, []byte(key))
	live := err == nil
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		return Entry[T]{}, err
	}
	if !live || !a.p.has(&newest) {
		if newest, live, err = a.find(ctx, a.b.log, key, live); err != nil {
			return Entry[T]{}, err
		}
	}
	if !live || a.p.over(&newest) {
		return Entry[T]{}, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "get at", Space: a.b.space, Key: []byte(key)}
	}
	return a.b.entry("get at", key, &newest, opOf(&newest), owned)
}

// find returns the newest record of key at the moment, and whether it is a value. live says whether
// the key has a value now.
//
// Versions have no gaps. So if the version that follows a record is missing, a record was removed,
// and it may have been the key's record at the moment.
func (a *Past[T]) find(ctx context.Context, from mainstem.Reader, key string, live bool) (found mainstem.Record, value bool, err error) {
	var later mainstem.Record // the record after it; zero if there is none
	for r, err := range from.Read(ctx, a.b.space, []byte(key), mainstem.Versions{Reverse: true}) {
		if errors.Is(err, mainstem.ErrNotFound) {
			return found, false, nil
		}
		if err != nil {
			return found, false, err
		}
		if !a.p.has(&r) {
			later = r
			later.Key, later.Value, later.Headers = nil, nil, nil // the bytes are lent
			continue
		}
		switch {
		case later.Version != 0 && later.First() != r.Version+1:
			return found, false, a.gone(key, &later)
		case later.Version == 0 && r.Live() && !live:
			return found, false, a.gone(key, &later) // a newer one has expired, and has no tombstone yet
		}
		return r.Clone(), r.Live(), nil
	}
	switch {
	case later.Version == 0:
		return found, false, a.absent(ctx)
	case later.First() > 1:
		return found, false, a.gone(key, &later)
	}
	return found, false, nil
}

func (a *Past[T]) gone(key string, later *mainstem.Record) error {
	return &HistoryError{Table: a.b.Name(), Key: key, At: a.p, Begins: later.Position, Time: later.Time}
}

// List yields the entries that q selects (nil: all) as they were, in the order of their keys. It
// walks all keys that the table has, deleted ones too. For a key whose history does not reach back
// so far it yields an entry with only the Key and a [*HistoryError]; the loop may continue, as
// after a value that cannot be decoded. A table that removes the tombstones of deleted keys (see
// [Options.TombstoneAge]) can be listed only as of moments within that age, which a position
// shows by the times of records in the feed of the log that are not after it. A table with MaxAge
// or MaxBytes is Unsupported.
func (a *Past[T]) List(ctx context.Context, q *Query) iter.Seq2[Entry[T], error] {
	return func(yield func(Entry[T], error) bool) {
		if q == nil {
			q = &Query{}
		}
		if err := errors.Join(a.validate(), q.Validate()); err != nil {
			yield(Entry[T]{}, err)
			return
		}
		if err := a.list(ctx, q, yield); err != nil {
			yield(Entry[T]{}, err)
		}
	}
}

func (a *Past[T]) list(ctx context.Context, q *Query, yield func(Entry[T], error) bool) error {
	// A snapshot keeps history from being removed during the walk.
	var from mainstem.Reader = a.b.log
	if s, ok := a.b.log.(mainstem.Snapshotter); ok {
		snapshot, err := s.Snapshot(ctx)
		if err == nil {
			defer snapshot.Close()
			from = snapshot
		} else if !errors.Is(err, mainstem.ErrUnsupported) {
			return err
		}
	}
	if held, err := a.complete(ctx); err != nil || !held {
		return err
	}
	r := q.scan()
	r.Tombstones, r.KeysOnly, r.Limit = true, false, lookupChunk
	skip, left := q.Offset, q.Limit
	for {
		var newest []mainstem.Record
		for rec, err := range from.Scan(ctx, a.b.space, r) {
			if errors.Is(err, mainstem.ErrNotFound) {
				break
			}
			if err != nil {
				return err
			}
			newest = append(newest, rec.Clone())
		}
		for i := range newest {
			if r.Reverse {
				r.End = newest[i].Key
			} else {
				r.Start = append(slices.Clone(newest[i].Key), 0)
			}
			if !strings.HasSuffix(string(newest[i].Key), q.Suffix) {
				continue
			}
			e, live, err := a.listed(ctx, from, &newest[i], q)
			var gone *HistoryError
			if err != nil && !errors.As(err, &gone) && !errors.Is(err, mainstem.ErrCorrupt) {
				return err
			}
			if !live && gone == nil {
				continue
			}
			if skip--; skip >= 0 {
				continue
			}
			if left--; !yield(e, err) || left == 0 {
				return nil
			}
		}
		if len(newest) < lookupChunk {
			return nil
		}
	}
}

// listed returns the entry that a key had; newest is the key's newest record.
func (a *Past[T]) listed(ctx context.Context, from mainstem.Reader, newest *mainstem.Record, q *Query) (e Entry[T], live bool, err error) {
	key, r := string(newest.Key), *newest
	live = r.Live()
	if !a.p.has(newest) {
		if r, live, err = a.find(ctx, from, key, true); err != nil {
			return Entry[T]{Key: key}, false, err
		}
	}
	if !live || a.p.over(&r) {
		return e, false, nil
	}
	l := owned
	if q.KeysOnly {
		l = metaOnly
	}
	e, err = a.b.entry("list at", key, &r, opOf(&r), l)
	return e, true, err
}

// complete returns an error unless the table still has a record of every key that existed at the
// moment. The result is false if there is no table.
func (a *Past[T]) complete(ctx context.Context) (bool, error) {
	info, err := a.b.log.Space(ctx, a.b.space)
	if err != nil {
		if errors.Is(err, mainstem.ErrNotFound) {
			err = nil
		}
		return false, err
	}
	if info.Policy.MaxAge > 0 || info.Policy.MaxBytes > 0 {
		return false, mainstem.Errorf(mainstem.KindUnsupported, "list at", "table %s has MaxAge or MaxBytes: what these remove leaves no trace", a.b.Name())
	}
	return true, a.remembered(ctx, &info)
}

// absent returns an error if a key that has no record may have had one at the moment.
func (a *Past[T]) absent(ctx context.Context) error {
	info, err := a.b.log.Space(ctx, a.b.space)
	switch {
	case errors.Is(err, mainstem.ErrNotFound):
		return nil
	case err != nil:
		return err
	case info.Policy.MaxBytes > 0:
		return &HistoryError{Table: a.b.Name(), At: a.p}
	case info.Policy.MaxAge > 0:
		now, err := a.now(ctx)
		if err != nil {
			return err
		}
		// The record may be older than the moment by any time.
		if removed := now.Add(-info.Policy.MaxAge); !info.Created.After(removed) {
			return &HistoryError{Table: a.b.Name(), At: a.p, Time: removed}
		}
	}
	return a.remembered(ctx, &info)
}

// remembered returns an error unless the table still has the tombstones of all keys that were
// deleted after the moment.
func (a *Past[T]) remembered(ctx context.Context, info *mainstem.SpaceInfo) error {
	p := info.Policy
	if p.History == 0 || p.TombstoneAge < 0 {
		return nil
	}
	age := p.TombstoneAge
	if age == 0 {
		age = mainstem.DefaultTombstoneAge
	}
	now, err := a.now(ctx)
	if err != nil {
		return err
	}
	forgotten := now.Add(-age)
	if info.Created.After(forgotten) {
		return nil
	}
	since, err := a.since(ctx, info.Last)
	if err == nil && !since.After(forgotten) {
		err = &HistoryError{Table: a.b.Name(), At: a.p, Time: forgotten}
	}
	return err
}

// now returns the time of the engine's clock, or that of this machine if the engine has none.
func (a *Past[T]) now(ctx context.Context) (time.Time, error) {
	if k, ok := a.b.log.(mainstem.ClockKeeper); ok {
		state, err := k.Clock(ctx)
		if err == nil {
			return state.Now, nil
		}
		if !errors.Is(err, mainstem.ErrUnsupported) {
			return time.Time{}, err
		}
	}
	return time.Now(), nil
}

// since returns a time with this property: nothing was written to the table after the moment and
// before it. last is the table's newest position.
//
// Times never decrease with positions, so this holds for the time of every record up to the moment.
// The record at the moment may be gone, or be missing from the feed, so since takes one of the next
// older ones. The records after the moment do not help: those of the table may be gone.
func (a *Past[T]) since(ctx context.Context, last mainstem.Position) (time.Time, error) {
	if !a.p.time.IsZero() {
		return a.p.time, nil
	}
	p := a.p.position
	if last <= p {
		return farFuture, nil // nothing was written
	}
	for back := mainstem.Position(1); ; back *= 2 {
		after := p - min(back, p)
		for r, err := range a.b.log.Feed(ctx, mainstem.Filter{After: after, Limit: 1}) {
			if err != nil || r.Position <= p {
				return r.Time, err
			}
		}
		if after == 0 {
			return time.Time{}, nil
		}
	}
}

var farFuture = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
