package kv

import (
	"context"
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem"
)

// IndexProblem is a difference between a table and one of its indexes, found by [Indexed.Check].
type IndexProblem struct {
	Index string
	Key   string // of the value
	What  string
}

// String returns the problem on one line.
func (p IndexProblem) String() string {
	return fmt.Sprintf("index %s: key %.64q: %s", p.Index, p.Key, p.What)
}

// CheckedIndexes counts what [Indexed.Check] compared.
type CheckedIndexes struct{ Values, Entries int64 }

// Check compares the values with the entries of all indexes that are ready, in both directions. It
// calls report for each value without its entry, and for each entry whose value is gone or has
// other parts. Only writes that bypass this package cause such differences; [Indexed.Rebuild]
// repairs them. An index that only other programs declare is Unavailable.
func (x *Indexed[T]) Check(ctx context.Context, report func(IndexProblem)) (done CheckedIndexes, err error) {
	var from mainstem.Reader = x.plain.log
	if s, ok := x.plain.log.(mainstem.Snapshotter); ok {
		snapshot, err := s.Snapshot(ctx)
		if err == nil {
			defer snapshot.Close()
			from = snapshot
		} else if !errors.Is(err, mainstem.ErrUnsupported) {
			return done, err
		}
	}
	d, err := x.load(ctx, from)
	if err != nil {
		return done, err
	}
	if d.foreign != "" {
		return done, x.foreignError(d, d.foreign)
	}
	c := checker[T]{x: x, d: d, from: from, report: report, moment: from != mainstem.Reader(x.plain.log)}
	if err := c.values(ctx); err != nil {
		return c.done, err
	}
	for i := range d.keep {
		if d.keep[i].State == IndexReady && !d.keep[i].guard {
			if err := c.entries(ctx, &d.keep[i]); err != nil {
				return c.done, err
			}
		}
	}
	return c.done, nil
}

// checker is one running Check.
type checker[T any] struct {
	x      *Indexed[T]
	d      *declared[T]
	from   mainstem.Reader
	moment bool // from is a snapshot, so each difference is real; otherwise a write may have come between two reads, and both are repeated
	report func(IndexProblem)
	done   CheckedIndexes
}

// values looks up the entries of all values.
func (c *checker[T]) values(ctx context.Context) error {
	r := mainstem.Range{Limit: lookupChunk}
	for {
		var records []mainstem.Record
		for rec, err := range c.from.Scan(ctx, c.x.plain.space, r) {
			if errors.Is(err, mainstem.ErrNotFound) {
				break
			}
			if err != nil {
				return err
			}
			records = append(records, rec.Clone())
		}
		for i := range records {
			c.done.Values++
			if err := c.value(ctx, &records[i]); err != nil {
				return err
			}
			r.Start = append(records[i].Key, 0)
		}
		if len(records) < lookupChunk {
			return nil
		}
	}
}

func (c *checker[T]) value(ctx context.Context, r *mainstem.Record) error {
	for i := range c.d.keep {
		keep := &c.d.keep[i]
		parts, err := c.x.partsOf("check index", keep, r)
		if err != nil {
			return err
		}
		if keep.State != IndexReady || keep.guard || len(parts) == 0 {
			continue
		}
		e, err := c.from.Get(ctx, keep.space, entryKey(parts, string(r.Key), keep.Unique))
		switch {
		case errors.Is(err, mainstem.ErrNotFound):
			err = c.found(ctx, r.Key, r.Version, IndexProblem{keep.Name, string(r.Key), fmt.Sprintf("the value has %v, and there is no entry", parts)})
		case err == nil && keep.Unique && string(e.Value) != string(r.Key):
			err = c.found(ctx, r.Key, r.Version, IndexProblem{keep.Name, string(r.Key), fmt.Sprintf("the value has %v, which the entry gives to key %.64q", parts, e.Value)})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// found reports p about key, unless the key had another version when its entry was read.
func (c *checker[T]) found(ctx context.Context, key []byte, version Revision, p IndexProblem) error {
	if !c.moment {
		r, err := c.from.Get(ctx, c.x.plain.space, key)
		if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
			return err
		}
		if r.Version != version {
			return nil
		}
	}
	c.report(p)
	return nil
}

// entries looks up the values of all entries of an index.
func (c *checker[T]) entries(ctx context.Context, keep *keeper[T]) error {
	l := &lookup[T]{x: c.x, from: c.from, keep: keep}
	r := mainstem.Range{}
	for {
		entries, err := l.some(ctx, r, lookupChunk)
		if err != nil {
			return err
		}
		right, err := l.right(ctx, entries)
		if err != nil {
			return err
		}
		for i := range entries {
			c.done.Entries++
			r.Start = append(entries[i].Key, 0)
			if err := c.entry(ctx, keep, &entries[i], right[i]); err != nil {
				return err
			}
		}
		if len(entries) < lookupChunk {
			return nil
		}
	}
}

// entry reports an entry whose value is gone or has other parts. An entry that was built for a
// value that has expired since is left over, and harmless.
func (c *checker[T]) entry(ctx context.Context, keep *keeper[T], e *mainstem.Record, right bool) error {
	if _, late := e.Headers.Get(headerLate); right || late {
		return nil
	}
	key, err := keep.keyOf(e)
	if err != nil {
		return err
	}
	if !c.moment {
		again, err := c.from.Get(ctx, keep.space, e.Key[:len(e.Key):len(e.Key)])
		if errors.Is(err, mainstem.ErrNotFound) || err == nil && again.Version != e.Version {
			return nil
		}
		if err != nil {
			return err
		}
	}
	parts, _, err := decodeEntry(e.Key)
	if err != nil {
		return err
	}
	c.report(IndexProblem{keep.Name, string(key), fmt.Sprintf("the entry has %v, and the value is gone or has other parts", parts)})
	return nil
}
