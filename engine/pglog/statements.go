package pglog

import (
	"strings"
	"sync"
)

// statements are the texts of the engine's statements for one schema. Reads that have
// many shapes put theirs together from parts; see select.
type statements struct {
	commit   string
	inside   string
	append   string
	get      string
	feedHead string
	feedNext string
	spaces   string
}

// alive is the condition under which a reader sees a record t (or the newest record of
// a key t) of space s at the time in now.
func alive(t, now string) string {
	key := t + ".key"
	if t == "k" {
		key = "k.id"
	}
	clock := "coalesce(" + t + ".clock, " + t + ".time)"
	return "((" + t + ".expires IS NULL OR " + t + ".expires > " + now + ") AND (s.max_age = 0 OR " + clock + " >= " + now + " - s.max_age)" +
		" OR {schema}.still(" + now + ", " + key + ", " + t + ".version, " + clock + ", " + t + ".expires, s.max_age))"
}

func newStatements(d dialect) statements {
	return statements{
		commit: commitSQL(d, "commit"),
		inside: commitSQL(d, "commit_inside"),
		append: appendSQL(d),
		get: d.sql(`SELECT 0::bigint, ` + recordColumns + `
			FROM {schema}.space s LEFT JOIN (
				{schema}.key k JOIN {schema}.record r ON r.key = k.id AND r.version = k.version
			) ON k.space = s.id AND k.name = $2 AND k.mark = $3 AND k.position IS NOT NULL AND k.tomb = 0
				AND ` + alive("k", "{schema}.tick($4)") + `
			WHERE s.name = $1`),
		feedHead: d.sql(`SELECT l.position, {schema}.tick($1), (
				SELECT array_agg(s.id::bigint ORDER BY s.id) FROM {schema}.space s JOIN {schema}.total t ON t.space = s.id
				WHERE ($2::text[] IS NULL OR s.name = ANY ($2)) AND NOT s.no_feed AND t.last > $3
			) FROM {schema}.log l`),
		feedNext: d.sql(`SELECT min(f.position) FROM unnest($1::bigint[]) AS i(id) CROSS JOIN LATERAL (
				SELECT r.position FROM {schema}.record r WHERE r.space = i.id AND r.position > $2 ORDER BY r.position LIMIT 1
			) f`),
		spaces: d.sql(`SELECT s.name, s.created, s.history, s.max_age, s.max_bytes, s.tombstone_age, s.no_feed, s.metadata::text,
				t.keys, t.records, t.bytes, t.last, t.updated
			FROM {schema}.space s JOIN {schema}.total t ON t.space = s.id`),
	}
}

// selection builds a statement with numbered parameters.
type selection struct {
	text strings.Builder
	args []any
}

// arg adds a parameter and returns its name in the text.
func (s *selection) arg(v any) string {
	s.args = append(s.args, v)
	return "$" + itoa(len(s.args))
}

// within adds the condition that a key k is in b.
func (s *selection) within(b bounds) {
	if b.none {
		s.text.WriteString(" AND false")
		return
	}
	if len(b.lower) > 0 {
		n := split(b.lower)
		s.text.WriteString(" AND k.name >= " + s.arg(n.first))
		if len(n.first) == nameMax {
			s.text.WriteString(" AND (k.name > " + s.arg(n.first) + " OR k.rest >= " + s.arg(n.rest) + ")")
		}
	}
	if b.upper != nil {
		n := split(b.upper)
		if len(n.first) < nameMax {
			s.text.WriteString(" AND k.name < " + s.arg(n.first))
		} else {
			s.text.WriteString(" AND k.name <= " + s.arg(n.first) + " AND (k.name < " + s.arg(n.first) + " OR k.rest < " + s.arg(n.rest) + ")")
		}
	}
}

// paged makes a statement for the columns cols, from recordColumns and keyColumns, of the
// records that the clauses in from select, in the order that order describes of a table i. An
// exact page ends with the record with which it has pageBytes, by their sizes.
func paged(cols, size, from, order, limit string, exact bool) string {
	from += " ORDER BY " + strings.ReplaceAll(order, "i.", "") + " LIMIT " + limit
	if !exact { // nothing around it: a record would pass through one more node
		return "SELECT " + cols + from
	}
	return "SELECT " + bare(cols) + " FROM (SELECT i.*, sum(i.size) OVER (ORDER BY " + order + " ROWS UNBOUNDED PRECEDING) - i.size AS before FROM (" +
		"SELECT " + cols + ", " + size + from + ") i) o WHERE o.before < " + itoa(pageBytes)
}

// bare returns columns of tables r, k and s as those of o.
func bare(cols string) string {
	return strings.NewReplacer("nullif(r.count, 1) AS ", "o.", "nullif(r.tomb, 0) AS ", "o.", "r.", "o.", "k.", "o.", "s.name AS space", "o.space").Replace(cols)
}

// pace knows how many records of a space make a page, by what was read before.
type pace struct {
	mu    sync.Mutex
	bytes map[string]int // of a record, on average
}

// maxPaced bounds the memory of pace; beyond, it begins anew.
const maxPaced = 1 << 14

// rows returns how many records to ask for, and whether that is a guess: the page must be
// exact then.
func (p *pace) rows(space string, limit int, exact bool) (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	size, ok := p.bytes[space]
	if !ok || exact {
		return limit, true
	}
	return min(limit, max(pageBytes/size, leastRows)), false
}

// leastRows is what a page has at least if that many are there, however large they are.
const leastRows = 4

// learn takes a page that was read into account.
func (p *pace) learn(space string, read *page) {
	if len(read.records) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bytes == nil || len(p.bytes) > maxPaced {
		p.bytes = map[string]int{}
	}
	size := max(read.bytes/len(read.records), 1)
	if old, ok := p.bytes[space]; ok && old > size {
		size += (old - size) * 3 / 4 // forgets slowly
	}
	p.bytes[space] = size
}
