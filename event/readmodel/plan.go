package readmodel

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mainstemdev/mainstem/kv"
)

// maxRanges is how many ranges of an index one query reads at most: In with more values does not use it.
const maxRanges = 100

// plan is how a query is answered by an index. The conditions of the query are tested all the same, so the ranges may
// hold more than it selects, and never less.
type plan struct {
	index   *index
	ranges  []*kv.IndexQuery
	fixed   int  // fields with given values
	bounded bool // the next field has bounds
	ordered bool // the ranges, which are one, are in the order of the query; those that are equal in it in some order
}

// plan returns the best plan for q, which was compiled, or nil if no index fits. A query with Or is answered
// without.
func (t *Table[T]) plan(q *Query, after *cursor) *plan {
	if len(q.groups) > 1 {
		return nil
	}
	var group []condition
	if len(q.groups) == 1 {
		group = q.groups[0]
	}
	var best *plan
	for i := range t.indexes {
		p := newPlan(&t.indexes[i], group, q, after)
		if p != nil && (best == nil || p.score() > best.score()) {
			best = p
		}
	}
	return best
}

func (p *plan) score() int {
	s := 4 * p.fixed
	if p.bounded {
		s += 2
	}
	if p.ordered {
		s++
	}
	return s
}

// newPlan returns how x answers a query, or nil if it does not.
func newPlan(x *index, group []condition, q *Query, after *cursor) *plan {
	p := &plan{index: x}
	prefixes := [][]kv.Part{nil}
	for p.fixed < len(x.fields) {
		parts := fixedParts(x.fields[p.fixed], x.paths[p.fixed], group)
		if parts == nil || len(parts)*len(prefixes) > maxRanges {
			break
		}
		if x.partial && slices.Contains(parts, kv.Null()) {
			return nil
		}
		var longer [][]kv.Part
		for _, prefix := range prefixes {
			for _, part := range parts {
				longer = append(longer, append(slices.Clone(prefix), part))
			}
		}
		prefixes = longer
		p.fixed++
	}
	b := bounds{}
	if p.fixed < len(x.fields) {
		b = boundsOf(x.fields[p.fixed], x.paths[p.fixed], group)
		p.bounded = b.any()
	}
	p.ordered = len(prefixes) == 1 && p.inOrder(q)
	for _, prefix := range prefixes {
		p.ranges = append(p.ranges, b.query(prefix))
	}
	switch {
	case x.partial && (p.fixed < len(x.fields)-1 || p.fixed < len(x.fields) && !p.bounded):
		return nil // an entry that it lacks may be selected
	case p.fixed == 0 && !p.bounded && !(p.ordered && q.limit > 0):
		return nil
	}
	if p.ordered {
		p.beginAt(q, after)
	}
	return p
}

// inOrder reports whether the entries of one prefix are in the order of q.
func (p *plan) inOrder(q *Query) bool {
	rest := p.index.paths[p.fixed:]
	if len(q.orders) == 0 {
		return len(rest) == 0 // in the order of their keys
	}
	if len(q.orders) > len(rest) {
		return false
	}
	for i, o := range q.orders {
		if o.field != rest[i] || o.direction != q.orders[0].direction {
			return false
		}
	}
	return true
}

// beginAt has the range begin at the place of a cursor, and gives it its direction.
func (p *plan) beginAt(q *Query, after *cursor) {
	r := p.ranges[0]
	r.Reverse = len(q.orders) > 0 && q.orders[0].direction == Desc
	if q.after == "" || len(q.orders) == 0 {
		return
	}
	place := slices.Clone(r.Prefix[:p.fixed])
	for i, v := range after.values() {
		place = append(place, partOf(p.index.fields[p.fixed+i].kind, v))
	}
	if r.Reverse {
		r.End, r.ThroughEnd = place, true
	} else {
		r.Start, r.AfterStart = place, false
	}
}

// fixedParts returns the values that a field must have one of, or nil.
func fixedParts(f *field, path string, group []condition) []kv.Part {
	for i := range group {
		c := &group[i]
		if c.field != path {
			continue
		}
		switch c.op {
		case IsNull:
			return []kv.Part{kv.Null()}
		case Eq, In:
			values, _ := operands(f.kind, f.typ, c)
			parts := make([]kv.Part, 0, len(values))
			for _, v := range values {
				if part := partOf(f.kind, v); !slices.Contains(parts, part) {
					parts = append(parts, part)
				}
			}
			return parts
		}
	}
	return nil
}

// bounds are those of one field. An end that is not set is open; null is outside of each.
type bounds struct {
	begin, end   *kv.Part
	above, until bool     // begin is not included; end is
	prefix       *kv.Part // of text
	notNull      bool
}

func (b *bounds) any() bool { return b.begin != nil || b.end != nil || b.prefix != nil || b.notNull }

func boundsOf(f *field, path string, group []condition) (b bounds) {
	for i := range group {
		c := &group[i]
		if c.field != path {
			continue
		}
		switch c.op {
		case NotNull:
			b.notNull = true
		case Gt, Ge, Lt, Le, Between:
			b.add(f, c)
		case Like:
			values, _ := operands(f.kind, f.typ, c)
			if s := literalPrefix(values[0].s); s != "" {
				part := kv.TextPrefix(s)
				b.prefix = &part
			}
		}
	}
	return b
}

func (b *bounds) add(f *field, c *condition) {
	values, _ := operands(f.kind, f.typ, c)
	first, last := partOf(f.kind, values[0]), partOf(f.kind, values[len(values)-1])
	if c.op != Lt && c.op != Le && b.begin == nil {
		b.begin, b.above = &first, c.op == Gt
	}
	if c.op != Gt && c.op != Ge && b.end == nil {
		b.end, b.until = &last, c.op != Lt
	}
}

// query returns the range of the entries that begin with prefix and are within b.
func (b *bounds) query(prefix []kv.Part) *kv.IndexQuery {
	with := func(p kv.Part) []kv.Part { return append(slices.Clone(prefix), p) }
	q := &kv.IndexQuery{Prefix: prefix}
	if b.prefix != nil {
		q.Prefix = with(*b.prefix)
	}
	switch {
	case b.begin != nil:
		q.Start, q.AfterStart = with(*b.begin), b.above
	case b.end != nil || b.notNull:
		q.Start, q.AfterStart = with(kv.Null()), true
	}
	if b.end != nil {
		q.End, q.ThroughEnd = with(*b.end), b.until
	}
	return q
}

// literalPrefix returns the text with which every match of a pattern of Like begins. It is "" where that is not known for
// certain: Like compares characters, of which bytes that are not UTF-8 are all the same.
func literalPrefix(pattern string) string {
	var s strings.Builder
	for i := 0; i < len(pattern); {
		r, n := utf8.DecodeRuneInString(pattern[i:])
		if r == '\\' && i+1 < len(pattern) {
			i++
			r, n = utf8.DecodeRuneInString(pattern[i:])
		} else if r == '%' || r == '_' {
			break
		}
		if r == utf8.RuneError {
			break
		}
		s.WriteRune(r)
		i += n
	}
	return s.String()
}

// String says what the plan reads.
func (p *plan) String() string {
	how := "reads"
	switch {
	case len(p.ranges) > 1:
		how += fmt.Sprintf(" %d ranges of", len(p.ranges))
	case p.fixed > 0 || p.bounded:
		how += " a range of"
	}
	return how + " index " + p.index.name
}
