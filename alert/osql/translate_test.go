package osql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"modernc.org/sqlite"

	"github.com/mainstemdev/mainstem"
)

// tables is a small catalog.
type tables []*Table

func (ts tables) Lookup(database, name string) *Table {
	for _, t := range ts {
		if t.Name == name && (t.Database == database || database == "" && t.Database == "alerts") {
			return t
		}
	}
	return nil
}

var testTables = tables{
	{ID: 1, Database: "alerts", Name: "status", Columns: []Column{
		{ID: 1, Name: "Identifier", Type: Varchar, Size: 255, PrimaryKey: true},
		{ID: 2, Name: "Serial", Type: Incr, Size: 4},
		{ID: 3, Name: "Node", Type: Varchar, Size: 64},
		{ID: 4, Name: "AlertKey", Type: Varchar, Size: 255},
		{ID: 5, Name: "AlertGroup", Type: Varchar, Size: 255},
		{ID: 6, Name: "Severity", Type: Integer, Size: 4},
		{ID: 7, Name: "Summary", Type: Varchar, Size: 255},
		{ID: 8, Name: "LastOccurrence", Type: Time, Size: 4},
		{ID: 9, Name: "Type", Type: Integer, Size: 4},
		{ID: 10, Name: "Ratio", Type: Real, Size: 8},
	}},
	{ID: 2, Database: "custom", Name: "pairs", Columns: []Column{
		{ID: 20, Name: "A", Type: Integer, Size: 4, PrimaryKey: true},
		{ID: 21, Name: "B", Type: Varchar, Size: 20, PrimaryKey: true},
		{ID: 22, Name: "Fixed", Type: Boolean, Size: 1, NoModify: true},
	}},
}

// show writes a plan for the golden files.
func show(p *Plan, s *Statement) string {
	var b strings.Builder
	fmt.Fprintf(&b, "verb %d", p.Verb)
	if p.Table != nil {
		fmt.Fprintf(&b, " table %s", p.Table)
	}
	b.WriteByte('\n')
	query := func(label string, q *Query) {
		if q == nil || q.SQL == "" {
			return
		}
		fmt.Fprintf(&b, "%s: %s\n", label, q.SQL)
		for i, x := range q.Params {
			switch x.Source {
			case FromLiteral, FromProperty:
				fmt.Fprintf(&b, "  ?%d = %s\n", i+1, s.Literals[x.Slot])
			default:
				fmt.Fprintf(&b, "  ?%d = source %d\n", i+1, x.Source)
			}
		}
	}
	query("query", &p.Query)
	for i := range p.Names {
		fmt.Fprintf(&b, "column %s %s %d\n", p.Names[i].Text(s.Literals), p.Names[i].Type, p.Names[i].Size)
	}
	if p.Set != nil || p.Into != nil {
		fmt.Fprintf(&b, "set %v into %v updating %v\n", p.Set, p.Into, p.Update)
	}
	for _, row := range p.Rows {
		for _, v := range row {
			if v.Query != nil {
				query("value", v.Query)
			} else {
				fmt.Fprintf(&b, "value %s negative %v\n", s.Literals[v.Slot], v.Negate)
			}
		}
	}
	if d := p.DDL; p.Verb >= CreateDatabase {
		columns, err := d.Sized(s.Literals)
		fmt.Fprintf(&b, "database %q name %q virtual %v drop %v group %v enabled %v columns %+v %v\n",
			d.Database, d.Name, d.Virtual, d.Drop, d.Group, d.Enabled, columns, err)
	}
	return b.String()
}

func TestTranslate(t *testing.T) {
	db := openMirror(t)
	datadriven.Walk(t, "testdata/translate", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			statements, err := Split(d.Input, nil)
			if err != nil {
				return err.Error()
			}
			var out strings.Builder
			for i := range statements {
				p, err := Translate(&statements[i], testTables, "")
				if err != nil {
					fmt.Fprintln(&out, err)
					continue
				}
				out.WriteString(show(p, &statements[i]))
				accept(t, db, p)
			}
			return out.String()
		})
	})
}

// openMirror returns a connection to a database with the mirrors of testTables.
func openMirror(t testing.TB) driver.Conn {
	t.Helper()
	for name, n := range map[string]int32{"osql_like": 2, "osql_to_time": 2, "osql_to_char": 2, "osql_nvp_get": 2, "osql_nvp_exists": 2, "osql_nvp_set": 3} {
		err := sqlite.RegisterDeterministicScalarFunction(name, n, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) { return int64(1), nil })
		if err != nil && !strings.Contains(err.Error(), "already") {
			t.Fatal(err)
		}
	}
	connector, err := sqlite.NewConnector(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	c, err := connector.Connect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	for _, table := range testTables {
		columns := []string{RowID + " INTEGER PRIMARY KEY", Version + " INTEGER"}
		for i := range table.Columns {
			columns = append(columns, MirrorColumn(&table.Columns[i]))
		}
		exec(t, c, fmt.Sprintf("CREATE TABLE %s (%s)", MirrorTable(table), strings.Join(columns, ", ")))
	}
	return c
}

func exec(t testing.TB, c driver.Conn, text string) {
	t.Helper()
	s, err := c.(driver.ConnPrepareContext).PrepareContext(context.Background(), text)
	if err != nil {
		t.Fatal(text, err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.(driver.StmtExecContext).ExecContext(context.Background(), nil); err != nil {
		t.Fatal(text, err)
	}
}

// accept fails the test unless SQLite can prepare the queries of p.
func accept(t testing.TB, c driver.Conn, p *Plan) {
	t.Helper()
	queries := []*Query{&p.Query}
	for _, row := range p.Rows {
		for _, v := range row {
			if v.Query != nil {
				queries = append(queries, v.Query)
			}
		}
	}
	for _, q := range queries {
		if q.SQL == "" {
			continue
		}
		s, err := c.(driver.ConnPrepareContext).PrepareContext(context.Background(), q.SQL)
		if err != nil {
			if meaningless(err) {
				continue
			}
			t.Fatalf("%s: %v", q.SQL, err)
		}
		_ = s.Close()
	}
}

// meaningless reports whether SQLite understood a query and refuses it for what
// it means or for its size: the statement's fault, and an error when it runs.
func meaningless(err error) bool {
	for _, m := range []string{"misuse of aggregate", "a GROUP BY clause is required", "HAVING clause on a non-aggregate", "too large", "aggregate functions are not allowed",
		"too many", "ORDER BY term out of range", "GROUP BY term out of range", "parser stack overflow", "misuse of aliased aggregate"} {
		if strings.Contains(err.Error(), m) {
			return true
		}
	}
	return false
}

func FuzzTranslate(f *testing.F) {
	for _, s := range []string{
		insertText, "select top 1 * from alerts.status order by Serial desc", "update status via 'a' set Severity = Severity + 1 where Node like '^a.*'",
		"delete from custom . pairs via 1, 'x'", "create table a.b persistent (A int primary key)", "alter table status add column X varchar(3) drop Node",
		"select count(*) as n, Node + 'x' from status where (Node + AlertKey) in (select Node + AlertKey from status where Type = 2) group by Node having count(*) > 1",
		"svc update 'x' 1;\ngo\nuse alerts", "select -1, 'a''b', \"c\", 1e3 from status where Ratio %= 2 or not Severity between 1 and 2 xor TRUE",
		"insert into custom.pairs values (1, 'b', true), (2, upper('c'), false) updating (B)", "select case Type when 1 then 'a' else 'b' end from status",
	} {
		f.Add(s)
	}
	db := openMirror(f)
	f.Fuzz(func(t *testing.T, text string) {
		statements, err := Split(text, nil)
		if err != nil {
			checkError(t, err)
			return
		}
		for i := range statements {
			checkKey(t, &statements[i])
			p, err := Translate(&statements[i], testTables, "custom")
			if err != nil {
				checkError(t, err)
				continue
			}
			_ = show(p, &statements[i])
			accept(t, db, p)
		}
	})
}

// checkKey compares a statement with its tokens.
func checkKey(t *testing.T, s *Statement) {
	t.Helper()
	if err := s.scan(); err != nil {
		t.Fatal(err)
	}
	key, literals := "", 0
	for _, x := range s.tokens {
		if x.Type != tokenSlot {
			key += x.Value + " "
			continue
		}
		if x.Value != fmt.Sprint(string(s.Literals[literals].Kind), literals) {
			t.Fatalf("the literal %d is %s", literals, x.Value)
		}
		key += "?" + x.Value[:1] + " "
		literals++
	}
	if key != s.Key || literals != len(s.Literals) || len(s.tokens) == 0 {
		t.Fatalf("the key is %q with %d literals, and of its tokens %q with %d", s.Key, len(s.Literals), key, literals)
	}
}

func checkError(t *testing.T, err error) {
	t.Helper()
	var e *mainstem.Error
	if !errors.As(err, &e) || e.Kind == mainstem.KindInternal {
		t.Fatalf("the error is not one of the contract: %v", err)
	}
}

// TestPlansDoNotKeepTheText: the values of a statement may be large, and its plan is kept without them.
func TestPlansDoNotKeepTheText(t *testing.T) {
	const large, count = 1 << 20, 32
	for _, items := range []string{"Node", "Node as Name", "Severity + 1", "(select max(x.Severity) as m from status x)", "*"} {
		plans := make([]*Plan, count)
		before := heap()
		for i := range plans {
			statements, err := Split("select "+items+" from status where Node = '"+strings.Repeat("x", large)+"'", nil)
			if err != nil {
				t.Fatal(err)
			}
			if plans[i], err = Translate(&statements[0], testTables, ""); err != nil {
				t.Fatal(err)
			}
		}
		if grown := heap() - before; grown > count*large/4 {
			t.Errorf("%s: %d plans of texts of %d bytes keep %d bytes", items, count, large, grown)
		}
		runtime.KeepAlive(plans)
	}
}

// heap returns the bytes in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // far less
}
