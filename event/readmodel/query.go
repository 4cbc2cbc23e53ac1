package readmodel

import (
	"fmt"

	"github.com/mainstemdev/mainstem"
)

// Op compares a field with values.
type Op uint8

// The comparisons. A field that is a nil pointer is null: of these only IsNull, and a NotNull
// that is false, say anything about it; all others do not hold, as in SQL.
const (
	Eq       Op = iota // one value
	Ne                 // one value
	Gt                 // one value; of numbers, text and times, as the three below
	Ge                 // one value
	Lt                 // one value
	Le                 // one value
	In                 // any number of values, or a slice of them
	NotIn              // any number of values, or a slice of them
	Like               // a pattern of text: % is any text, _ one character, \ takes the next as it is
	Contains           // text in text, or an element in a slice
	Between            // two values, both included
	IsNull             // no value
	NotNull            // no value
)

var opNames = [...]string{"Eq", "Ne", "Gt", "Ge", "Lt", "Le", "In", "NotIn", "Like", "Contains", "Between", "IsNull", "NotNull"}

// String returns the name of the comparison.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return "unknown comparison"
}

// Direction is the direction of an order.
type Direction uint8

// The directions.
const (
	Asc  Direction = iota // the smallest first, null before all
	Desc                  // the greatest first, null after all
)

// String returns "ascending" or "descending".
func (d Direction) String() string {
	if d == Asc {
		return "ascending"
	}
	return "descending"
}

// Query selects entries of a table. Make one with [Where] or [All]; its methods change and
// return it. Fields are those of the Go type, below others with a dot: "Address.City". It does
// not belong to one table, and is not safe for concurrent use while it is changed.
type Query struct {
	groups [][]condition // one of them must hold, each with all its conditions; none: everything
	orders []order
	limit  int
	offset int
	after  string
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

// Where selects the entries whose field compares so.
func Where(field string, op Op, values ...any) *Query {
	return &Query{groups: [][]condition{{{field, op, values}}}}
}

// And demands one more condition of those since the last Or.
func (q *Query) And(field string, op Op, values ...any) *Query {
	if len(q.groups) == 0 {
		return q.Or(field, op, values...)
	}
	last := &q.groups[len(q.groups)-1]
	*last = append(*last, condition{field, op, values})
	return q
}

// Or begins other conditions that suffice: a AND b OR c AND d, as in SQL.
func (q *Query) Or(field string, op Op, values ...any) *Query {
	q.groups = append(q.groups, []condition{{field, op, values}})
	return q
}

// OrderBy sorts by a field; called again, by a further one among equal ones. Entries that are
// equal in all of them, and all entries without OrderBy, are in the order of their keys.
func (q *Query) OrderBy(field string, d Direction) *Query {
	q.orders = append(q.orders, order{field, d})
	return q
}

// Limit bounds the number of entries; 0 means no limit.
func (q *Query) Limit(n int) *Query { q.limit = n; return q }

// Offset leaves out the first n entries.
func (q *Query) Offset(n int) *Query { q.offset = n; return q }

// After goes on after a page; see [Table.Page]. The rest of the query must be the same.
func (q *Query) After(cursor string) *Query { q.after = cursor; return q }

func (q *Query) check() error {
	if q.limit < 0 || q.offset < 0 {
		return mainstem.Refusef(mainstem.KindInvalid, "read model", "query: Limit %d and Offset %d: want 0 or more", q.limit, q.offset)
	}
	return nil
}

// FieldError says that a query names a field that the type lacks, or compares it with what it cannot
// be compared with. It is Invalid, and comes before anything is read.
type FieldError struct {
	Type   string // the Go type of the table
	Field  string
	Reason string
}

// Error names type and field.
func (e *FieldError) Error() string {
	return fmt.Sprintf("query: field %.60q of %s: %s", e.Field, e.Type, e.Reason)
}

// Unwrap makes it an error of kind Invalid.
func (e *FieldError) Unwrap() error {
	return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "query"}
}
