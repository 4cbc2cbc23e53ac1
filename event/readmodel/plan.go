package readmodel

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// How a query uses an index:
//
//  1. The fields of the index are taken in their order, as long as the query has a condition Eq, In
//     or IsNull on the field. Each combination of their values is the prefix of one range.
//  2. The next field may have bounds: Gt, Ge, Lt, Le, Between, NotNull, or Like with a literal
//     beginning. They narrow every range.
//  3. If there is one prefix, and the fields after it begin with those of OrderBy, in one
//     direction, the range is in the order of the query. Reading then starts at the cursor and
//     stops at the limit.
//
// An index is not used if a key with the operands would be too long for it: then no entry has them in
// the index, but the query may still select entries, such as those that are less.
//
// Of several indexes, the one with the most fixed fields is used; among these one with bounds, then
// one in order.
//
// Invariant: the ranges hold every entry that the query selects, and may hold more. Every entry is
// tested against all conditions after it is read.

// maxRanges is the largest number of ranges of an index that one query reads. In with more values
// does not use its index.
const maxRanges = 100

// plan is how an index answers one query.
type plan struct {
	index   *index
	ranges  []*kv.IndexQuery // one for each prefix; disjoint
	fixed   int              // how many fields of the index, from the first, have given values
	bounded bool             // the field after them has bounds
	ordered bool             // the one range is in the order of the query; equal entries are in any order
}

// plan returns the best plan for q, which must compile, or nil if no index fits or q has an Or.
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

// score orders plans: the greatest is the best.
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

// newPlan returns the plan by which x answers a query, or nil if x does not fit.
func newPlan(x *index, group []condition, q *Query, after *cursor) *plan {
	if x.cannotHold(group) {
		return nil
	}
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
		return nil // the query may select an entry that is not in the index
	case p.fixed == 0 && !p.bounded && !(p.ordered && q.limit > 0):
		return nil
	}
	if p.ordered {
		p.beginAt(q, after)
	}
	return p
}

// cannotHold reports whether the operands of the conditions on the fields of x may make a key that is
// longer than one of an index can be.
func (x *index) cannotHold(group []condition) bool {
	size := 0
	for i, path := range x.paths {
		longest := 0
		for j := range group {
			if group[j].field == path {
				values, _ := operands(x.fields[i].kind, x.fields[i].typ, &group[j])
				for _, v := range values {
					longest = max(longest, len(v.s)+strings.Count(v.s, "\x00"))
				}
			}
		}
		size += maxFixedPart + longest
	}
	return size >= mainstem.MaxKey
}

// maxFixedPart is the largest number of bytes of a part in an index, besides those of a text.
const maxFixedPart = 13

// inOrder reports whether the entries of one prefix are in the order of q.
func (p *plan) inOrder(q *Query) bool {
	rest := p.index.paths[p.fixed:]
	if len(q.orders) == 0 {
		return len(rest) == 0 // entries with equal parts are in the order of their keys
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

// beginAt sets the direction of the range, and makes it begin at the cursor. The range includes the
// entries that are equal to the place of the cursor; [selection.add] skips those that are not after
// it.
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

// fixedParts returns the values of which a field must have one; nil if the query does not fix the
// field.
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

// bounds are the bounds of one field. A bound that is not set is open. If any bound is set, null is
// outside. Of several conditions on one side, one is the bound, and the others are only tested.
type bounds struct {
	begin, end   *kv.Part
	above, until bool     // above: begin itself is outside; until: end itself is inside
	prefix       *kv.Part // the beginning of a text
	notNull      bool
}

func (b *bounds) any() bool { return b.begin != nil || b.end != nil || b.prefix != nil || b.notNull }

// boundsOf returns the bounds of a field among the conditions of a group.
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

// add adds the bounds of one comparison.
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

// literalPrefix returns the text with which every match of a pattern of Like begins; "" if there is
// none. It stops at bytes that are not UTF-8: Like compares runes, and all such bytes are the same
// rune.
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

// String describes the reads of the plan, for [Table.Explain].
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
