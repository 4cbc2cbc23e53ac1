package osql

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mainstemdev/mainstem"
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
// returns them as SQLite compares them. ordered says that the order counts, not only
// whether they are equal. See [mixed] for what cannot be compared.
func (t *translator) comparable(left, right value, ordered bool) (value, value, error) {
	if err := mixed(left, right, ordered); err != nil {
		return left, right, err
	}
	return t.against(left, right), t.against(right, left), nil
}

// mixed refuses a text that is compared with a number. SQLite finds each text greater than each
// number, or compares the number as a text, so '10' is before '9'. Allowed are a literal, which
// [Query.Check] looks at, and a column of text that equals a constant: it is compared as a text.
func mixed(left, right value, ordered bool) error {
	text, number := left, right
	if !text.typ.Text() {
		text, number = right, left
	}
	switch {
	case !text.typ.Text() || number.typ.Text() || text.literal != nil:
		return nil
	case text.of != nil && number.constant && !ordered:
		return nil
	}
	e := mainstem.Refusef(mainstem.KindInvalid, "sql", "%s cannot be compared with %s", text, number)
	e.Hint = "to_int(…) and to_real(…) make a number of a text, to_char(…) a text of a number"
	return e
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

// among returns left and list as left is looked for in the list. A column of a list does not convert
// a text or a number, so a literal text that is looked for among numbers is converted here, and a
// number is not looked for among columns of text.
func (t *translator) among(left value, list []value, ordered bool) (value, []value, error) {
	if left.literal != nil && left.typ.Text() {
		for _, x := range list {
			if !x.typ.Text() {
				t.query.Checks = append(t.query.Checks, Check{Slot: left.literal.Index, Column: x.of, Type: x.typ})
				left = value{sql: "CAST(" + left.sql + " AS NUMERIC)", typ: x.typ}
				break
			}
		}
	}
	out := make([]value, len(list))
	for i, x := range list {
		if err := mixed(left, x, ordered || !left.typ.Text()); err != nil {
			return left, nil, err
		}
		out[i] = t.against(x, left)
	}
	return left, out, nil
}
