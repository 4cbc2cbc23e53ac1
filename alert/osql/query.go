package osql

import (
	"fmt"
	"strings"

	"github.com/mainstemdev/mainstem"
)

// scope is the tables that a SELECT can name, and those around it.
type scope struct {
	parent *scope
	tables []bound
	items  []*item // for the aliases that ORDER BY and GROUP BY may name
}

// bound is a table under the name that it has in a statement.
type bound struct {
	table *Table
	name  string // as the statement calls it, or ""
	alias string // in SQLite
}

func (s *scope) add(t *translator, table *Table, name string) {
	s.tables = append(s.tables, bound{table, name, fmt.Sprintf("a%d", t.aliases)})
	t.aliases++
}

// named reports whether parts, all but the last of a column's name, mean b.
func (b *bound) named(parts []string) bool {
	switch len(parts) {
	case 0:
		return true
	case 1:
		return b.name == parts[0] || b.name == "" && b.table.Name == parts[0]
	case 2:
		return b.table.Database == parts[0] && b.table.Name == parts[1]
	}
	return false
}

// column returns the i-th column of b. The column that numbers the rows is also
// their number in the mirror, by which they are found at once.
func (b *bound) column(i int) string {
	c := &b.table.Columns[i]
	if c.Type == Incr && i == b.table.numbering() {
		return b.alias + "." + RowID
	}
	return b.alias + "." + MirrorColumn(c)
}

// find returns the SQL and the type of the column that parts name.
func (s *scope) find(parts []string) (value, bool) {
	last := parts[len(parts)-1]
	for ; s != nil; s = s.parent {
		for i := range s.tables {
			b := &s.tables[i]
			if !b.named(parts[:len(parts)-1]) {
				continue
			}
			if c := b.table.Column(last); c >= 0 {
				col := &b.table.Columns[c]
				return value{sql: b.column(c), typ: col.Type, column: col, of: col}, true
			}
			if last == RowSerial {
				col := &Column{Name: RowSerial, Type: Integer, Size: 4}
				return value{sql: b.alias + "." + RowID, typ: Integer, column: col, of: col}, true
			}
		}
	}
	return value{}, false
}

// alias returns the expression that an item of the select list is the name of.
func (s *scope) alias(name string) *expr {
	if s == nil {
		return nil
	}
	for _, i := range s.items {
		if i.Alias == name && i.Expr != nil {
			return i.Expr
		}
	}
	return nil
}

func (t *translator) selectPlan(s *selectStatement) error {
	t.plan.Verb = Select
	t.begin(&t.plan.Query)
	sql, names, err := t.selectSQL(s, nil)
	if err != nil {
		return err
	}
	t.plan.Names = names
	if len(s.From) == 1 {
		t.plan.Table = t.plan.Reads[0]
	}
	return t.finish(sql)
}

// selectSQL translates a SELECT inside of parent, which may be nil.
func (t *translator) selectSQL(s *selectStatement, parent *scope) (string, []ResultName, error) {
	sc := &scope{parent: parent}
	var from []string
	for _, f := range s.From {
		table, err := t.table(f.Name)
		if err != nil {
			return "", nil, err
		}
		sc.add(t, table, f.Alias)
		from = append(from, MirrorTable(table)+" AS "+sc.tables[len(sc.tables)-1].alias)
	}
	list, names, err := t.items(s.Items, sc)
	if err != nil {
		return "", nil, err
	}
	sc.items = s.Items
	var b strings.Builder
	b.WriteString("SELECT ")
	if s.Distinct {
		b.WriteString("DISTINCT ")
	}
	b.WriteString(list)
	if len(from) > 0 {
		b.WriteString(" FROM " + strings.Join(from, ", "))
	} else if s.Via != nil {
		return "", nil, mainstem.Refusef(mainstem.KindInvalid, "sql", "VIA needs a table")
	}
	if err := t.clauses(&b, s, sc); err != nil {
		return "", nil, err
	}
	return b.String(), names, nil
}

func (t *translator) clauses(b *strings.Builder, s *selectStatement, sc *scope) error {
	conditions, err := t.conditions(sc, s.Via, s.Where)
	if err != nil {
		return err
	}
	if len(conditions) > 0 {
		b.WriteString(" WHERE " + strings.Join(conditions, " AND "))
	}
	for i, e := range s.GroupBy {
		x, err := t.expr(e, sc)
		if err != nil {
			return err
		}
		b.WriteString(list(i, " GROUP BY ") + x.sql)
	}
	if s.Having != nil {
		x, err := t.expr(s.Having, sc)
		if err != nil {
			return err
		}
		b.WriteString(" HAVING " + x.sql)
	}
	for i, o := range s.OrderBy {
		x, err := t.expr(o.Expr, sc)
		if err != nil {
			return err
		}
		b.WriteString(list(i, " ORDER BY ") + x.sql)
		if o.Desc {
			b.WriteString(" DESC")
		}
	}
	if s.Top != nil {
		if s.Top.Kind != IntLiteral {
			return mainstem.Refusef(mainstem.KindInvalid, "sql", "TOP wants a whole number")
		}
		b.WriteString(t.limit(Param{Slot: s.Top.Index}))
	}
	return nil
}

// list returns what comes before the i-th part of a list.
func list(i int, first string) string {
	if i == 0 {
		return first
	}
	return ", "
}

func (t *translator) items(items []*item, sc *scope) (string, []ResultName, error) {
	var out []string
	var names []ResultName
	for _, it := range items {
		if it.Star {
			if len(sc.tables) == 0 {
				return "", nil, mainstem.Refusef(mainstem.KindInvalid, "sql", "* needs a table")
			}
			for i := range sc.tables {
				b := &sc.tables[i]
				for j := range b.table.Columns {
					c := b.table.Columns[j]
					out = append(out, b.alias+"."+MirrorColumn(&c))
					names = append(names, ResultName{Column: c})
				}
			}
			continue
		}
		x, err := t.expr(it.Expr, sc)
		if err != nil {
			return "", nil, err
		}
		out = append(out, x.sql)
		n := ResultName{Column: Column{Name: it.Alias, Type: x.typ, Size: width(x.typ)}}
		switch {
		case x.of != nil: // distinct(Severity) reads as a column in parentheses
			n.Column = *x.of
			if it.Alias != "" {
				n.Name = it.Alias
			}
		case it.Alias == "":
			n.source = it.Expr
		}
		names = append(names, n)
	}
	return strings.Join(out, ", "), names, nil
}

// width returns the size that results show for an expression.
func width(t Type) int {
	switch t {
	case Varchar, Char:
		return MaxVarchar
	case Real, Integer64, Unsigned64:
		return 8
	case Boolean:
		return 1
	}
	return 4
}
