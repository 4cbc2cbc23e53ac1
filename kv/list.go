package kv

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"math"

	"github.com/mainstemdev/mainstem"
)

// Query selects entries for [Bucket.List], [Bucket.Keys], [Bucket.Page] and
// [Bucket.Count]. The zero Query is the whole table. Keys are ordered by their
// bytes.
type Query struct {
	Prefix string // only keys that start with it
	Suffix string // only keys that end with it. Every key that the other fields select is read
	Start  string // only keys >= Start; "" means from the first
	End    string // only keys < End; "" means to the last
	// After is a cursor: only keys after it in the order asked for. It need not be the name of a
	// present key. Paging through a table, with After set to the last key of the page before,
	// yields every key that exists all the time exactly once, whatever is written meanwhile.
	After    string
	Reverse  bool // from the last key to the first
	Offset   int  // leave out this many of the selected entries
	Limit    int  // at most this many entries; 0 means no limit
	KeysOnly bool // entries without Value and Metadata
}

// Validate returns an Invalid error if a field is out of range.
func (q *Query) Validate() error {
	switch {
	case q.Offset < 0:
		return mainstem.Errorf(mainstem.KindInvalid, "list", "Offset is %d: want 0 or more", q.Offset)
	case q.Limit < 0:
		return mainstem.Errorf(mainstem.KindInvalid, "list", "Limit is %d: want 0 (none) or more", q.Limit)
	}
	return nil
}

// scan returns the range of keys that q selects without regard to its suffix.
func (q *Query) scan() mainstem.Range {
	r := mainstem.Range{Prefix: []byte(q.Prefix), Start: []byte(q.Start), Reverse: q.Reverse, KeysOnly: q.KeysOnly}
	if q.End != "" {
		r.End = []byte(q.End)
	}
	switch {
	case q.After == "":
	case !q.Reverse && q.After >= q.Start:
		r.Start = append([]byte(q.After), 0)
	case q.Reverse && (q.End == "" || q.After < q.End):
		r.End = []byte(q.After)
	}
	if n := q.Offset + q.Limit; q.Suffix == "" && q.Limit > 0 && n > 0 {
		r.Limit = n
	}
	return r
}

// List yields the entries that q selects (nil: all) in the order of their keys, as of one moment. A
// table that does not exist yields nothing. An entry whose value the codec cannot decode comes with
// a Corrupt error and everything but the value; the loop may continue. Any other error ends the
// sequence.
func (b *Bucket[T]) List(ctx context.Context, q *Query) iter.Seq2[Entry[T], error] {
	return func(yield func(Entry[T], error) bool) {
		if q == nil {
			q = &Query{}
		}
		l := lent
		if q.KeysOnly {
			l = metaOnly
		}
		for r, err := range b.scan(ctx, q) {
			if err != nil {
				yield(Entry[T]{}, err)
				return
			}
			if !yield(b.entry("list", string(r.Key), &r, opOf(&r), l)) {
				return
			}
		}
	}
}

// Keys yields the keys that q selects (nil: all) in order, as of one moment.
func (b *Bucket[T]) Keys(ctx context.Context, q *Query) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for r, err := range b.scan(ctx, q.keysOnly()) {
			if !yield(string(r.Key), err) || err != nil {
				return
			}
		}
	}
}

// Count returns the number of entries that q selects (nil: all), as of one moment. Its cost grows
// with the number of keys counted.
func (b *Bucket[T]) Count(ctx context.Context, q *Query) (int64, error) {
	n := int64(0)
	for _, err := range b.scan(ctx, q.keysOnly()) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// DefaultPage is the number of entries that [Bucket.Page] returns if the query has no limit.
const DefaultPage = 100

// Page returns the entries that q selects (nil: all), at most q.Limit (default [DefaultPage]), and
// the cursor for the next page, to be set as q.After, or "" if there are no more. Offset applies to
// each page: leave it 0 after the first.
func (b *Bucket[T]) Page(ctx context.Context, q *Query) (entries []Entry[T], next string, err error) {
	one := Query{}
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
	for e, err := range b.List(ctx, &one) {
		if err != nil {
			return nil, "", err
		}
		if len(entries) == limit {
			return entries, entries[limit-1].Key, nil
		}
		entries = append(entries, e)
	}
	return entries, "", nil
}

func (q *Query) keysOnly() *Query {
	k := Query{}
	if q != nil {
		k = *q
	}
	k.KeysOnly = true
	return &k
}

// scan yields the records that q selects. An error ends the sequence.
func (b *Bucket[T]) scan(ctx context.Context, q *Query) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		if err := q.Validate(); err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		suffix, skip, left := []byte(q.Suffix), q.Offset, q.Limit
		for r, err := range b.log.Scan(ctx, b.space, q.scan()) {
			switch {
			case errors.Is(err, mainstem.ErrNotFound):
				return // no table yet
			case err != nil:
				yield(mainstem.Record{}, err)
				return
			case !bytes.HasSuffix(r.Key, suffix):
				continue
			case skip > 0:
				skip--
				continue
			}
			if !yield(r, nil) {
				return
			}
			if left--; left == 0 {
				return
			}
		}
	}
}
