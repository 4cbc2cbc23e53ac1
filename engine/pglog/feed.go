package pglog

import (
	"bytes"
	"context"
	"iter"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
)

// Feed implements [mainstem.Reader].
func (v view) Feed(ctx context.Context, f mainstem.Filter) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		err := f.Validate()
		if err == nil {
			err = v.canFollow("feed", f.Follow)
		}
		if err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		f.KeyPrefix = bytes.Clone(f.KeyPrefix)
		r := feeder{view: v, f: f, names: storables(f.Spaces), after: number(f.After), window: firstWindow, left: f.Limit, page: newPage("", nil)}
		defer r.page.free()
		if err := r.run(ctx, yield); err != nil {
			yield(mainstem.Record{}, err)
		}
	}
}

// Records of several spaces are read a window of positions at a time and sorted: there
// is no index over the whole log. The window grows where records are far apart.
const (
	firstWindow = 1 << 10
	lastWindow  = 1 << 24
)

// feeder reads a feed. What it has read ends at after.
type feeder struct {
	view
	f      mainstem.Filter
	names  []string // of f.Spaces; nil: all
	after  int64
	left   int // of the limit; 0 if there is none
	window int64
	page   *page
	exact  bool // the page must be; see paged
}

// part is where a feeder looks: up to end, in the spaces that
// have something there.
type part struct {
	end    int64
	now    int64
	spaces []int64
}

func (r *feeder) run(ctx context.Context, yield func(mainstem.Record, error) bool) error {
	var wake *follower
	if r.f.Follow {
		var err error
		if wake, err = r.l.hub.subscribe(ctx, "feed", r.names); err != nil {
			return err
		}
		defer r.l.hub.unsubscribe(wake)
	}
	for {
		more, err := r.stretch(ctx, wake, yield)
		if err != nil && wake.survives(ctx, err) {
			continue
		}
		if !more || err != nil || !r.f.Follow {
			return err
		}
		wake.saw(r.after)
		if err := wake.wait(ctx, "feed"); err != nil {
			return err
		}
	}
}

// stretch yields what there is up to the end of the log, and reports whether the reader
// wants more.
func (r *feeder) stretch(ctx context.Context, wake *follower, yield func(mainstem.Record, error) bool) (more bool, err error) {
	s, err := r.look(ctx)
	if err != nil {
		return false, err
	}
	wake.reached()
	for len(s.spaces) > 0 && r.after < s.end {
		if err := r.fetch(ctx, s); err != nil {
			return false, err
		}
		wake.read()
		for i := range r.page.records {
			if !yield(r.page.records[i], nil) {
				return false, nil
			}
		}
		if r.f.Limit > 0 {
			if r.left -= len(r.page.records); r.left == 0 {
				return false, nil
			}
		}
	}
	wake.read()
	r.after = max(r.after, s.end)
	return true, nil
}

// storables are the names of spaces as parameters; nil stays nil.
func storables(names []string) []string {
	out := slices.Clone(names)
	for i := range out {
		out[i] = storable(out[i])
	}
	return out
}

// look finds out how far the log goes and which spaces have records to read.
func (r *feeder) look(ctx context.Context) (s part, err error) {
	err = r.on.query(ctx, "feed", func(rows pgx.Rows) error {
		defer rows.Close()
		for rows.Next() {
			row := rows.RawValues()
			var err error
			if s.end, err = integer(row[0]); err != nil {
				return err
			}
			if s.now, err = integer(row[1]); err != nil {
				return err
			}
			if s.spaces, err = decodeInt8s(row[2]); err != nil {
				return err
			}
		}
		return rows.Err()
	}, r.l.sql.feedHead, r.on.moment(), r.names, r.after)
	return s, err
}

// fetch reads the next page of a stretch and moves after behind it.
func (r *feeder) fetch(ctx context.Context, s part) error {
	limit := pageRows
	if r.f.Limit > 0 {
		limit = min(limit, r.left)
	}
	end := s.end
	if len(s.spaces) > 1 {
		end = min(end, r.after+r.window)
	}
	paced := "" // of several spaces
	if len(r.names) == 1 {
		paced = r.names[0]
	}
	limit, exact := r.l.pace.rows(paced, limit, r.exact || r.on.exact())
	text, args := r.statement(s, end, limit, exact)
	if err := r.on.query(ctx, "feed", r.page.fill(exact), text, args...); err != nil {
		if err == errOverrun {
			r.exact = true
			r.page.reset() // after has not moved: what came of the page comes again
			return nil
		}
		return err
	}
	r.l.pace.learn(paced, r.page)
	n := len(r.page.records)
	switch {
	case r.page.full(limit):
		r.after = int64(r.page.records[n-1].Position)
		r.window = max(r.window/2, firstWindow)
		return nil
	case n == 0 && end < s.end:
		return r.skip(ctx, s, end)
	case n < firstWindow/2:
		r.window = min(r.window*2, lastWindow)
	}
	r.after = end
	return nil
}

// skip moves over a part of the log without records of the spaces.
func (r *feeder) skip(ctx context.Context, s part, end int64) error {
	next := int64(math.MaxInt64)
	err := r.on.query(ctx, "feed", func(rows pgx.Rows) error {
		defer rows.Close()
		for rows.Next() {
			if b := rows.RawValues()[0]; b != nil {
				var err error
				if next, err = integer(b); err != nil {
					return err
				}
			}
		}
		return rows.Err()
	}, r.l.sql.feedNext, s.spaces, end)
	r.after = min(max(end, next-1), s.end)
	return err
}

// statement selects the records after r.after, up to end.
func (r *feeder) statement(s part, end int64, limit int, exact bool) (string, []any) {
	var q selection
	which := " = " + q.arg(s.spaces[0])
	if len(s.spaces) > 1 {
		q.args[0] = s.spaces
		which = " = ANY ($1::bigint[])"
	}
	now := q.arg(s.now)
	q.text.WriteString(" FROM {schema}.record r JOIN {schema}.space s ON s.id = r.space JOIN {schema}.key k ON k.id = r.key" +
		" WHERE r.space" + which + " AND r.position > " + q.arg(r.after) + " AND r.position <= " + q.arg(end) + " AND " + alive("r", now+"::bigint"))
	q.within(prefixBounds(r.f.KeyPrefix))
	cols := noExtra + ", " + recordColumns + ", " + keyColumns + ", s.name AS space"
	return r.l.dialect.sql(paged(cols, "r.size", q.text.String(), "i.position", q.arg(limit), exact)), q.args
}
