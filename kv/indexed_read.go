package kv

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/mainstemdev/mainstem"
)

// IndexQuery selects entries by an index. The zero IndexQuery selects all entries of the index.
// Entries are in the order of their parts; entries with equal parts are in the order of their keys.
type IndexQuery struct {
	Prefix     []Part // only entries whose parts begin with these; the last may be a [TextPrefix]
	Start      []Part // only entries whose parts are equal to these, begin with them, or come after; nil means from the first
	AfterStart bool   // leave out entries whose parts are Start or begin with it
	End        []Part // only entries whose parts come before these; nil means to the last
	ThroughEnd bool   // also entries whose parts are End or begin with it
	Reverse    bool   // from the last to the first
	Limit      int    // at most that many entries; 0 means no limit
	After      string // a cursor: only entries after it; see [IndexReader.Page]
}

// IndexReader reads the values of a table by one of its indexes. It compares each entry of the
// index with its value as of the same moment, and leaves out entries that do not match.
type IndexReader[T any] struct {
	x    *Indexed[T]
	name string
}

// By returns a reader of the index called name. The name is checked when the index is read: an
// unknown index is NotFound, and one that is not built yet is Unavailable, with the progress of the
// build.
func (x *Indexed[T]) By(name string) *IndexReader[T] { return &IndexReader[T]{x, name} }

// Get returns the entry whose parts are exactly these, or NotFound. If the index is not unique, it
// returns the first such entry in the order of the keys.
func (i *IndexReader[T]) Get(ctx context.Context, parts ...Part) (Entry[T], error) {
	if err := validateParts("parts", parts, false); err != nil {
		return Entry[T]{}, err
	}
	r := mainstem.Range{Prefix: append(appendParts(nil, parts), tagEnd), Limit: 1}
	found, sure, err := i.direct(ctx, r)
	if err == nil && !sure {
		err = i.x.read(ctx, i.name, func(l *lookup[T]) error { return l.first(ctx, r, &found) })
	}
	if err == nil && !found.Live() {
		err = mainstem.Errorf(mainstem.KindNotFound, "get by "+i.name, "no value has %v", parts).At(i.x.plain.space, nil)
	}
	return found, err
}

// direct is Get without a snapshot, whose creation costs more than the read. The result is sure if
// the value has the parts of its entry, or if there is no entry, provided that the index did not
// change. Otherwise the value was written between the two reads, or the entry is left over.
func (i *IndexReader[T]) direct(ctx context.Context, r mainstem.Range) (found Entry[T], sure bool, err error) {
	l, err := i.x.lookup(ctx, i.x.plain.log, i.name)
	if err != nil {
		return found, true, ignoreNothing(err)
	}
	entries, err := l.some(ctx, r, 1)
	if err != nil {
		return found, true, err
	}
	values, err := l.values(ctx, entries)
	if err != nil {
		return found, true, err
	}
	if err := l.check(); err != nil {
		return found, err != errChanged, ignoreChanged(err)
	}
	if len(values) == 0 {
		return found, true, nil
	}
	return values[0], values[0].Live(), nil
}

// List yields the entries that q selects (nil: all) in the order of their parts. If the log offers
// snapshots, all entries are as of one moment; otherwise each chunk of a few hundred entries is. A
// value that cannot be decoded is Corrupt and ends the loop.
func (i *IndexReader[T]) List(ctx context.Context, q *IndexQuery) iter.Seq2[Entry[T], error] {
	return func(yield func(Entry[T], error) bool) {
		err := i.each(ctx, []*IndexQuery{q}, func(e Entry[T], _ []byte) bool { return yield(e, nil) })
		if err != nil {
			yield(Entry[T]{}, err)
		}
	}
}

// Page returns the entries that q selects (nil: all), at most q.Limit (default [DefaultPage]), and
// the cursor for the next page, to be set as q.After, or "" if there are no more.
func (i *IndexReader[T]) Page(ctx context.Context, q *IndexQuery) (entries []Entry[T], next string, err error) {
	one := IndexQuery{}
	if q != nil {
		one = *q
	}
	if one.Limit == 0 {
		one.Limit = DefaultPage
	}
	limit := one.Limit
	if limit > 0 && limit < math.MaxInt {
		one.Limit++ // one entry more shows whether there is a next page
	}
	more, last := false, ""
	err = i.each(ctx, []*IndexQuery{&one}, func(e Entry[T], entry []byte) bool {
		if more = len(entries) == limit; more {
			return false
		}
		entries, last = append(entries, e), base64.RawURLEncoding.EncodeToString(entry)
		return true
	})
	if err != nil || !more {
		last = ""
	}
	return entries, last, err
}

// Count returns the number of entries that q selects (nil: all). It walks the entries, and reads
// the values only of those entries that a build wrote and that may have outlived their values.
func (i *IndexReader[T]) Count(ctx context.Context, q *IndexQuery) (n int64, err error) {
	r, err := q.scan()
	if err != nil {
		return 0, err
	}
	err = i.x.read(ctx, i.name, func(l *lookup[T]) error {
		n = 0
		return l.count(ctx, r, q, &n)
	})
	return n, err
}

// ListAll yields the entries that the queries select, query by query, as [IndexReader.List] does.
// If the log offers snapshots, all are as of one moment. An entry that several queries select is
// yielded several times.
func (i *IndexReader[T]) ListAll(ctx context.Context, queries ...*IndexQuery) iter.Seq2[Entry[T], error] {
	return func(yield func(Entry[T], error) bool) {
		err := i.each(ctx, queries, func(e Entry[T], _ []byte) bool { return yield(e, nil) })
		if err != nil {
			yield(Entry[T]{}, err)
		}
	}
}

// each calls do for the entries that the queries select, with their keys in the index, until do
// returns false.
func (i *IndexReader[T]) each(ctx context.Context, queries []*IndexQuery, do func(Entry[T], []byte) bool) error {
	ranges, left := make([]mainstem.Range, len(queries)), make([]int, len(queries))
	for n, q := range queries {
		var err error
		if ranges[n], err = q.scan(); err != nil {
			return err
		}
		if q != nil {
			left[n] = q.Limit
		}
	}
	return i.x.read(ctx, i.name, func(l *lookup[T]) error {
		// ranges holds the ranges that are left: a read that is repeated continues after the last
		// entry yielded.
		for goOn := true; goOn && len(ranges) > 0; {
			err := l.walk(ctx, &ranges[0], func(e Entry[T], entry []byte) bool {
				left[0]--
				goOn = do(e, entry)
				return goOn && left[0] != 0
			})
			if err != nil {
				return err
			}
			ranges, left = ranges[1:], left[1:]
		}
		return nil
	})
}

// lookup is one read of an index.
type lookup[T any] struct {
	x      *Indexed[T]
	from   mainstem.Reader
	keep   *keeper[T]
	direct bool         // from is the log and not a snapshot
	check  func() error // reports whether the index is unchanged
}

// errChanged reports that the declaration changed while an index was read without a snapshot.
var errChanged = errors.New("the declaration has changed")

// read calls do with a lookup of the index, from a snapshot if the log offers them, else from the
// log. In the second case it calls do again if the declaration changes meanwhile, since the index
// may then have lost entries.
func (x *Indexed[T]) read(ctx context.Context, index string, do func(*lookup[T]) error) error {
	if s, ok := x.plain.log.(mainstem.Snapshotter); ok {
		snapshot, err := s.Snapshot(ctx)
		if err == nil {
			defer snapshot.Close()
			l, err := x.lookup(ctx, snapshot, index)
			if err != nil {
				return ignoreNothing(err)
			}
			l.direct, l.check = false, func() error { return nil }
			return do(l)
		}
		if !errors.Is(err, mainstem.ErrUnsupported) {
			return err
		}
	}
	for {
		l, err := x.lookup(ctx, x.plain.log, index)
		if err != nil {
			return ignoreNothing(err)
		}
		if err := do(l); err != errChanged {
			return err
		}
	}
}

// lookup returns a lookup of the index from r, if the index is ready.
func (x *Indexed[T]) lookup(ctx context.Context, r mainstem.Reader, index string) (*lookup[T], error) {
	d, err := x.load(ctx, r)
	if err != nil {
		return nil, err
	}
	own := x.own(index)
	at := slices.IndexFunc(d.keep, func(k keeper[T]) bool { return k.Name == index })
	if at < 0 {
		if own != nil {
			return nil, x.notDeclared(ctx, index)
		}
		return nil, mainstem.Errorf(mainstem.KindNotFound, "kv", "the table %s has no index %.80q", x.Name(), index)
	}
	k := &d.keep[at]
	switch {
	case own != nil && k.of == nil:
		return nil, x.foreignError(d, index)
	case k.State != IndexReady:
		p, _, err := x.plain.catalog.progress(ctx, r, k.space)
		if err != nil {
			return nil, err
		}
		return nil, mainstem.Errorf(mainstem.KindUnavailable, "kv", "index %s of table %s is being built: %d of about %d keys are done", index, x.Name(), p.Done, max(p.Done, p.Total)).
			WithHint("if nothing builds it, do: Indexed.Build, or mainstem kv index add")
	}
	l := &lookup[T]{x: x, from: r, keep: k, direct: true}
	l.check = func() error {
		_, version, err := x.plain.catalog.stored(ctx, r)
		if err == nil && version != d.version {
			err = errChanged
		}
		return err
	}
	return l, nil
}

func ignoreNothing(err error) error {
	if err == errNothing {
		return nil
	}
	return err
}

func ignoreChanged(err error) error {
	if err == errChanged {
		return nil
	}
	return err
}

// notDeclared returns why an index of this program is not declared in the log: the table has no
// value yet, or the index was never built.
func (x *Indexed[T]) notDeclared(ctx context.Context, index string) error {
	for _, err := range x.plain.log.Scan(ctx, x.plain.space, mainstem.Range{KeysOnly: true, Limit: 1}) {
		if err == nil {
			return mainstem.Errorf(mainstem.KindUnavailable, "kv", "index %s of table %s is not built", index, x.Name()).WithHint("call Indexed.Build when the program starts")
		}
		if !errors.Is(err, mainstem.ErrNotFound) {
			return err
		}
	}
	return errNothing
}

// errNothing reports that the table, and so the index, has no values.
var errNothing = errors.New("the table is empty")

// lookupChunk is the number of values that are read at a time.
const lookupChunk = 256

// walk calls do for the values of the entries in r, until do returns false. It moves the start of r
// past the entries that were handled.
func (l *lookup[T]) walk(ctx context.Context, r *mainstem.Range, do func(Entry[T], []byte) bool) error {
	for size := 16; ; size = min(2*size, lookupChunk) {
		entries, values, err := l.chunk(ctx, *r, size)
		if err != nil {
			return err
		}
		if err := l.check(); err != nil {
			return err
		}
		for i := range entries {
			if values[i].Live() && !do(values[i], entries[i].Key) {
				return nil
			}
			if r.Reverse {
				r.End = entries[i].Key
			} else {
				r.Start = append(slices.Clone(entries[i].Key), 0)
			}
		}
		if len(entries) < size {
			return nil
		}
	}
}

// readAgain bounds how often a chunk is read again without a snapshot.
const readAgain = 8

// chunk returns the first entries in r, with their values. Without a snapshot a value may change
// after its entry was read, and its new entry may be in a part of the index that was passed. So the
// chunk is then read again, and is as of the moment of the last read of its entries. An entry that
// differs from its value after all attempts is left over.
func (l *lookup[T]) chunk(ctx context.Context, r mainstem.Range, size int) (entries []mainstem.Record, values []Entry[T], err error) {
	for range readAgain {
		if entries, err = l.some(ctx, r, size); err != nil {
			return nil, nil, err
		}
		if values, err = l.values(ctx, entries); err != nil {
			return nil, nil, err
		}
		if !l.direct || !slices.ContainsFunc(values, func(e Entry[T]) bool { return !e.Live() }) {
			break
		}
	}
	return entries, values, nil
}

// first sets found to the first value in r, if there is one.
func (l *lookup[T]) first(ctx context.Context, r mainstem.Range, found *Entry[T]) error {
	return l.walk(ctx, &r, func(e Entry[T], _ []byte) bool { *found = e; return false })
}

func (l *lookup[T]) some(ctx context.Context, r mainstem.Range, size int) (entries []mainstem.Record, err error) {
	r.Limit = size
	for e, err := range l.from.Scan(ctx, l.keep.space, r) {
		if errors.Is(err, mainstem.ErrNotFound) {
			return entries, nil // no value has parts yet
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, e.Clone())
	}
	return entries, nil
}

// values returns the values of entries. If the value of an entry is gone or has other parts, the
// result for it is not live.
func (l *lookup[T]) values(ctx context.Context, entries []mainstem.Record) ([]Entry[T], error) {
	values := make([]Entry[T], len(entries))
	err := l.records(ctx, entries, func(i int, r *mainstem.Record) error {
		e, err := l.x.plain.entry("get by "+l.keep.Name, string(r.Key), r, opOf(r), lent)
		if err == nil && l.keep.isOf(&entries[i], &e.Value, r.Value) {
			values[i] = e
		}
		return err
	})
	return values, err
}

// right reports for each of entries whether its value has the parts of the entry.
func (l *lookup[T]) right(ctx context.Context, entries []mainstem.Record) ([]bool, error) {
	right := make([]bool, len(entries))
	err := l.records(ctx, entries, func(i int, r *mainstem.Record) error {
		parts, err := l.x.partsOf("check index", l.keep, r)
		right[i] = err == nil && l.keep.have(&entries[i], parts)
		return err
	})
	return right, err
}

// records calls do for the records of the values that entries refer to and that exist.
func (l *lookup[T]) records(ctx context.Context, entries []mainstem.Record, do func(i int, r *mainstem.Record) error) error {
	keys := make([][]byte, len(entries))
	for i := range entries {
		key, err := l.keep.keyOf(&entries[i])
		if err != nil {
			return err
		}
		keys[i] = key
	}
	i := 0
	for r, err := range l.from.GetMany(ctx, l.x.plain.space, keys) {
		if errors.Is(err, mainstem.ErrNotFound) {
			return nil // the table was dropped
		}
		if err == nil && r.Version != 0 {
			err = do(i, &r)
		}
		if err != nil {
			return err
		}
		i++
	}
	return nil
}

// keyOf returns the key of the value of an entry.
func (k *keeper[T]) keyOf(entry *mainstem.Record) ([]byte, error) {
	end, err := entryEnd(entry.Key)
	key := []byte(nil)
	if err == nil {
		if key = entry.Key[end+1:]; k.Unique {
			key = entry.Value
		}
		err = mainstem.ValidateKey(key)
	}
	if err != nil {
		return nil, mainstem.Errorf(mainstem.KindCorrupt, "kv index", "index %s: %w", k.Name, err).At(k.space, entry.Key)
	}
	return key, nil
}

// isOf reports whether a value has the parts of entry. If only other programs have the function of
// the index, the result is true.
func (k *keeper[T]) isOf(entry *mainstem.Record, value *T, stored []byte) bool {
	if k.of == nil {
		return true
	}
	return k.have(entry, k.of(value, stored))
}

// have reports whether entry is the entry of a value with these parts.
func (k *keeper[T]) have(entry *mainstem.Record, parts []Part) bool {
	if len(parts) == 0 {
		return false
	}
	code := append(appendParts(nil, parts), tagEnd)
	return bytes.HasPrefix(entry.Key, code) && (!k.Unique || len(code) == len(entry.Key))
}

// count adds the number of entries in r to n.
func (l *lookup[T]) count(ctx context.Context, r mainstem.Range, q *IndexQuery, n *int64) error {
	var late []mainstem.Record
	for e, err := range l.from.Scan(ctx, l.keep.space, r) {
		if errors.Is(err, mainstem.ErrNotFound) {
			break
		}
		if err != nil {
			return err
		}
		if _, ok := e.Headers.Get(headerLate); ok {
			late = append(late, e.Clone())
			continue
		}
		if *n++; q != nil && *n == int64(q.Limit) {
			return l.check()
		}
	}
	for some := range slices.Chunk(late, lookupChunk) {
		values, err := l.values(ctx, some)
		if err != nil {
			return err
		}
		for i := range values {
			if values[i].Live() && (q == nil || q.Limit == 0 || *n < int64(q.Limit)) {
				*n++
			}
		}
	}
	return l.check()
}

// scan returns the range of entries that q selects.
func (q *IndexQuery) scan() (r mainstem.Range, err error) {
	if q == nil {
		return r, nil
	}
	if q.Limit < 0 {
		return r, mainstem.Errorf(mainstem.KindInvalid, "list", "Limit is %d: want 0 (none) or more", q.Limit)
	}
	if err := errors.Join(validateParts("Prefix", q.Prefix, true), validateParts("Start", q.Start, false), validateParts("End", q.End, false)); err != nil {
		return r, mainstem.Errorf(mainstem.KindInvalid, "list", "%w", err)
	}
	r = mainstem.Range{Prefix: appendParts(nil, q.Prefix), Start: appendParts(nil, q.Start), Reverse: q.Reverse}
	if q.AfterStart {
		r.Start = append(r.Start, tagAbove)
	}
	if q.End != nil {
		if r.End = appendParts([]byte{}, q.End); q.ThroughEnd {
			r.End = append(r.End, tagAbove)
		}
	}
	if n := len(q.Prefix); n > 0 && !q.Prefix[n-1].open {
		// A text that continues with a zero byte begins with the stored form of the text.
		if end := append(slices.Clone(r.Prefix), tagAbove); r.End == nil || bytes.Compare(end, r.End) < 0 {
			r.End = end
		}
	}
	if q.After == "" {
		return r, nil
	}
	after, err := base64.RawURLEncoding.DecodeString(q.After)
	if err == nil {
		_, err = entryEnd(after)
	}
	switch {
	case err != nil:
		return r, mainstem.Errorf(mainstem.KindInvalid, "list", "the cursor %.40q is not one of an index: %w", q.After, err)
	case !q.Reverse && bytes.Compare(after, r.Start) >= 0:
		r.Start = append(after, 0)
	case q.Reverse && (r.End == nil || bytes.Compare(after, r.End) < 0):
		r.End = after
	}
	return r, nil
}

func validateParts(what string, parts []Part, open bool) error {
	for i, p := range parts {
		if p.open && (!open || i < len(parts)-1) {
			return mainstem.Errorf(mainstem.KindInvalid, "kv index", "%s: a TextPrefix can only be the last of a query's Prefix", what)
		}
	}
	if what == "parts" && len(parts) == 0 {
		return mainstem.Errorf(mainstem.KindInvalid, "kv index", "no parts are given")
	}
	if n := len(appendParts(nil, parts)); n >= mainstem.MaxKey {
		return fmt.Errorf("%s has %d bytes: the limit is %d", what, n, mainstem.MaxKey-1)
	}
	return nil
}
