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

// Point is a moment of the past: see [Bucket.At].
type Point struct {
	position mainstem.Position
	time     time.Time
}

// AtPosition is the moment after the commit whose last position is p, such as [mainstem.Receipt].Last.
func AtPosition(p mainstem.Position) Point { return Point{position: p} }

// AtTime is the moment t, by the engine's clock: what was committed at t or before.
func AtTime(t time.Time) Point { return Point{time: t} }

// String returns "position 42" or the time.
func (p Point) String() string {
	if p.time.IsZero() {
		return fmt.Sprintf("position %d", p.position)
	}
	return p.time.UTC().Format(time.RFC3339Nano)
}

// has reports whether r had been written at p.
func (p Point) has(r *mainstem.Record) bool {
	if p.time.IsZero() {
		return r.Position <= p.position
	}
	return !r.Time.After(p.time)
}

// over reports whether the value r had expired at p. What is held has not expired now; p may be to come.
func (p Point) over(r *mainstem.Record) bool {
	return !p.time.IsZero() && !r.Expires.IsZero() && !r.Expires.After(p.time)
}

// Past is a table as it was at a moment of the past. It holds nothing, and is safe for concurrent use.
type Past[T any] struct {
	b *Bucket[T]
	p Point
}

// At returns the table as it was at p, as far as it keeps its history: see [Options.History]. A revision that was
// removed since, since the table keeps only so many, or by Purge, MaxAge or its time to live, is not there any more. Where one may
// be missing, the read says so by a [*HistoryError], and returns no older value in its place. For as long
// as the engine has not swept up a value that expired, which is some seconds, a value that was written after a
// deletion and has expired is missed.
func (b *Bucket[T]) At(p Point) *Past[T] { return &Past[T]{b, p} }

// At is [Bucket.At].
func (x *Indexed[T]) At(p Point) *Past[T] { return x.plain.At(p) }

// HistoryError says that a table does not keep what it held at a moment of the past. It is NotFound.
type HistoryError struct {
	Table  string            // "database/table"
	Key    string            // "" if it is about all that were deleted
	At     Point             // that was asked for
	Begins mainstem.Position // of the oldest record of Key from which on nothing is missing; 0 if that is not known
	Time   time.Time         // its time, or that before which deletions are forgotten
}

// Error says from when on the history is held.
func (e *HistoryError) Error() string {
	switch {
	case e.Key == "":
		return fmt.Sprintf("table %s at %s: history begins at %s: before that, deleted keys are forgotten", e.Table, e.At, e.Time.UTC().Format(time.RFC3339Nano))
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

// Get returns the entry that key had. NotFound says that it had no value then; as a [*HistoryError], that this is not
// known any more.
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

// find returns the newest record of key at the moment, and whether that is a value. live says whether the key has one now.
//
// Versions have no holes. So where the version after a record is missing, a record was removed, and the key may have held
// it then.
func (a *Past[T]) find(ctx context.Context, from mainstem.Reader, key string, live bool) (found mainstem.Record, value bool, err error) {
	var later mainstem.Record // the one after it; the zero Record: there is none
	for r, err := range from.Read(ctx, a.b.space, []byte(key), mainstem.Versions{Reverse: true}) {
		if errors.Is(err, mainstem.ErrNotFound) {
			return found, false, nil
		}
		if err != nil {
			return found, false, err
		}
		if !a.p.has(&r) {
			later = r
			later.Key, later.Value, later.Headers = nil, nil, nil // they are lent
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
	if later.Version != 0 && later.First() > 1 {
		return found, false, a.gone(key, &later)
	}
	return found, false, nil
}

func (a *Past[T]) gone(key string, later *mainstem.Record) error {
	return &HistoryError{Table: a.b.Name(), Key: key, At: a.p, Begins: later.Position, Time: later.Time}
}

// List yields the entries that q selects (nil: all) as they were, in the order of their keys. It walks all keys that the
// table has, deleted ones too. A key whose value then is not known any more comes with a [*HistoryError] and nothing
// but the Key; the loop may go on, as it may after a value that cannot be decoded. A table that forgets deleted keys
// (see [Options.TombstoneAge]) can be listed for as long ago as it remembers them; one with MaxAge or MaxBytes is Unsupported.
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
	// A snapshot, so that no history is lost while it is walked.
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

// listed returns the entry that the key of newest, its newest record, had.
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

// complete returns an error unless the table still has a record of every key that it had; false if there is no table.
func (a *Past[T]) complete(ctx context.Context) (bool, error) {
	info, err := a.b.log.Space(ctx, a.b.space)
	if err != nil {
		if errors.Is(err, mainstem.ErrNotFound) {
			err = nil
		}
		return false, err
	}
	p := info.Policy
	if p.MaxAge > 0 || p.MaxBytes > 0 {
		return false, mainstem.Errorf(mainstem.KindUnsupported, "list at", "table %s has MaxAge or MaxBytes: what these remove leaves no trace", a.b.Name())
	}
	if p.History == 0 || p.TombstoneAge < 0 {
		return true, nil
	}
	age := p.TombstoneAge
	if age == 0 {
		age = mainstem.DefaultTombstoneAge
	}
	now, err := a.now(ctx)
	if err != nil {
		return false, err
	}
	forgotten := now.Add(-age)
	since, err := a.since(ctx, info.Last)
	if err != nil {
		return false, err
	}
	if !since.After(forgotten) {
		return false, &HistoryError{Table: a.b.Name(), At: a.p, Time: forgotten}
	}
	return true, nil
}

// now returns what the engine's clock shows, or that of this machine.
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

// since returns a time before which nothing was written to the table after the moment. last is the table's newest position.
func (a *Past[T]) since(ctx context.Context, last mainstem.Position) (time.Time, error) {
	if !a.p.time.IsZero() {
		return a.p.time, nil
	}
	if last <= a.p.position {
		return farFuture, nil // nothing was
	}
	for r, err := range a.b.log.Feed(ctx, mainstem.Filter{After: a.p.position, Limit: 1}) {
		return r.Time, err
	}
	return time.Time{}, nil // something was, and is forgotten
}

var farFuture = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
