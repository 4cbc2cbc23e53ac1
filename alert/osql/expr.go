package osql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mainstemdev/mainstem"
)

// value is a translated expression.
type value struct {
	sql      string
	typ      Type
	column   *Column // if it is nothing but a column
	of       *Column // the same, also in parentheses
	literal  *slot   // if it is nothing but a literal, also in parentheses
	constant bool    // it is a literal, also in parentheses or with a sign
	call     string  // the function that returns it
}

// String says what the value is, for errors.
func (v value) String() string {
	switch {
	case v.of != nil:
		return fmt.Sprintf("the column %s, of type %s,", v.of.Name, v.typ)
	case v.call != "":
		return fmt.Sprintf("the result of %s, of type %s,", v.call, v.typ)
	}
	return fmt.Sprintf("an expression of type %s", v.typ)
}

// terms translates the parts of a chain of operators and joins them.
func terms[T any](parts []T, translate func(T) (value, error), between string) (value, error) {
	first, err := translate(parts[0])
	if err != nil || len(parts) == 1 {
		return first, err
	}
	sql := make([]string, len(parts))
	sql[0] = first.sql
	for i := 1; i < len(parts); i++ {
		x, err := translate(parts[i])
		if err != nil {
			return value{}, err
		}
		sql[i] = x.sql
	}
	return value{sql: "(" + strings.Join(sql, between) + ")", typ: Boolean}, nil
}

func (t *translator) expr(e *expr, sc *scope) (value, error) {
	return terms(e.Terms, func(x *xorTerm) (value, error) {
		return t.xor(x, sc)
	}, " OR ")
}

// xor compares truth values, not numbers.
func (t *translator) xor(x *xorTerm, sc *scope) (value, error) {
	truth := func(a *andTerm) (value, error) {
		v, err := terms(a.Terms, func(n *notTerm) (value, error) { return t.not(n, sc) }, " AND ")
		if len(x.Terms) > 1 {
			v.sql = "(" + v.sql + " <> 0)"
		}
		return v, err
	}
	return terms(x.Terms, truth, " <> ")
}

func (t *translator) not(n *notTerm, sc *scope) (value, error) {
	v, err := t.compare(n.Compare, sc)
	if err != nil || len(n.Not) == 0 {
		return v, err
	}
	if len(n.Not)%2 == 1 {
		return value{sql: "(NOT " + v.sql + ")", typ: Boolean}, nil
	}
	return value{sql: v.sql, typ: Boolean}, nil
}

func (t *translator) compare(c *comparison, sc *scope) (value, error) {
	left, err := t.sum(c.Left, sc)
	if err != nil || c.Tail == nil {
		return left, err
	}
	var sql string
	switch tail := c.Tail; {
	case tail.Op != "" && tail.Any != nil:
		sql, err = t.anyOf(left, tail.Op, tail.Any, sc)
	case tail.Op != "":
		var right value
		if right, err = t.sum(tail.Right, sc); err == nil {
			sql, err = t.operation(left, tail.Op, right)
		}
	case tail.Like != nil:
		sql, err = t.like(left, tail.Like, sc)
	case tail.In != nil:
		sql, err = t.in(left, tail.In, sc)
	default:
		sql, err = t.between(left, tail.Between, sc)
	}
	if c.Tail.Not {
		sql = "NOT " + sql
	}
	return value{sql: "(" + sql + ")", typ: Boolean}, err
}

// operation writes a comparison. Those with % do not look at the case of texts.
func (t *translator) operation(a value, op string, b value) (string, error) {
	folded := op[0] == '%'
	op = strings.TrimPrefix(op, "%")
	ordered := false
	switch op {
	case "==", "=":
		op = "="
	case "!=", "<>":
		op = "<>"
	default:
		ordered = true
	}
	x, y, err := t.comparable(a, b, ordered)
	if err != nil {
		return "", err
	}
	if folded && a.typ.Text() && b.typ.Text() {
		return "lower(" + x.sql + ") " + op + " lower(" + y.sql + ")", nil
	}
	return x.sql + " " + op + " " + y.sql, nil
}

// anyOf translates = ANY (...) and its relatives.
func (t *translator) anyOf(left value, op string, q *quantified, sc *scope) (string, error) {
	if q.Set.Sub != nil {
		in, err := t.in(left, q.Set, sc)
		switch {
		case err != nil:
			return "", err
		case q.Quantifier == "ANY" && (op == "=" || op == "=="):
			return in, nil
		case q.Quantifier == "ALL" && (op == "<>" || op == "!="):
			return "NOT " + in, nil
		}
		return "", mainstem.Refusef(mainstem.KindUnsupported, "sql", "%s %s with a SELECT is not supported", op, q.Quantifier)
	}
	return t.each(q, sc, func(right value) (string, error) {
		sql, err := t.operation(left, op, right)
		return "(" + sql + ")", err
	})
}

// each joins what make returns for each value of a quantified list.
func (t *translator) each(q *quantified, sc *scope, make func(value) (string, error)) (string, error) {
	var parts []string
	for _, e := range q.Set.List {
		x, err := t.expr(e, sc)
		if err != nil {
			return "", err
		}
		part, err := make(x)
		if err != nil {
			return "", err
		}
		parts = append(parts, part)
	}
	between := " OR "
	if q.Quantifier == "ALL" {
		between = " AND "
	}
	return "(" + strings.Join(parts, between) + ")", nil
}

func (t *translator) like(left value, l *likeTail, sc *scope) (string, error) {
	if l.Any == nil {
		pattern, err := t.sum(l.Pattern, sc)
		if err != nil {
			return "", err
		}
		if l.plain() {
			return "instr(" + left.sql + ", " + pattern.sql + ") > 0", nil
		}
		return "osql_like(" + left.sql + ", " + pattern.sql + ")", nil
	}
	if l.Any.Set.Sub != nil {
		return "", mainstem.Refusef(mainstem.KindUnsupported, "sql", "LIKE %s with a SELECT is not supported", l.Any.Quantifier)
	}
	return t.each(l.Any, sc, func(p value) (string, error) { return "osql_like(" + left.sql + ", " + p.sql + ")", nil })
}

// plain reports whether the pattern is a literal that matches what contains it.
func (l *likeTail) plain() bool {
	p := l.Pattern
	if len(p.Rest) > 0 || len(p.First.Rest) > 0 || len(p.First.First.Signs) > 0 {
		return false
	}
	s := p.First.First.Primary.Slot
	return s != nil && s.Kind == PlainPattern
}

func (t *translator) in(left value, s *set, sc *scope) (string, error) {
	if s.Sub != nil {
		sub, names, err := t.selectSQL(s.Sub, sc)
		if err != nil {
			return "", err
		}
		if len(names) != 1 {
			return "", mainstem.Refusef(mainstem.KindInvalid, "sql", "a SELECT inside of IN gives one column, not %d", len(names))
		}
		left, _, err = t.among(left, []value{{typ: names[0].Type, call: "a SELECT"}}, true)
		return left.sql + " IN (" + sub + ")", err
	}
	list := make([]value, len(s.List))
	for i, e := range s.List {
		var err error
		if list[i], err = t.expr(e, sc); err != nil {
			return "", err
		}
	}
	left, list, err := t.among(left, list, false)
	if err != nil {
		return "", err
	}
	parts := make([]string, len(list))
	for i, x := range list {
		parts[i] = x.sql
	}
	return left.sql + " IN (" + strings.Join(parts, ", ") + ")", nil
}

func (t *translator) between(left value, b *between, sc *scope) (string, error) {
	low, err := t.sum(b.Low, sc)
	if err != nil {
		return "", err
	}
	high, err := t.sum(b.High, sc)
	if err != nil {
		return "", err
	}
	left, ends, err := t.among(left, []value{low, high}, true)
	if err != nil {
		return "", err
	}
	return left.sql + " BETWEEN " + ends[0].sql + " AND " + ends[1].sql, nil
}

// sum translates + and -; + between texts, or a text and anything, joins them.
func (t *translator) sum(s *sum, sc *scope) (value, error) {
	v, err := t.product(s.First, sc)
	for _, r := range s.Rest {
		if err != nil {
			return v, err
		}
		var x value
		x, err = t.product(r.Term, sc)
		text := v.typ.Text() || x.typ.Text()
		switch {
		case text && r.Op == "+":
			v = value{sql: "(" + v.sql + " || " + x.sql + ")", typ: Varchar}
		case text:
			return v, mainstem.Refusef(mainstem.KindInvalid, "sql", "- does not work on texts")
		default:
			v = value{sql: "(" + v.sql + " " + r.Op + " " + x.sql + ")", typ: wider(v.typ, x.typ)}
		}
	}
	return v, err
}

// wider returns the type of a number that was computed from two others.
func wider(a, b Type) Type {
	switch {
	case a == Real || b == Real:
		return Real
	case a == b:
		return a
	case a == Time || b == Time:
		return Time
	}
	return Integer64
}

func (t *translator) product(p *product, sc *scope) (value, error) {
	v, err := t.unary(p.First, sc)
	for _, r := range p.Rest {
		if err != nil {
			return v, err
		}
		var x value
		x, err = t.unary(r.Term, sc)
		if v.typ.Text() || x.typ.Text() {
			return v, mainstem.Refusef(mainstem.KindInvalid, "sql", "%s does not work on texts", r.Op)
		}
		v = value{sql: "(" + v.sql + " " + r.Op + " " + x.sql + ")", typ: wider(v.typ, x.typ)}
	}
	return v, err
}

func (t *translator) unary(u *unary, sc *scope) (value, error) {
	v, err := t.primary(u.Primary, sc)
	negative := false
	for _, s := range u.Signs {
		negative = negative != (s == "-")
	}
	if err == nil && len(u.Signs) > 0 {
		if v.typ.Text() && negative {
			return v, mainstem.Refusef(mainstem.KindInvalid, "sql", "a minus before a text has no meaning")
		}
		v.column, v.of, v.literal, v.call = nil, nil, nil, ""
		if negative {
			v.sql = "(- " + v.sql + ")"
		} else {
			v.sql = "(+" + v.sql + ")" // kept: SQLite then uses no index for the column
		}
	}
	return v, err
}

func (t *translator) primary(p *primary, sc *scope) (value, error) {
	switch {
	case p.Slot != nil:
		return value{sql: t.param(Param{Slot: p.Slot.Index}), typ: p.Slot.Kind.typ(), literal: p.Slot, constant: true}, nil
	case p.Bool != "":
		return value{sql: strings.ToUpper(p.Bool), typ: Boolean}, nil
	case p.Case != nil:
		return t.caseWhen(p.Case, sc)
	case p.Call != nil:
		return t.call(p.Call, sc)
	case p.Sub != nil:
		sub, names, err := t.selectSQL(p.Sub, sc)
		if err != nil {
			return value{}, err
		}
		if len(names) != 1 {
			return value{}, mainstem.Refusef(mainstem.KindInvalid, "sql", "a SELECT inside of an expression gives one column, not %d", len(names))
		}
		return value{sql: "(" + sub + ")", typ: names[0].Type}, nil
	case p.Paren != nil:
		v, err := t.expr(p.Paren, sc)
		v.sql, v.column = "("+v.sql+")", nil
		return v, err
	}
	return t.ref(p.Ref.Parts, sc)
}

// typ returns the type of a literal.
func (k LiteralKind) typ() Type {
	switch k {
	case IntLiteral:
		return Integer64
	case RealLiteral:
		return Real
	}
	return Varchar
}

// ref translates a name: a column, an alias, or a function without parentheses.
func (t *translator) ref(parts []string, sc *scope) (value, error) {
	if v, ok := sc.find(parts); ok {
		return v, nil
	}
	if len(parts) == 1 {
		if e := sc.alias(parts[0]); e != nil {
			return t.expr(e, &scope{parent: sc.parent, tables: sc.tables}) // without aliases: none can mean itself
		}
		if f, ok := functions[strings.ToLower(parts[0])]; ok && f.bare {
			return f.translate(t, nil)
		}
	}
	return value{}, t.unknown(parts, sc)
}

func (t *translator) unknown(parts []string, sc *scope) error {
	n := strings.Join(parts, ".")
	if sc == nil || len(sc.tables) == 0 {
		return mainstem.Refusef(mainstem.KindNotFound, "sql", "there is no column %s: the statement names no table", n)
	}
	if len(parts) == 1 {
		_, err := column(sc.tables[0].table, n)
		return err
	}
	return mainstem.Refusef(mainstem.KindNotFound, "sql", "there is no column %s", n)
}

// caseWhen translates CASE. If some of its results are texts, all are.
func (t *translator) caseWhen(c *caseExpr, sc *scope) (value, error) {
	var operand value
	var whens, results []value
	add := func(list *[]value, e *expr) error {
		x, err := t.expr(e, sc)
		*list = append(*list, x)
		return err
	}
	var err error
	if c.Operand != nil {
		operand, err = t.expr(c.Operand, sc)
	}
	for _, w := range c.Whens {
		if err == nil {
			err = add(&whens, w.When)
		}
		if err == nil {
			err = add(&results, w.Then)
		}
	}
	if c.Else != nil && err == nil {
		err = add(&results, c.Else)
	}
	if c.Operand != nil && err == nil {
		operand, whens, err = t.among(operand, whens, false)
	}
	if err != nil {
		return value{}, err
	}
	out := value{typ: results[0].typ}
	if slices.ContainsFunc(results, func(r value) bool { return r.typ.Text() != out.typ.Text() }) {
		out.typ = Varchar
		for i := range results {
			if !results[i].typ.Text() {
				results[i].sql = "CAST(" + results[i].sql + " AS TEXT)"
			}
		}
	}
	var b strings.Builder
	b.WriteString("(CASE")
	if c.Operand != nil {
		b.WriteString(" " + operand.sql)
	}
	for i, w := range whens {
		b.WriteString(" WHEN " + w.sql + " THEN " + results[i].sql)
	}
	if c.Else != nil {
		b.WriteString(" ELSE " + results[len(whens)].sql)
	}
	b.WriteString(" END)")
	out.sql = b.String()
	return out, nil
}
