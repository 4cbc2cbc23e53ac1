package pglog

import (
	"bytes"
	"context"
	"iter"
	"strings"

	"github.com/mainstemdev/mainstem"
)

// firstScanRows is the size of the first page of a scan of the log. Only a scan with
// more needs a connection of its own, to stay at one moment.
const firstScanRows = 256

// Scan implements [mainstem.Reader]. A scan of more than a page holds a connection until
// the loop ends; see [Options.HeldConns].
func (v view) Scan(ctx context.Context, space string, r mainstem.Range) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		if err := r.Validate(); err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		s := scanner{view: v, r: r, bounds: rangeBounds(r), page: newPage(space, nil)}
		defer s.page.free()
		if err := s.run(ctx, yield); err != nil {
			yield(mainstem.Record{}, err)
		}
	}
}

// scanner reads the newest records of the keys of a space.
type scanner struct {
	view
	r      mainstem.Range // its Limit is what is still to be read
	bounds bounds         // of what is still to be read
	page   *page
	exact  bool // the page must be; see paged
}

func (s *scanner) run(ctx context.Context, yield func(mainstem.Record, error) bool) error {
	limit := pageRows
	if !s.frozen {
		limit = firstScanRows
	}
	more, err := s.fetch(ctx, limit)
	if err != nil {
		return err
	}
	if more && !s.frozen {
		h, err := s.l.hold(ctx, "scan")
		if err != nil {
			return err
		}
		defer h.release()
		s.view = h.view() // from the beginning: what was read is of another moment
		if more, err = s.fetch(ctx, pageRows); err != nil {
			return err
		}
	}
	for {
		for i := range s.page.records {
			if !yield(s.page.records[i], nil) {
				return nil
			}
		}
		if !more {
			return nil
		}
		s.next()
		if more, err = s.fetch(ctx, pageRows); err != nil {
			return err
		}
	}
}

// next makes the scan go on after the page.
func (s *scanner) next() {
	last := s.page.records[len(s.page.records)-1].Key
	if s.r.Limit > 0 {
		s.r.Limit -= len(s.page.records)
	}
	if s.r.Reverse {
		s.bounds.upper = bytes.Clone(last)
	} else {
		s.bounds.lower = append(bytes.Clone(last), 0) // the next possible key
	}
	s.bounds.none = s.bounds.upper != nil && bytes.Compare(s.bounds.lower, s.bounds.upper) >= 0
}

// fetch reads a page of at most limit records and reports whether the scan goes on.
func (s *scanner) fetch(ctx context.Context, limit int) (more bool, err error) {
	last := s.r.Limit > 0 && s.r.Limit <= limit
	if last {
		limit = s.r.Limit
	}
	limit, exact := s.l.pace.rows(s.page.space, limit, s.exact || s.on.exact())
	last = last && limit == s.r.Limit
	var q selection
	now := "{schema}.tick(" + q.arg(s.on.moment()) + ")"
	q.text.WriteString("SELECT k.id, k.name, k.rest, k.version FROM {schema}.key k WHERE k.space = s.id AND k.position IS NOT NULL AND " + alive("k", now))
	if !s.r.Tombstones {
		q.text.WriteString(" AND k.tomb = 0")
	}
	q.within(s.bounds)
	direction := ""
	if s.r.Reverse {
		direction = " DESC"
	}
	by := func(t string) string { return t + "name" + direction + ", " + t + "rest" + direction }
	q.text.WriteString(" ORDER BY " + by("k.") + " LIMIT " + q.arg(limit))
	cols, size := recordColumns, "r.size"
	if s.r.KeysOnly {
		cols = strings.Replace(cols, "r.headers, r.value", "NULL::bytea AS headers, NULL::bytea AS value", 1)
		size = "octet_length(k.name) AS size"
	}
	from := " FROM (" + q.text.String() + ") k JOIN {schema}.record r ON r.key = k.id AND r.version = k.version"
	text := "SELECT NULL::bigint, p.* FROM {schema}.space s LEFT JOIN LATERAL (" +
		paged(cols+", "+keyColumns, size, from, by("i."), q.arg(limit), exact) + ") p ON true WHERE s.name = " + q.arg(storable(s.page.space))
	err = s.on.query(ctx, "scan", s.page.fill(exact), s.l.dialect.sql(text), q.args...)
	if err == errOverrun {
		s.exact = true
		return s.fetch(ctx, limit)
	}
	if err != nil {
		return false, err
	}
	if !s.page.found {
		return false, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "scan", Space: s.page.space}
	}
	if !s.r.KeysOnly {
		s.l.pace.learn(s.page.space, s.page)
	}
	return s.page.full(limit) && !(last && len(s.page.records) == limit), nil
}
