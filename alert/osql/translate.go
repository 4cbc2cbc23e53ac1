package osql

import (
	"fmt"
	"strings"

	"github.com/mainstemdev/mainstem"
)

// maxParams is how many parameters SQLite takes.
const maxParams = 32_766

// Translate turns a statement into a [Plan] for the tables of c. It has no
// effect, and no memory. database is where bare names of tables are looked for
// first; it may be empty. Names that do not exist are NotFound, statements without
// a meaning Invalid, and those that have one in ObjectServer SQL but not here
// Unsupported, by name.
func Translate(s *Statement, c Catalog, database string) (*Plan, error) {
	tree, err := s.parse()
	if err != nil {
		return nil, err
	}
	t := &translator{catalog: c, database: database, plan: &Plan{}}
	if err := t.statement(tree); err != nil {
		return nil, err
	}
	return t.plan, nil
}

// translator translates one statement.
type translator struct {
	catalog  Catalog
	database string
	plan     *Plan
	query    *Query // whose parameters are being collected
	params   map[Param]int
	aliases  int // tables so far, in all scopes
}

func (t *translator) statement(s *statement) error {
	switch {
	case s.Select != nil:
		return t.selectPlan(s.Select)
	case s.Insert != nil:
		return t.insertPlan(s.Insert)
	case s.Update != nil:
		return t.updatePlan(s.Update)
	case s.Delete != nil:
		return t.deletePlan(s.Delete)
	case s.Describe != nil:
		t.plan.Verb = Describe
		table, err := t.table(s.Describe.Table)
		t.plan.Table = table
		return err
	}
	return t.definition(s)
}

// begin starts to collect a query.
func (t *translator) begin(q *Query) {
	t.query, t.params = q, map[Param]int{}
}

// param returns the name of the parameter p of the query.
func (t *translator) param(p Param) string {
	n, ok := t.params[p]
	if !ok {
		t.query.Params = append(t.query.Params, p)
		n = len(t.query.Params)
		t.params[p] = n
	}
	return fmt.Sprintf("?%d", n)
}

// limit returns a LIMIT by the parameter p. It is a sum, because SQLite makes a new plan each
// time that a parameter which is a limit by itself is bound: see the query planner stability
// guarantee in its documentation.
func (t *translator) limit(p Param) string { return " LIMIT " + t.param(p) + "+0" }

func (t *translator) finish(sql string) error {
	if len(t.query.Params) > maxParams {
		return mainstem.Refusef(mainstem.KindInvalid, "sql", "the statement has %d literals: the limit is %d; split it", len(t.query.Params), maxParams)
	}
	t.query.SQL = sql
	return nil
}

// table finds the table that n names.
func (t *translator) table(n *name) (*Table, error) {
	var found *Table
	switch len(n.Parts) {
	case 1:
		if t.database != "" {
			found = t.catalog.Lookup(t.database, n.Parts[0])
		}
		if found == nil {
			found = t.catalog.Lookup("", n.Parts[0])
		}
	case 2:
		found = t.catalog.Lookup(n.Parts[0], n.Parts[1])
	default:
		return nil, mainstem.Refusef(mainstem.KindInvalid, "sql", "%s has too many dots: want database.table", strings.Join(n.Parts, "."))
	}
	if found == nil {
		return nil, mainstem.Refusef(mainstem.KindNotFound, "sql", "there is no table %s", strings.Join(n.Parts, "."))
	}
	for _, r := range t.plan.Reads {
		if r == found {
			return found, nil
		}
	}
	t.plan.Reads = append(t.plan.Reads, found)
	return found, nil
}

// column returns the index of a column that has to exist.
func column(t *Table, name string) (int, error) {
	i := t.Column(name)
	if i >= 0 {
		return i, nil
	}
	for j := range t.Columns {
		if strings.EqualFold(t.Columns[j].Name, name) {
			return 0, mainstem.Refusef(mainstem.KindNotFound, "sql", "%s has no column %s; did you mean %s?", t, name, t.Columns[j].Name)
		}
	}
	return 0, mainstem.Refusef(mainstem.KindNotFound, "sql", "%s has no column %s", t, name)
}

// MirrorTable returns the name of the table's mirror in SQLite.
func MirrorTable(t *Table) string { return fmt.Sprintf("t%d", t.ID) }

// MirrorColumn returns the name of the column's mirror in SQLite.
func MirrorColumn(c *Column) string { return fmt.Sprintf("c%d", c.ID) }

func (t *translator) insertPlan(s *insertStatement) error {
	p := t.plan
	p.Verb = Insert
	var err error
	if p.Table, err = t.table(s.Table); err != nil {
		return err
	}
	if p.Into, err = t.targets(s); err != nil {
		return err
	}
	for _, u := range s.Updating {
		i, err := column(p.Table, u)
		if err != nil {
			return err
		}
		p.Update = append(p.Update, i)
	}
	for _, r := range s.Rows {
		if len(r.Values) != len(p.Into) {
			return mainstem.Refusef(mainstem.KindInvalid, "sql", "%d values for %d columns of %s", len(r.Values), len(p.Into), p.Table)
		}
		row := make([]Value, len(r.Values))
		for i, e := range r.Values {
			if row[i], err = t.value(e); err != nil {
				return err
			}
		}
		p.Rows = append(p.Rows, row)
	}
	return nil
}

// targets returns the columns that the values of an INSERT are for. Without a
// list they are all; those that the server gives may then be left out.
func (t *translator) targets(s *insertStatement) ([]int, error) {
	table := t.plan.Table
	var into []int
	if s.Columns == nil {
		given := 0
		for i := range table.Columns {
			if table.Columns[i].Type == Incr {
				given++
			}
		}
		skip := len(s.Rows[0].Values) == len(table.Columns)-given
		for i := range table.Columns {
			if !skip || table.Columns[i].Type != Incr {
				into = append(into, i)
			}
		}
		return into, nil
	}
	seen := make([]bool, len(table.Columns))
	for _, c := range s.Columns {
		i, err := column(table, c)
		if err != nil {
			return nil, err
		}
		if seen[i] {
			return nil, mainstem.Refusef(mainstem.KindInvalid, "sql", "the column %s is named twice", c)
		}
		seen[i] = true
		into = append(into, i)
	}
	return into, nil
}

// value translates a value of an INSERT: most are literals and need no query.
func (t *translator) value(e *expr) (Value, error) {
	if u := e.simple(); u != nil && u.Primary.Slot != nil && len(u.Signs) <= 1 {
		negate := len(u.Signs) == 1 && u.Signs[0] == "-"
		if k := u.Primary.Slot.Kind; !negate || k == IntLiteral || k == RealLiteral {
			return Value{Slot: u.Primary.Slot.Index, Negate: negate}, nil
		}
	}
	q := &Query{}
	t.begin(q)
	x, err := t.expr(e, nil)
	if err != nil {
		return Value{}, err
	}
	return Value{Query: q}, t.finish("SELECT " + x.sql)
}

// simple returns the only part of e, if it has only one.
func (e *expr) simple() *unary {
	if len(e.Terms) != 1 || len(e.Terms[0].Terms) != 1 || len(e.Terms[0].Terms[0].Terms) != 1 {
		return nil
	}
	n := e.Terms[0].Terms[0].Terms[0]
	if len(n.Not) > 0 || n.Compare.Tail != nil || len(n.Compare.Left.Rest) > 0 || len(n.Compare.Left.First.Rest) > 0 {
		return nil
	}
	return n.Compare.Left.First.First
}

func (t *translator) updatePlan(s *updateStatement) error {
	p := t.plan
	p.Verb = Update
	sc, err := t.target(s.Table)
	if err != nil {
		return err
	}
	var values []string
	for _, a := range s.Set {
		i, err := column(p.Table, a.Column)
		if err != nil {
			return err
		}
		if c := &p.Table.Columns[i]; c.PrimaryKey || c.NoModify || c.Type == Incr {
			return mainstem.Refusef(mainstem.KindInvalid, "sql", "the column %s of %s cannot be changed", c.Name, p.Table)
		}
		x, err := t.expr(a.Value, sc)
		if err != nil {
			return err
		}
		p.Set = append(p.Set, i)
		values = append(values, x.sql)
	}
	return t.changes(sc, values, s.Via, s.Where)
}

func (t *translator) deletePlan(s *deleteStatement) error {
	t.plan.Verb = Delete
	sc, err := t.target(s.Table)
	if err != nil {
		return err
	}
	return t.changes(sc, nil, s.Via, s.Where)
}

// target begins the query for the rows that a statement changes.
func (t *translator) target(n *name) (*scope, error) {
	table, err := t.table(n)
	if err != nil {
		return nil, err
	}
	t.plan.Table = table
	t.begin(&t.plan.Query)
	sc := &scope{}
	sc.add(t, table, "")
	return sc, nil
}

// changes finishes the query for the rows that a statement changes: the row's
// number and version, its columns, and the new values. It takes the rows in the
// order of their numbers, so that a statement can be carried out in parts; the sign
// before the number keeps SQLite from walking the whole table for that order.
func (t *translator) changes(sc *scope, values []string, v *via, where *expr) error {
	b := sc.tables[0]
	columns := []string{b.alias + "." + RowID, b.alias + "." + Version}
	for i := range b.table.Columns {
		columns = append(columns, b.alias+"."+MirrorColumn(&b.table.Columns[i]))
	}
	conditions, err := t.conditions(sc, v, where)
	if err != nil {
		return err
	}
	conditions = append(conditions, fmt.Sprintf("+%s.%s > %s", b.alias, RowID, t.param(Param{Source: FromAfter})))
	return t.finish(fmt.Sprintf("SELECT %s FROM %s AS %s WHERE %s ORDER BY +%s.%s%s",
		strings.Join(append(columns, values...), ", "), MirrorTable(b.table), b.alias,
		strings.Join(conditions, " AND "), b.alias, RowID, t.limit(Param{Source: FromLimit})))
}

// conditions translates VIA and WHERE.
func (t *translator) conditions(sc *scope, v *via, where *expr) ([]string, error) {
	var out []string
	if v != nil {
		table, keys := sc.tables[0], 0
		for i := range table.table.Columns {
			c := &table.table.Columns[i]
			if !c.PrimaryKey {
				continue
			}
			if keys++; keys > len(v.Keys) {
				continue
			}
			x, err := t.expr(v.Keys[keys-1], sc)
			if err != nil {
				return nil, err
			}
			if x.typ == Boolean && c.Type != Boolean {
				e := mainstem.Refusef(mainstem.KindInvalid, "sql", "VIA has a condition where the value of the column %s, of type %s, is wanted", c.Name, c.Type)
				e.Hint = "write VIA 'value', or WHERE with the condition"
				return nil, e
			}
			if _, x, err = t.comparable(value{typ: c.Type, of: c}, x, false); err != nil {
				return nil, err
			}
			out = append(out, fmt.Sprintf("%s.%s = %s", table.alias, MirrorColumn(c), x.sql))
		}
		if keys != len(v.Keys) {
			return nil, mainstem.Refusef(mainstem.KindInvalid, "sql", "VIA has %d values: the primary key of %s has %d columns", len(v.Keys), table.table, keys)
		}
	}
	if where != nil {
		x, err := t.expr(where, sc)
		if err != nil {
			return nil, err
		}
		out = append(out, "("+x.sql+")")
	}
	return out, nil
}
