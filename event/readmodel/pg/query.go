package readmodelpg

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/readmodel"
)

// question is a query for one table, with its conditions in SQL.
type question struct {
	l      *layout
	parsed *readmodel.Parsed
	where  [][]string // conditions, in SQL: as readmodel.Parsed.Groups
	orders []*column  // the columns of parsed.Orders
	b      *builder   // the statement; it gets the parameters of the conditions
}

// newQuestion checks q, and translates its conditions. Their values become parameters of b.
func newQuestion(l *layout, q *readmodel.Query, b *builder) (*question, error) {
	parsed, err := q.Parse(l.typ)
	if err != nil {
		return nil, err
	}
	a := &question{l: l, parsed: parsed, b: b}
	for _, group := range parsed.Groups {
		var conditions []string
		for i := range group {
			c, err := a.condition(&group[i])
			if err != nil {
				return nil, err
			}
			conditions = append(conditions, c)
		}
		a.where = append(a.where, conditions)
	}
	for _, o := range parsed.Orders {
		c, err := a.column(o.Field)
		if err == nil && c.typ.family >= famBytes && c.typ.family != famUUID {
			err = a.wrong(o.Field, "a column of type %s has no order", c.typ.name)
		}
		if err != nil {
			return nil, err
		}
		a.orders = append(a.orders, c)
	}
	return a, nil
}

// wrong returns a [*readmodel.FieldError].
func (a *question) wrong(field, format string, args ...any) error {
	return &readmodel.FieldError{Type: a.l.typ.String(), Field: field, Reason: fmt.Sprintf(format, args...)}
}

// column returns the column of a field.
func (a *question) column(field string) (*column, error) {
	if c := a.l.column(field); c != nil {
		return c, nil
	}
	return nil, a.wrong(field, "it is no column of the table: it is within one of JSON, or its tag is sql:\"-\"")
}

// condition returns one condition in SQL.
func (a *question) condition(cond *readmodel.Condition) (string, error) {
	c, err := a.column(cond.Field)
	if err != nil {
		return "", err
	}
	name := quote(c.name)
	switch cond.Op {
	case readmodel.IsNull, readmodel.NotNull:
		null := cond.Op == readmodel.IsNull
		switch {
		case c.null && null:
			return name + " IS NULL", nil
		case c.null:
			return name + " IS NOT NULL", nil
		}
		return truth(!null), nil
	}
	if c.typ.family == famJSON || c.typ.family == famUUID && cond.Op == readmodel.Contains {
		return "", a.wrong(cond.Field, "a column of type %s cannot be compared by %s", c.typ.name, cond.Op)
	}
	values, err := a.operands(c, cond)
	if err != nil {
		return "", err
	}
	switch cond.Op {
	case readmodel.Contains:
		return a.contains(c, values[0]), nil
	case readmodel.Like:
		return c.text() + " LIKE " + a.b.arg(pattern(values[0].(string)), "text"), nil
	case readmodel.Eq, readmodel.In:
		return a.equal(c, values), nil
	case readmodel.Ne, readmodel.NotIn:
		return a.unequal(c, values), nil
	case readmodel.Between:
		return a.compare(c, ">=", values[0]) + " AND " + a.compare(c, "<=", values[1]), nil
	}
	return a.compare(c, map[readmodel.Op]string{readmodel.Gt: ">", readmodel.Ge: ">=", readmodel.Lt: "<", readmodel.Le: "<="}[cond.Op], values[0]), nil
}

// truth returns a constant of SQL.
func truth(b bool) string {
	if b {
		return "TRUE"
	}
	return "FALSE"
}

// text returns a column of text or UUIDs as a text in SQL.
func (c *column) text() string {
	if c.typ.family == famUUID {
		return quote(c.name) + "::text"
	}
	return c.compared()
}

// operands returns the values of a condition as the column holds them.
func (a *question) operands(c *column, cond *readmodel.Condition) ([]any, error) {
	out := make([]any, len(cond.Values))
	for i, v := range cond.Values {
		x, reason := c.operand(v, cond.Op)
		if reason != "" {
			return nil, a.wrong(cond.Field, "%s", reason)
		}
		out[i] = x
	}
	return out, nil
}

// operand returns one value as the column holds it, or the reason why it cannot.
func (c *column) operand(v any, o readmodel.Op) (any, string) {
	switch x := v.(type) {
	case string:
		if !validText(x) {
			return nil, fmt.Sprintf("%.60q: %s", x, errText)
		}
		if c.typ.family == famUUID && o != readmodel.Like {
			id, err := uuidText(x)
			if err != nil {
				return nil, fmt.Sprintf("%.60q is not a UUID", x)
			}
			return id, ""
		}
	case time.Time:
		t, err := encodeTime(x)
		if err != nil {
			return nil, err.Error()
		}
		return t, ""
	}
	return v, ""
}

// beyond reports whether v is greater than every value that the column can hold.
func (c *column) beyond(v any) bool {
	u, ok := v.(uint64)
	return ok && u > math.MaxInt64 && c.typ.cast != "numeric"
}

// nan reports whether v is NaN, which has no order and equals nothing.
func nan(v any) bool {
	f, ok := v.(float64)
	return ok && math.IsNaN(f)
}

// compare returns the comparison of a column with one value, by an operator of SQL.
func (a *question) compare(c *column, with string, v any) string {
	switch {
	case nan(v), c.beyond(v) && with[0] == '>':
		return "FALSE"
	case c.beyond(v):
		return quote(c.name) + " IS NOT NULL"
	}
	return c.compared() + " " + with + " " + a.b.arg(v, c.typ.cast)
}

// equal returns the condition that the column equals one of values.
func (a *question) equal(c *column, values []any) string {
	values = a.possible(c, values)
	switch len(values) {
	case 0:
		return "FALSE"
	case 1:
		return quote(c.name) + " = " + a.b.arg(values[0], c.typ.cast)
	}
	return quote(c.name) + " = ANY (" + a.array(c, values) + ")"
}

// unequal returns the condition that the column equals none of values and is not NULL.
func (a *question) unequal(c *column, values []any) string {
	values = a.possible(c, values)
	switch len(values) {
	case 0:
		return quote(c.name) + " IS NOT NULL"
	case 1:
		return quote(c.name) + " <> " + a.b.arg(values[0], c.typ.cast)
	}
	return quote(c.name) + " <> ALL (" + a.array(c, values) + ")"
}

// possible returns those of values that the column can be equal to.
func (a *question) possible(c *column, values []any) (out []any) {
	for _, v := range values {
		if !nan(v) && !c.beyond(v) {
			out = append(out, v)
		}
	}
	return out
}

// array returns values as one parameter, an array.
func (a *question) array(c *column, values []any) string {
	if c.typ.cast == "numeric" {
		texts := make([]string, len(values))
		for i, v := range values {
			texts[i] = fmt.Sprint(v)
		}
		return a.b.arg(texts, "numeric[]")
	}
	return a.b.arg(typed(c.typ.family, values), c.typ.cast+"[]")
}

// contains returns the condition that a text or a list contains a value.
func (a *question) contains(c *column, v any) string {
	switch c.typ.family {
	case famText:
		return "strpos(" + c.compared() + ", " + a.b.arg(v, "text") + ") > 0"
	case famBytes:
		if u := v.(uint64); u <= math.MaxUint8 {
			return "position(" + a.b.arg([]byte{byte(u)}, "bytea") + " IN " + quote(c.name) + ") > 0"
		}
		return "FALSE"
	}
	if nan(v) || c.beyond(v) {
		return "FALSE"
	}
	return a.b.arg(v, c.typ.cast) + " = ANY (" + quote(c.name) + ")"
}

// pattern returns a pattern of Like for PostgreSQL. In package readmodel, a backslash at the end
// stands for itself; PostgreSQL refuses it unless it is doubled.
func pattern(p string) string {
	if n := len(p) - len(strings.TrimRight(p, `\`)); n%2 == 1 {
		return p + `\`
	}
	return p
}

// selection adds the WHERE clause of the conditions to the statement.
func (a *question) selection() {
	var groups []string
	for _, g := range a.where {
		groups = append(groups, strings.Join(g, " AND "))
	}
	if len(groups) > 0 {
		a.b.add(" WHERE (", strings.Join(groups, " OR "), ")")
	}
}

// page adds the clauses WHERE, ORDER BY, LIMIT and OFFSET. The statement must call the table t.
func (a *question) page() error {
	a.selection()
	if a.parsed.After != nil {
		after, err := a.after()
		if err != nil {
			return err
		}
		if len(a.where) == 0 {
			a.b.add(" WHERE ")
		} else {
			a.b.add(" AND ")
		}
		a.b.add("(", after, ")")
	}
	a.b.add(" ORDER BY ") // with t: a bare name would be an item of the list, which may be cast to text
	for i, c := range a.orders {
		a.b.add("t.", c.compared(), c.direction(a.parsed.Orders[i].Direction), ", ")
	}
	a.b.add("t.", a.l.key.compared())
	if a.parsed.Limit > 0 {
		a.b.add(" LIMIT ", a.b.arg(int64(a.parsed.Limit), "bigint"))
	}
	if a.parsed.Offset > 0 {
		a.b.add(" OFFSET ", a.b.arg(int64(a.parsed.Offset), "bigint"))
	}
	return nil
}

// direction returns the direction of an ORDER BY: NULL comes before all other values.
func (c *column) direction(d readmodel.Direction) string {
	switch {
	case d == readmodel.Desc && c.optional:
		return " DESC NULLS LAST"
	case d == readmodel.Desc:
		return " DESC"
	case c.optional:
		return " ASC NULLS FIRST"
	}
	return " ASC"
}

// after returns the condition that an entry comes after the place of the cursor. For an order by x
// and y it is: x is behind the place, or x is equal and y is behind, or both are equal and the key
// is greater.
func (a *question) after() (string, error) {
	place := a.parsed.After
	var cases []string
	equal := ""
	for i, c := range a.orders {
		v := place.Order[i]
		if v != nil {
			var reason string
			if v, reason = c.operand(v, readmodel.Eq); reason != "" || nan(v) || c.beyond(v) {
				return "", mainstem.Refusef(mainstem.KindInvalid, op, "query: the cursor is not one of this query: %v of %s", v, c.name)
			}
		}
		if behind := a.behind(c, a.parsed.Orders[i].Direction, v); behind != "" {
			cases = append(cases, equal+behind)
		}
		if v == nil {
			equal += quote(c.name) + " IS NULL AND "
		} else {
			equal += quote(c.name) + " = " + a.b.arg(v, c.typ.cast) + " AND "
		}
	}
	key, err := a.l.keyValue(place.Key)
	if err != nil {
		return "", err
	}
	cases = append(cases, equal+a.l.key.compared()+" > "+a.b.arg(key, a.l.key.typ.cast))
	return strings.Join(cases, " OR "), nil
}

// behind returns the condition that a column comes after v in an order; "" if it never does.
func (a *question) behind(c *column, d readmodel.Direction, v any) string {
	switch {
	case v == nil && d == readmodel.Desc:
		return ""
	case v == nil:
		return quote(c.name) + " IS NOT NULL"
	case d == readmodel.Asc:
		return c.compared() + " > " + a.b.arg(v, c.typ.cast)
	case c.optional:
		return "(" + c.compared() + " < " + a.b.arg(v, c.typ.cast) + " OR " + quote(c.name) + " IS NULL)"
	}
	return c.compared() + " < " + a.b.arg(v, c.typ.cast)
}
