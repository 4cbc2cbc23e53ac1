package osql

import (
	"fmt"
	"strconv"
	"strings"
)

// Check says that a literal is compared with a number, and so has to be one: SQLite
// finds a number and another text unequal, and the statement would match nothing, or
// everything, without an error.
type Check struct {
	Slot   int     // the literal
	Column *Column // that it is compared with, nil if it is an expression
	Type   Type    // of the column or expression: none of the texts
}

// CheckError is a text that stands where a number of some column has to.
type CheckError struct {
	Value  string
	Column string // "" if it is an expression
	Type   Type
}

// Error names the column, its type and the value.
func (e *CheckError) Error() string {
	if e.Column == "" {
		return fmt.Sprintf("%.60q is no number, where one of type %s is wanted", e.Value, e.Type)
	}
	return fmt.Sprintf("%.60q is no number, and the column %s is of type %s", e.Value, e.Column, e.Type)
}

// Check returns a [CheckError] for the first of the literals that is not what its
// query needs, nil if all are.
func (q *Query) Check(literals []Literal) error {
	for _, c := range q.Checks {
		l := &literals[c.Slot]
		if l.Kind == IntLiteral || l.Kind == RealLiteral || isNumber(l.Text) {
			continue
		}
		e := &CheckError{Value: l.Text, Type: c.Type}
		if c.Column != nil {
			e.Column = c.Column.Name
		}
		return e
	}
	return nil
}

// isNumber reports whether SQLite takes a text for a number when it is compared with one.
func isNumber(s string) bool {
	s = strings.Trim(s, " \t\n\v\f\r")
	if strings.Trim(s, "0123456789+-.eE") != "" {
		return false // also what Go reads: hexadecimal digits, infinity
	}
	_, err := strconv.ParseFloat(s, 64)
	return err == nil || s != "" && strings.HasSuffix(err.Error(), strconv.ErrRange.Error())
}

// comparable notes what has to be checked so that two values can be compared, and
// returns them as SQLite compares them.
func (t *translator) comparable(left, right value) (value, value) {
	return t.against(left, right), t.against(right, left)
}

// against returns v as it is compared with other. A column converts a text that it is
// compared with; other numbers do not, so that has to be asked for.
func (t *translator) against(v, other value) value {
	if v.literal == nil || !v.typ.Text() || other.typ.Text() {
		return v
	}
	t.query.Checks = append(t.query.Checks, Check{Slot: v.literal.Index, Column: other.of, Type: other.typ})
	if other.of == nil {
		v.sql = "CAST(" + v.sql + " AS NUMERIC)"
	}
	return v
}
