package readmodel

import (
	"fmt"

	"github.com/mainstemdev/mainstem"
)

// Op is a comparison of a field with values.
type Op uint8

// The comparisons, and the values that each takes. A field is null if it, or a struct on the path
// to it, is a nil pointer. For a null field IsNull holds, and no other comparison does, as in SQL.
const (
	Eq       Op = iota // one value
	Ne                 // one value
	Gt                 // one value; Gt, Ge, Lt and Le are for numbers, text and times
	Ge                 // one value
	Lt                 // one value
	Le                 // one value
	In                 // any number of values, or a slice of them
	NotIn              // any number of values, or a slice of them
	Like               // a pattern for text: % stands for any text, _ for one character; \ makes the next one literal
	Contains           // one value: a part of a text, or an element of a list
	Between            // two values; both are included
	IsNull             // no value
	NotNull            // no value
)

var opNames = [...]string{"Eq", "Ne", "Gt", "Ge", "Lt", "Le", "In", "NotIn", "Like", "Contains", "Between", "IsNull", "NotNull"}

// String returns the name of the comparison, such as "Eq".
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return "unknown comparison"
}

// Direction is the direction in which a query orders by a field.
type Direction uint8

// The directions.
const (
	Asc  Direction = iota // the smallest first, null before all others
	Desc                  // the greatest first, null after all others
)

// String returns "ascending" or "descending".
func (d Direction) String() string {
	if d == Asc {
		return "ascending"
	}
	return "descending"
}

// Query selects and orders entries of a table. [Where] and [All] make one; its methods change it
// and return it. A field is named as in the Go type, and a field of a struct in a field by a path
// with dots: "Address.City". A Query does not belong to a table. Several goroutines may use it once
// none of them changes it.
type Query struct {
	groups [][]condition // an entry is selected if all conditions of one group hold, or if there are no groups
	orders []order
	limit  int // 0: none
	offset int
	after  string // cursor; "": from the first entry on
}

type condition struct {
	field  string
	op     Op
	values []any
}

type order struct {
	field     string
	direction Direction
}

// All selects every entry.
func All() *Query { return &Query{} }

// Where returns a query that selects the entries whose field satisfies the comparison with values.
func Where(field string, op Op, values ...any) *Query {
	return &Query{groups: [][]condition{{{field, op, values}}}}
}

// And adds a condition to the group of the last [Where] or Or: all conditions of a group must hold.
func (q *Query) And(field string, op Op, values ...any) *Query {
	if len(q.groups) == 0 {
		return q.Or(field, op, values...)
	}
	last := &q.groups[len(q.groups)-1]
	*last = append(*last, condition{field, op, values})
	return q
}

// Or begins another group of conditions: an entry is selected if all conditions of one group hold.
// Where(a).And(b).Or(c).And(d) is a AND b OR c AND d in SQL.
func (q *Query) Or(field string, op Op, values ...any) *Query {
	q.groups = append(q.groups, []condition{{field, op, values}})
	return q
}

// OrderBy orders the entries by a field. Further calls order entries that are equal in the fields
// before. Entries that are equal in all of them, and all entries without OrderBy, are in the order
// of their keys, ascending.
func (q *Query) OrderBy(field string, d Direction) *Query {
	q.orders = append(q.orders, order{field, d})
	return q
}

// Limit bounds the number of entries; 0 means no limit. A negative number is Invalid when the query
// is used.
func (q *Query) Limit(n int) *Query { q.limit = n; return q }

// Offset leaves out the first n entries, counted from the cursor of [Query.After] if there is one.
// A negative number is Invalid when the query is used.
func (q *Query) Offset(n int) *Query { q.offset = n; return q }

// After makes the query begin after the entry at cursor, which [Table.Page] has returned for a
// query with the same conditions and order. "" means the first entry. A walk by pages uses no
// Offset, since that would leave out entries of every page.
func (q *Query) After(cursor string) *Query { q.after = cursor; return q }

// check returns an Invalid error if limit or offset are negative.
func (q *Query) check() error {
	if q.limit < 0 || q.offset < 0 {
		return mainstem.Refusef(mainstem.KindInvalid, "read model", "query: Limit %d and Offset %d: want 0 or more", q.limit, q.offset)
	}
	return nil
}

// FieldError reports that a query or an index names a field that the type lacks, or that a query
// compares a field with a value that it cannot be compared with. It is of kind Invalid, and is
// returned before anything is read.
type FieldError struct {
	Type   string // Go type of the entries
	Field  string
	Reason string
}

// Error names the type, the field and the reason.
func (e *FieldError) Error() string {
	return fmt.Sprintf("query: field %.60q of %s: %s", e.Field, e.Type, e.Reason)
}

// Unwrap makes the error one of kind Invalid.
func (e *FieldError) Unwrap() error {
	return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "query"}
}
