package omnibus

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/omnirest/rowjson"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// FuzzRows compares what is read of a body with what encoding/json makes of it.
func FuzzRows(f *testing.F) {
	f.Add([]byte(insertBody("x")))
	f.Add([]byte(`{"rowset":{"rows":[{"a":"\u00e9\ud83d\ude00\ud800\n","b":-1.5e3},{"b":12,"c":null,"d":true}]}}`))
	f.Add([]byte(" {\"x\":[{}],\"rowset\":{\"rows\":[{\"a\\u0062\":\"\xff\"}]}} "))
	table := statusTable
	for _, name := range []string{"a", "b", "c", "d", "ab"} {
		table.Columns = append(table.Columns, alert.Column{Name: name, Type: osql.Varchar, Size: 10})
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		cells := 0
		g, err := decodeRows(body, &table, 100, func(n int) error { cells = n; return nil })
		if err != nil {
			return
		}
		if cells != len(g.rows)*len(g.columns) {
			t.Fatalf("%d rows of %d columns are %d cells", len(g.rows), len(g.columns), cells)
		}
		var want struct {
			Rowset struct {
				Rows []map[string]any `json:"rows"`
			} `json:"rowset"`
		}
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("encoding/json refuses %q: %v", body, err)
		}
		rows := want.Rowset.Rows
		if len(rows) != len(g.rows) {
			return // encoding/json takes keys in any case, and the last of several
		}
		for i, row := range g.rows {
			got := map[string]any{}
			for j, v := range row {
				switch n := v.(type) {
				case nil:
					delete(rows[i], g.columns[j])
					continue
				case int64:
					v = float64(n)
				}
				got[g.columns[j]] = v
			}
			if !reflect.DeepEqual(got, rows[i]) && len(got) == len(rows[i]) {
				t.Fatalf("%q\n got %v\nwant %v", body, got, rows[i])
			}
		}
	})
}

func FuzzStatement(f *testing.F) {
	f.Add([]byte(sqlBody("select 'é\n' from x")))
	f.Add([]byte(`{"a":{"b":[1,2,{}]},"sqlcmd":"\/\"\\"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		text, err := decodeStatement(body)
		if err != nil {
			return
		}
		want := map[string]any{}
		if err := json.Unmarshal(body, &want); err != nil || want["sqlcmd"] != text {
			t.Fatalf("%q: %q, want %q (%v)", body, text, want["sqlcmd"], err)
		}
	})
}

// statusTable is a table for tests that need no server.
var statusTable = alert.TableInfo{Database: "alerts", Name: "status", Space: "alert/alerts.status", Columns: []alert.Column{
	{Name: "Identifier", Type: osql.Varchar, Size: 255, PrimaryKey: true}, {Name: "Serial", Type: osql.Incr, Size: 4},
	{Name: "Severity", Type: osql.Integer, Size: 4}, {Name: "StateChange", Type: osql.Time, Size: 4}, {Name: "ServerName", Type: osql.Varchar, Size: 64}}}

// FuzzFilter puts whatever is taken for a condition into parentheses, and behind
// another condition, and looks whether it got out.
func FuzzFilter(f *testing.F) {
	for _, s := range []string{"Severity > 3 order by Serial desc", "a = 'x''y' or (b = \"--\")", "1=1) or (1=1", "x;y", "1 = 1\ngo\n", "a=1--", "'", "order by", "borderby(order by)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseFilter(text)
		if err != nil || c.text == "" {
			return
		}
		statements, err := osql.Split("select A from B where ("+c.text+") and 'end' = 'end'", nil)
		if err != nil {
			return // the server refuses it, too
		}
		if len(statements) != 1 {
			t.Fatalf("%q is %d statements", text, len(statements))
		}
		l := statements[0].Literals
		if len(l) < 2 || l[len(l)-1].Text != "end" || l[len(l)-2].Text != "end" {
			t.Fatalf("%q hides what stands behind it", text)
		}
	})
}

func FuzzQuery(f *testing.F) {
	f.Add("Severity, Identifier,*", "Severity desc, RowSerial", "10", "AQ", "5")
	f.Fuzz(func(t *testing.T, collist, order, limit, cursor, since string) {
		names, err := parseCollist(collist, &statusTable)
		if err != nil {
			return
		}
		q := &query{table: statusTable, columns: names, since: -1}
		if q.order, err = parseOrder(order, &statusTable); err != nil {
			return
		}
		if n, err := parseTime(since); err == nil {
			q.since = n
		}
		if err := q.page(limit, cursor); err != nil {
			return
		}
		text, args := q.statement()
		if err := oneStatement(text, len(args)); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	})
}

func FuzzCursor(f *testing.F) {
	f.Add("AQAAAAAAAAAHWzEsIngiXQ")
	f.Fuzz(func(t *testing.T, text string) {
		if values, err := decodeCursor(text, 7, 2); err == nil && (len(values) != 2 || values[0] == nil || values[1] == nil) {
			t.Fatalf("%q: %v", text, values)
		}
	})
}

func FuzzRoute(f *testing.F) {
	for _, s := range []string{"alerts/status", "alerts/status/7", "alerts//status/kf/1%3AX/", "sql/factory", "sysinfo", "%zz", "a/b/c/d/e"} {
		f.Add(Prefix + s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		r, err := parseRoute(path)
		if err != nil {
			return
		}
		if (r.kind == collectionRoute || r.kind == rowRoute) && (r.database == "" || r.table == "") {
			t.Fatalf("%q: %+v", path, r)
		}
		if r.kind == rowRoute {
			if text, ok := keyCondition(&statusTable, r.keyField); ok {
				if err := oneStatement("select * from a where "+text, 0); err != nil {
					t.Fatalf("%q: %s: %v", path, text, err)
				}
			}
		}
	})
}

func FuzzUsers(f *testing.F) {
	f.Add("a:admin:$pbkdf2-sha256$1000$AAAAAAAAAAAAAAAA$" + strings.Repeat("A", 43) + ":probe\n#x")
	f.Fuzz(func(t *testing.T, text string) {
		if u, err := ReadUsers(strings.NewReader(text)); (u == nil) == (err == nil) {
			t.Fatalf("%v, %v", u, err)
		}
	})
}

// FuzzString writes strings that encoding/json has to read as they were.
func FuzzString(f *testing.F) {
	f.Add("a\"\\\n\t\r\x00\x1f\x7fé\u2028😀\xff\xc3(")
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		if err := json.Unmarshal(rowjson.AppendString(nil, s), &got); err != nil {
			t.Fatal(err)
		}
		p, _ := json.Marshal(s)
		var want string
		if err := json.Unmarshal(p, &want); err != nil || got != want {
			t.Fatalf("%q became %q, want %q", s, got, want)
		}
	})
}

func TestValues(t *testing.T) {
	for want, v := range map[string]alert.Value{
		`"x"`: alert.Text("x"), `-5`: alert.Int(-5), `1.5`: alert.Real(1.5), `1e+300`: alert.Real(1e300), `null`: alert.Real(math.Inf(1)), `0`: {},
	} {
		if got := string(appendValue(nil, v, false)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := string(appendEscaped(nil, "12481:NCOMS/é ~")); got != "12481%3ANCOMS%2F%C3%A9%20~" {
		t.Error(got)
	}
}

// TestKeyFields names rows by keys of several columns.
func TestKeyFields(t *testing.T) {
	table := alert.TableInfo{Columns: []alert.Column{{Name: "A", Type: osql.Varchar, PrimaryKey: true}, {Name: "B", Type: osql.Integer, PrimaryKey: true}, {Name: "C", Type: osql.Varchar, PrimaryKey: true}}}
	for field, want := range map[string]string{
		"x:1:y":   "(A = 'x' and B = 1 and C = 'y')",
		"x':1::y": "(A = 'x''' and B = 1 and C = ':y')",
		"1:2:3:4": "(A = '1' and B = 2 and C = '3:4') or (A = '1:2' and B = 3 and C = '4')",
		"x:y":     "", "x:y:z": "", "": "",
	} {
		if got, ok := keyCondition(&table, field); got != want || ok != (want != "") {
			t.Errorf("%s: %s (%v), want %s", field, got, ok, want)
		}
	}
	if got, ok := keyCondition(&statusTable, "7:AGG"); got != "Serial = 7 and ServerName = 'AGG'" || !ok {
		t.Error(got)
	}
	if text, ok := keyCondition(&table, strings.Repeat("1:", 10_000)); !ok || len(text) > maxKeyReadings*30_000 {
		t.Errorf("a long key field becomes %d bytes", len(text))
	}
}

// TestOnlyVerb checks that the quick look at a text never takes two statements for one.
func TestOnlyVerb(t *testing.T) {
	for text, want := range map[string]string{
		"select 1": "SELECT", "  Select\t1": "SELECT", "select": "", "select1 x": "", "select;x": "", "select 1\ngo\ndelete from x": "", "/* */ select 1": "", "": "", "go": "", "(select 1)": "",
	} {
		if got := onlyVerb(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if got := onlyVerb(text); got != "" {
			if s, err := osql.Split(text, nil); err != nil || len(s) != 1 || s[0].Verb() != got {
				t.Errorf("%q: %v, %v", text, s, err)
			}
		}
	}
}

func TestAccepts(t *testing.T) {
	for header, want := range map[string][2]bool{
		"": {true, false}, "*/*": {true, false}, "gzip": {false, true}, "gzip;q=0": {false, false}, "br, gzip ; q=0.5": {false, true},
		"text/html, application/json;q=0.9": {true, false}, "application/*": {true, false}, "text/html": {false, false}, "*": {true, true}, "gzip;q=x": {false, false},
	} {
		if got := fmt.Sprint(acceptsJSON([]string{header}), acceptsGzip([]string{header})); got != fmt.Sprint(want[0], want[1]) {
			t.Errorf("%q: %s, want %v", header, got, want)
		}
	}
}
