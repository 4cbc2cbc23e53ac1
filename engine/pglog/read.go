package pglog

import (
	"bytes"
	"context"
	"iter"
	"math"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
)

func itoa(n int) string { return strconv.Itoa(n) }

// view answers reads: of the log as it is, or of a snapshot.
type view struct {
	l      *Log
	on     source
	frozen bool // a snapshot: there is nothing to follow
}

// Get implements [mainstem.Reader].
func (v view) Get(ctx context.Context, space string, key []byte) (mainstem.Record, error) {
	if err := mainstem.ValidateKey(key); err != nil {
		return mainstem.Record{}, mainstem.Errorf(mainstem.KindInvalid, "get", "%w", err).At(space, nil)
	}
	n := split(key)
	p := page{space: space, key: bytes.Clone(key)}
	err := v.on.query(ctx, "get", p.fill(true), v.l.sql.get, storable(space), n.first, n.mark, v.on.moment())
	if err != nil {
		return mainstem.Record{}, err
	}
	if len(p.records) == 0 {
		if !p.found {
			key = nil // the space is not there
		}
		return mainstem.Record{}, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "get", Space: space, Key: bytes.Clone(key)}
	}
	return p.records[0], nil
}

// Head implements [mainstem.Reader].
func (v view) Head(ctx context.Context) (head mainstem.Position, err error) {
	err = v.on.query(ctx, "head", func(rows pgx.Rows) error {
		defer rows.Close()
		for rows.Next() {
			n, err := integer(rows.RawValues()[0])
			if err != nil {
				return err
			}
			head = mainstem.Position(n)
		}
		return rows.Err()
	}, v.l.dialect.sql("SELECT position FROM {schema}.log"))
	return head, err
}

// Read implements [mainstem.Reader].
func (v view) Read(ctx context.Context, space string, key []byte, vs mainstem.Versions) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		err := vs.Validate()
		if err == nil {
			err = v.canFollow("read", vs.Follow)
		}
		if kerr := mainstem.ValidateKey(key); err == nil && kerr != nil {
			err = mainstem.Errorf(mainstem.KindInvalid, "read", "%w", kerr).At(space, nil)
		}
		if err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		r := keyReader{view: v, vs: vs, page: newPage(space, bytes.Clone(key)), exact: v.on.exact()}
		defer r.page.free()
		if err := r.run(ctx, yield); err != nil {
			yield(mainstem.Record{}, err)
		}
	}
}

// keyReader reads the records of one key.
type keyReader struct {
	view
	vs    mainstem.Versions // what is still to be read
	page  *page
	exact bool // the page must be; see paged
}

func (r *keyReader) run(ctx context.Context, yield func(mainstem.Record, error) bool) error {
	var wake *follower
	if r.vs.Follow {
		var err error
		if wake, err = r.l.hub.subscribe(ctx, "read", []string{r.page.space}); err != nil {
			return err
		}
		defer r.l.hub.unsubscribe(wake)
	}
	for {
		limit, err := r.fetch(ctx)
		switch {
		case err == errOverrun:
			r.exact = true
			continue
		case err != nil && !wake.survives(ctx, err):
			return err
		case err != nil:
			continue
		}
		wake.read()
		for i := range r.page.records {
			if !yield(r.page.records[i], nil) {
				return nil
			}
		}
		if n := len(r.page.records); r.vs.Limit > 0 {
			if r.vs.Limit -= n; r.vs.Limit == 0 {
				return nil
			}
		}
		if r.page.full(limit) {
			if r.next(); r.vs.From > math.MaxInt64 {
				return nil
			}
			continue
		}
		newest := mainstem.Version(r.page.extra)
		if !r.vs.Follow || r.vs.To > 0 && newest >= r.vs.To {
			return nil
		}
		r.vs.From = max(r.vs.From, newest+1)
		if err := wake.wait(ctx, "read"); err != nil {
			return err
		}
	}
}

// next makes the read go on after the page.
func (r *keyReader) next() {
	last := r.page.records[len(r.page.records)-1]
	if !r.vs.Reverse {
		r.vs.From = last.Version + 1
		return
	}
	if r.vs.To = last.First() - 1; r.vs.To == 0 {
		r.vs.From = math.MaxUint64 // nothing is below
	}
}

// fetch reads the next page and returns how many records it asked for.
func (r *keyReader) fetch(ctx context.Context) (limit int, err error) {
	limit = pageRows
	if r.vs.Limit > 0 {
		limit = min(limit, r.vs.Limit)
	}
	limit, exact := r.l.pace.rows(r.page.space, limit, r.exact)
	text, args := r.statement(limit, exact)
	if err := r.on.query(ctx, "read", r.page.fill(exact), text, args...); err != nil {
		return 0, err
	}
	if !r.page.found {
		return 0, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "read", Space: r.page.space}
	}
	r.l.pace.learn(r.page.space, r.page)
	return limit, nil
}

// statement selects the next records. Its extra column is the newest version of the key if
// the read follows. It returns a row without a record, perhaps after those with one, if the space
// is there.
func (r *keyReader) statement(limit int, exact bool) (string, []any) {
	var s selection
	n := split(r.page.key)
	now := "{schema}.tick(" + s.arg(r.on.moment()) + ")"
	space, first, mark := s.arg(storable(r.page.space)), s.arg(n.first), s.arg(n.mark)
	extra, key, oldest := noExtra+", ", "k.id", "s.max_age"
	if !r.vs.Follow {
		// Joined, each record would pass through the nodes of the joins.
		of := "FROM {schema}.space s JOIN {schema}.key k ON k.space = s.id AND k.name = " + first + " AND k.mark = " + mark + " WHERE s.name = " + space
		key, oldest = "(SELECT k.id "+of+")", "(SELECT s.max_age FROM {schema}.space s WHERE s.name = "+space+")"
	} else {
		extra = ""
	}
	s.text.WriteString(" FROM {schema}.record r WHERE r.key = " + key + " AND " +
		strings.ReplaceAll(alive("r", now), "s.max_age", oldest))
	r.between(&s, key)
	order := "i.version"
	if r.vs.Reverse {
		order += " DESC"
	}
	text := paged(extra+recordColumns, "r.size", s.text.String(), order, s.arg(limit), exact)
	if !r.vs.Follow {
		text = "(" + text + ") UNION ALL SELECT NULL" + strings.Repeat(", NULL", colFirst-1) + " FROM {schema}.space s WHERE s.name = " + space
	} else {
		text = "SELECT k.version, p.* FROM {schema}.space s LEFT JOIN {schema}.key k ON k.space = s.id AND k.name = " + first +
			" AND k.mark = " + mark + " LEFT JOIN LATERAL (" + text + ") p ON true WHERE s.name = " + space
	}
	return r.l.dialect.sql(text), s.args
}

// between adds the condition that records of key are in the range that is read.
func (r *keyReader) between(s *selection, key string) {
	if r.vs.From > 0 {
		s.text.WriteString(" AND r.version >= " + s.arg(number(r.vs.From)))
	}
	if r.vs.From > math.MaxInt64 {
		s.text.WriteString(" AND false")
	}
	if r.vs.To > 0 {
		to := s.arg(number(r.vs.To))
		// The second condition is for the index: no record after the one that holds To.
		s.text.WriteString(" AND r.version - r.count < " + to + " AND r.version <= coalesce((SELECT b.version FROM {schema}.record b" +
			" WHERE b.key = " + key + " AND b.version >= " + to + " ORDER BY b.version LIMIT 1), 9223372036854775807)")
	}
}
