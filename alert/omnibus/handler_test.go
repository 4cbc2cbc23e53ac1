package omnibus

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// TestFactory runs statements and compares the answers byte by byte.
func TestFactory(t *testing.T) {
	s := serve(t, nil)
	for _, c := range []struct{ sql, body string }{
		{`insert into alerts.status (Identifier, Node, Severity, Summary) values ('a', 'n1', 3, 'it''s "quoted"')`,
			`{"rowset":{"osname":"NCOMS","coldesc":[],"rows":[],"affectedRows":1}}`},
		{`INSERT INTO  alerts . status  ( Identifier ,  Severity ) VALUES ('b', 5)`,
			`{"rowset":{"osname":"NCOMS","coldesc":[],"rows":[],"affectedRows":1}}`},
		{`select top 1 Identifier, Serial, StateChange, Summary from alerts.status order by Serial`,
			`{"rowset":{"osname":"NCOMS","coldesc":[{"name":"Identifier","type":"string","size":255},{"name":"Serial","type":"integer","size":4},` +
				`{"name":"StateChange","type":"utc","size":4},{"name":"Summary","type":"string","size":255}],` +
				`"rows":[{"Identifier":"a","Serial":1,"StateChange":1700000000,"Summary":"it's \"quoted\""}],"affectedRows":1}}`},
		{`select count(*) as rowcount from alerts.journal`,
			`{"rowset":{"osname":"NCOMS","coldesc":[{"name":"rowcount","type":"integer","size":4}],"rows":[{"rowcount":0}],"affectedRows":1}}`},
		{`select Identifier from alerts.status where Severity > 9`,
			`{"rowset":{"osname":"NCOMS","coldesc":[{"name":"Identifier","type":"string","size":255}],"rows":[],"affectedRows":0}}`},
		{`update alerts.status set Acknowledged = 1`, `{"rowset":{"osname":"NCOMS","coldesc":[],"rows":[],"affectedRows":2}}`},
		{"delete from alerts.status where Identifier = 'a';\ndelete from alerts.status where Identifier = 'b'", `{"rowset":{"osname":"NCOMS","coldesc":[],"rows":[],"affectedRows":2}}`},
		{"use alerts\ngo\nselect count(*) as n from status\ngo\n", `{"rowset":{"osname":"NCOMS","coldesc":[{"name":"n","type":"integer","size":4}],"rows":[{"n":0}],"affectedRows":1}}`},
	} {
		if got := compact(t, s.sql(c.sql)); got != c.body {
			t.Errorf("%s\n got %s\nwant %s", c.sql, got, c.body)
		}
	}
	r := s.read(s.sql("describe alerts.status"))
	if first := r.Rowset.Rows[0]; first["ColumnName"] != "Identifier" || first["Type"] != "varchar" || first["Size"] != 255.0 || first["Key"] != 1.0 {
		t.Errorf("describe begins with %v", first)
	}
}

const collection = "alerts/status"

// insertBody is the body of an insert as IBM's documentation shows it.
func insertBody(id string) string {
	return `{"rowset": {"coldesc": [{"type": "string", "name": "Identifier"}, {"type": "integer", "name": "Severity"}, {"type": "utc", "name": "FirstOccurrence"}],
		"rows": [{"FirstOccurrence": 1341412087, "Identifier": "` + id + `", "Severity": 4}], "affectedRows": 0}}`
}

func TestCollection(t *testing.T) {
	s := serve(t, nil)
	resp, body := s.do("POST", collection, insertBody("x"))
	uri := s.url + Prefix + "alerts/status/kf/1%3ANCOMS"
	if want := `{"entry":{"affectedRows":1,"keyField":"1%3ANCOMS","uri":"` + uri + `"}}`; resp.StatusCode != 201 || compact(t, body) != want {
		t.Errorf("POST: %s\n%s\nwant %s", resp.Status, body, want)
	}
	if l := resp.Header.Get("Location"); l != uri {
		t.Errorf("Location %s, want %s", l, uri)
	}
	resp, body = s.do("GET", collection+"?collist=Identifier,Severity,FirstOccurrence&filter=&orderby=", "")
	if want := `{"rowset":{"osname":"NCOMS","dbname":"alerts","tblname":"status","coldesc":[{"name":"Identifier","type":"string","size":255},` +
		`{"name":"Severity","type":"integer","size":4},{"name":"FirstOccurrence","type":"utc","size":4},{"name":"RowSerial","type":"integer","size":4}],` +
		`"rows":[{"Identifier":"x","Severity":4,"FirstOccurrence":1341412087,"RowSerial":1}],"affectedRows":1}}`; compact(t, body) != want {
		t.Errorf("GET: %s\nwant %s", body, want)
	}
	for name, want := range map[string]string{"Server": "libnhttpd", "Cache-Control": "no-cache", "Content-Type": "application/json;charset=UTF-8"} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	r := s.read(s.want(200, "GET", collection, ""))
	if n := len(r.Rowset.ColDesc); n < 60 || r.Rowset.ColDesc[n-1].Name != "RowSerial" || len(r.Rowset.Rows[0]) != n {
		t.Errorf("a GET of all has %d columns", n)
	}
	patch := `{"rowset":{"coldesc":[{"type":"integer","name":"Acknowledged"},{"type":"string","name":"Location"}],"rows":[{"Acknowledged":1,"Location":"it's"}]}}`
	if got, want := compact(t, s.want(200, "PATCH", collection+"?filter=Severity%3E3", patch)), `{"entry":{"affectedRows":1,"uri":"`+s.url+Prefix+`alerts/status"}}`; got != want {
		t.Errorf("PATCH: %s, want %s", got, want)
	}
	if got, want := compact(t, s.want(200, "PATCH", "alerts/status/kf/1%3ANCOMS", patch)), `{"entry":{"affectedRows":1,"uri":"/objectserver/restapi/alerts/status/kf/1%3ANCOMS"}}`; got != want {
		t.Errorf("PATCH of a row: %s, want %s", got, want)
	}
	for _, path := range []string{"alerts/status/1", "alerts/status/kf/1%3ANCOMS", "alerts/status/kf/1:NCOMS", "/objectserver/restapi//alerts/status/1/"} {
		if r := s.read(s.want(200, "GET", path+"?collist=Location", "")); r.Rowset.AffectedRows != 1 || r.Rowset.Rows[0]["Location"] != "it's" {
			t.Errorf("GET %s: %v", path, r)
		}
	}
	if got, want := compact(t, s.want(200, "DELETE", "alerts/status/1", "")), `{"entry":{"affectedRows":1,"uri":"/objectserver/restapi/alerts/status/1"}}`; got != want {
		t.Errorf("DELETE of a row: %s, want %s", got, want)
	}
	for _, method := range []string{"GET", "DELETE"} {
		s.want(404, method, "alerts/status/1", "")
	}
	s.want(404, "PATCH", "alerts/status/1", patch)
	s.want(201, "POST", collection, insertBody("y"))
	s.want(201, "POST", collection, insertBody("y"))
	if r := s.read(s.want(200, "GET", collection+"?collist=Tally", "")); r.Rowset.Rows[0]["Tally"] != 2.0 {
		t.Errorf("after a reinsert: %v", r.Rowset.Rows)
	}
	if got := s.read(s.want(200, "DELETE", collection, "")); got.Entry.AffectedRows != 1 || !strings.HasSuffix(got.Entry.URI, "/alerts/status") {
		t.Errorf("DELETE: %v", got)
	}
}

func escape(s string) string { return url.QueryEscape(s) }

// rows inserts n rows with one POST: Identifier id0 …, Severity and Node vary.
func (s *site) rows(n int) {
	s.t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,{"Identifier":"id%d","Severity":%d,"Node":"n%d"}`, i, i%5, i%7)
	}
	r := s.read(s.want(201, "POST", collection, `{"rowset":{"rows":[`+b.String()[1:]+`]}}`))
	if r.Entry.AffectedRows != n || n > 1 && !strings.HasSuffix(r.Entry.URI, "/alerts/status") {
		s.t.Fatalf("inserting %d rows: %+v", n, r.Entry)
	}
}

// TestClients sends what clients of others are known to send, as they send it.
func TestClients(t *testing.T) {
	s := serve(t, nil)
	s.rows(10)
	columns := "/objectserver/restapi//catalog/columns?collist=ColumnName,DataType&filter=" + escape("DatabaseName='alerts' AND TableName='status'")
	r := s.read(s.want(200, "GET", columns, ""))
	types := map[any]any{}
	for _, row := range r.Rowset.Rows {
		types[row["ColumnName"]] = row["DataType"]
	}
	if len(types) < 60 || types["StateChange"] != 1.0 || types["Node"] != 2.0 || types["Severity"] != 0.0 {
		t.Errorf("catalog.columns: %v", types)
	}
	for path, want := range map[string]int{
		"/objectserver/restapi//alerts/status/?collist=Node&filter=" + escape("Severity > 3"):                               2,
		collection + "?filter=" + escape("FirstOccurrence > getdate()-300") + "&collist=&orderby=":                          10,
		collection + "?filter=" + escape("Severity = 1 ORDER BY StateChange") + "&collist=Node":                             2,
		collection + "?filter=" + escape("1=1 and StateChange > 1699999999 and Node like 'n1'") + "&orderby=StateChange":    2,
		collection + "?filter=" + escape("Node in (select Node from alerts.status where Severity = 4)") + "&collist=Serial": 3,
		"alerts/conversions?filter=" + escape("Colname = 'Severity'"):                                                       6,
		"alerts/details": 0, "alerts/journal": 0,
	} {
		if r := s.read(s.want(200, "GET", path, "")); r.Rowset.AffectedRows != want || len(r.Rowset.Rows) != want {
			t.Errorf("%s: %d rows, want %d", path, r.Rowset.AffectedRows, want)
		}
	}
	for _, path := range []string{"catalog/profiles", "catalog/tables", "catalog/connections", "master/stats", systemPath} {
		s.want(200, "GET", path, "")
	}
	for _, sql := range []string{"select TOP 1 * from master.stats order by StatTime desc", "select count(*) as rowcount from alerts.journal",
		"describe alerts.status", "select * from alerts.status where 1=1 and StateChange > 1600000000 order by StateChange;"} {
		s.sql(sql)
	}
}

// TestParametersThatSelectNothing: node-omnibus sends the parameters of its last GET
// with each insert.
func TestParametersThatSelectNothing(t *testing.T) {
	s := serve(t, nil)
	const rest = "?filter=AlertGroup%3D%27%23SYNCREQUEST+FROM+NODE-OMNIBUS%27&collist=&orderby="
	body := `{"rowset":{"coldesc":[{"name":"Identifier","type":"string"}],"rows":[{"Identifier":"a","Severity":5}],"affectedRows":0}}`
	if r := s.read(s.want(201, "POST", collection+rest, body)); r.Entry.AffectedRows != 1 {
		t.Errorf("an insert affected %d rows", r.Entry.AffectedRows)
	}
	s.want(201, "POST", collection+"?filter=nothing&orderby=nothing&collist=nothing", body)
	patch := `{"rowset":{"rows":[{"Severity":3}]}}`
	s.want(200, "PATCH", "alerts/status/1?collist=&orderby=&filter=", patch)
	if r := s.read(s.want(200, "PATCH", collection+"?filter=Severity%3D5&orderby=Serial&collist=Node", patch)); r.Entry.AffectedRows != 0 {
		t.Errorf("a PATCH changed %d rows", r.Entry.AffectedRows)
	}
	for _, path := range []string{"alerts/status/1?filter=Severity%3D5", "alerts/status/1?limit=1", collection + "?limit=1"} {
		body := s.want(400, "PATCH", path, patch)
		if m := s.read(body).Exception.Message; !strings.Contains(m, "filter") {
			t.Errorf("%s: %s", path, m)
		}
	}
	if m := s.read(s.want(400, "POST", collection+"?fitler=x", body)).Exception.Message; !strings.HasSuffix(m, "this request takes filter, collist, orderby") {
		t.Errorf("an unknown parameter: %s", m)
	}
	s.want(200, "DELETE", "alerts/status/1?orderby=&collist=", "")
}

// TestScriptSaysWhatRan: an error of several statements names the one that failed, what
// was done, and only an unknown outcome unknown.
func TestScriptSaysWhatRan(t *testing.T) {
	s := serve(t, nil)
	const insert = "insert into alerts.status (Identifier) values ('a'); "
	for _, c := range []struct{ sql, message, outcome string }{
		{"selekt 1; " + insert, "statement 1 of 2", "not written"},
		{insert + "selekt 1", "statement 2 of 2", "not written"},
		{insert + "delete from alerts.nothing; select 1", "statement 1 was carried out (rows changed: 1)", "in part"},
	} {
		e := s.read(s.want(400, "POST", "sql/factory", sqlBody(c.sql))).Exception
		if !strings.Contains(e.Message, c.message) || e.Outcome != c.outcome || strings.Contains(e.Message, "unknown") {
			t.Errorf("%s: %+v", c.sql, e)
		}
	}
	if r := s.read(s.sql("select Tally from alerts.status")); fmt.Sprint(r.column("Tally")) != "[1]" {
		t.Errorf("the table has %v", r.Rowset.Rows)
	}
}

func TestOrder(t *testing.T) {
	s := serve(t, nil)
	s.rows(6)
	for query, want := range map[string]string{
		"orderby=" + escape("Severity DESC, Serial ASC"):                                         "[5 4 3 2 1 6]",
		"orderby=" + escape("Severity desc,Serial desc"):                                         "[5 4 3 2 6 1]",
		"filter=" + escape("Severity > 0 order by Serial desc"):                                  "[5 4 3 2]",
		"filter=" + escape("Severity = 0 or Node = 'a;b order by (--' ORDER  BY RowSerial desc"): "[6 1]",
	} {
		r := s.read(s.want(200, "GET", collection+"?collist=Node&"+query, ""))
		got := strings.ReplaceAll(fmt.Sprint(r.column("RowSerial")), ".0", "")
		if got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

// TestPages reads a table page by page, in several orders, while others write, and
// gets each row that was there all the time once.
func TestPages(t *testing.T) {
	s := serve(t, nil)
	s.rows(100)
	for i, order := range []string{"", "Severity", "Severity desc,Node", "Node desc, Severity asc, StateChange", "RowSerial desc"} {
		seen := map[any]int{}
		path := collection + "?collist=Identifier&limit=7&filter=" + escape("Node <> 'n3'") + "&orderby=" + escape(order)
		cursor, pages := "", 0
		for {
			r := s.read(s.want(200, "GET", path+"&cursor="+cursor, ""))
			for _, row := range r.Rowset.Rows {
				seen[row["Identifier"]]++
				if len(row) != 2 {
					t.Fatalf("a row of a page shows %v", row)
				}
			}
			s.sql(fmt.Sprintf("insert into alerts.status (Identifier, Severity, Node) values ('new%d-%d', 1, 'n3')", i, pages))
			pages++
			if cursor = r.Rowset.Cursor; cursor == "" {
				break
			}
		}
		if len(seen) != 86 || pages != 13 {
			t.Errorf("order %q: %d rows in %d pages", order, len(seen), pages)
		}
		for id, n := range seen {
			if n != 1 {
				t.Errorf("order %q: %v came %d times", order, id, n)
			}
		}
	}
	r := s.read(s.want(200, "GET", collection+"?limit=7", ""))
	for _, q := range []string{"limit=7&orderby=Node&cursor=" + r.Rowset.Cursor, "limit=7&filter=Severity%3D1&cursor=" + r.Rowset.Cursor, "cursor=" + r.Rowset.Cursor,
		"limit=7&cursor=xyz", "limit=7&cursor=" + r.Rowset.Cursor[:14], "limit=0", "limit=-1", "limit=x", "limit=99999999999"} {
		s.want(400, "GET", collection+"?"+q, "")
	}
}

func TestDelta(t *testing.T) {
	s := serve(t, nil)
	s.rows(3)
	s.clock.Advance(time.Minute)
	s.sql("update alerts.status set Severity = 5 where Identifier = 'id1'")
	path := collection + "?collist=Identifier&since=1700000060"
	resp, body := s.do("GET", path, "")
	tag := resp.Header.Get("ETag")
	if r := s.read(body); fmt.Sprint(r.column("Identifier")) != "[id1]" || tag == "" {
		t.Fatalf("%v, ETag %q", r.Rowset.Rows, tag)
	}
	for _, header := range []string{tag, "*", `"x", ` + tag, strings.TrimPrefix(tag, "W/")} {
		if got := s.want(304, "GET", path, "", "If-None-Match", header); got != "" {
			t.Errorf("304 with a body: %s", got)
		}
	}
	s.sql("insert into alerts.journal (KeyField, Serial) values ('1', 1)") // another table
	s.want(304, "GET", path, "", "If-None-Match", tag)
	s.sql("delete from alerts.status where Identifier = 'id0'")
	resp, _ = s.do("GET", path, "", "If-None-Match", tag)
	if next := resp.Header.Get("ETag"); resp.StatusCode != 200 || next == tag {
		t.Errorf("after a change: %s, ETag %s as before", resp.Status, next)
	}
	tag = resp.Header.Get("ETag")
	s.sql("alter table alerts.status add column Extra integer")
	s.want(200, "GET", path, "", "If-None-Match", tag)
	for _, path := range []string{collection + "?filter=" + escape("LastOccurrence > GetDate() - 5"), "catalog/tables", collection + "?filter=" + escape("Serial in (select Serial from alerts.journal)")} {
		if resp, _ := s.do("GET", path, ""); resp.Header.Get("ETag") != "" || resp.StatusCode != 200 {
			t.Errorf("%s: %s, ETag %s for what changes by itself", path, resp.Status, resp.Header.Get("ETag"))
		}
	}
}

// TestTagsOfTwoServers on one log are the same only where the numbers of the rows are.
func TestTagsOfTwoServers(t *testing.T) {
	log := testengines.Memory(t)
	a, b := serveLog(t, log, nil), serveLog(t, log, nil)
	for path, same := range map[string]bool{collection: true, "alerts/journal": false} {
		first, _ := a.do("GET", path, "")
		second, _ := b.do("GET", path, "")
		one, two := first.Header.Get("ETag"), second.Header.Get("ETag")
		if one == "" || two == "" || (one == two) != same {
			t.Errorf("%s: %s and %s", path, one, two)
		}
		a.want(304, "GET", path, "", "If-None-Match", one)
	}
}

// TestLarge reads a result that is sent in parts, plain and in gzip.
func TestLarge(t *testing.T) {
	s := serve(t, nil)
	const n = 2000
	s.rows(n)
	for _, encoding := range []string{"identity", "gzip"} {
		r := s.request("GET", collection, "", "Accept-Encoding", encoding)
		resp, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var in io.Reader = resp.Body
		if encoding == "gzip" {
			if in, err = gzip.NewReader(resp.Body); err != nil {
				t.Fatal(err)
			}
		}
		p, err := io.ReadAll(in)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got := s.read(string(p)); got.Rowset.AffectedRows != n || len(got.Rowset.Rows) != n || resp.ContentLength >= 0 || resp.Header.Get("Vary") == "" ||
			(resp.Header.Get("Content-Encoding") == "gzip") != (encoding == "gzip") {
			t.Errorf("%s: %d of %d rows, %v", encoding, len(got.Rowset.Rows), got.Rowset.AffectedRows, resp.Header)
		}
	}
	if resp, _ := s.do("GET", collection+"?filter=Serial%3D1", "", "Accept-Encoding", "gzip"); resp.Header.Get("Content-Encoding") != "" || resp.ContentLength <= 0 {
		t.Errorf("a small answer: %v", resp.Header)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(insertBody("zipped")))
	_ = z.Close()
	s.want(201, "POST", collection, b.String(), "Content-Encoding", "gzip")
}

// TestBulk inserts many rows, of which some lack columns.
func TestBulk(t *testing.T) {
	s := serve(t, &Options{MaxInsertRows: 3})
	s.want(201, "POST", collection, `{"rowset":{"rows":[{"Identifier":"a","Severity":3},{"Node":"n","Identifier":"b"},{"Identifier":"c","Severity":null,"Flash":true}],
		"coldesc":[{"name":"Identifier","type":"string"}],"extension":[{"x":[1,2.5e1,null]}]}}`)
	r := s.read(s.want(200, "GET", collection+"?collist=Identifier,Severity,Node,Flash&orderby=Serial", ""))
	if got := fmt.Sprint(r.column("Identifier"), r.column("Severity"), r.column("Node"), r.column("Flash")); got != "[a b c] [3 0 0] [ n ] [0 0 1]" {
		t.Error(got)
	}
	s.want(413, "POST", collection, `{"rowset":{"rows":[{"Identifier":"1"},{"Identifier":"2"},{"Identifier":"3"},{"Identifier":"4"}]}}`)
	body := s.want(400, "POST", collection, `{"rowset":{"rows":[{"Identifier":"x"},{"Severity":1}]}}`)
	if e := s.read(body).Exception; e.Status != 400 || e.Code != "invalid" || !strings.Contains(e.Message, "row 2 has no Identifier") {
		t.Errorf("%+v", e)
	}
	s.want(400, "GET", collection+"?filter=Nothing%3D1", "")
	if r := s.read(s.sql("select count(*) as n from alerts.status")); r.Rowset.Rows[0]["n"] != 3.0 {
		t.Errorf("a refused insert wrote something: %v", r.Rowset.Rows)
	}
	s.sql("create table alerts.mine persistent (K varchar(10) primary key, L integer primary key, V real, B boolean)")
	s.want(201, "POST", "alerts/mine", `{"rowset":{"rows":[{"K":"a:b","L":7,"V":1.5,"B":true}]}}`)
	s.want(409, "POST", "alerts/mine", `{"rowset":{"rows":[{"K":"a:b","L":7}]}}`)
	if r := s.read(s.want(200, "GET", "alerts/mine/kf/a%3Ab%3A7", "")); fmt.Sprint(r.Rowset.Rows) != "[map[B:1 K:a:b L:7 RowSerial:1 V:1.5]]" {
		t.Errorf("%v", r.Rowset.Rows)
	}
}

// TestRefused sends what is wrong.
func TestRefused(t *testing.T) {
	s := serve(t, &Options{MaxBody: 4096, MaxStatement: 100})
	s.rows(5)
	one := `{"rowset":{"rows":[{"Severity":1}]}}`
	for _, c := range []struct {
		status             int
		method, path, body string
		header             []string
	}{
		{404, "GET", "/", "", nil},
		{404, "GET", "/objectserver/restapi", "", nil},
		{404, "GET", "/objectserver/restapix/alerts/status", "", nil},
		{404, "GET", "alerts", "", nil},
		{404, "GET", "alerts/nothing", "", nil},
		{404, "GET", "nothing/status", "", nil},
		{404, "GET", "alerts/status/one", "", nil},
		{404, "GET", "alerts/status/99", "", nil},
		{404, "GET", "alerts/status/kf/x", "", nil},
		{404, "GET", "alerts/status/kf/1%3AOTHER", "", nil},
		{404, "GET", "alerts/status/kf/1%3ANCOMS'%20or%20'1'%3D'1", "", nil},
		{404, "GET", "alerts/status/1/2/3/4/5/6", "", nil},
		{405, "PUT", collection, one, nil},
		{405, "GET", "sql/factory", "", nil},
		{405, "POST", "alerts/status/1", one, nil},
		{406, "GET", collection, "", []string{"Accept", "application/xml"}},
		{406, "GET", collection, "", []string{"Accept", "application/json;q=0"}},
		{415, "POST", collection, one, []string{"Content-Type", "text/plain"}},
		{415, "POST", "sql/factory", sqlBody("select 1"), []string{"Content-Type", "application/x-www-form-urlencoded"}},
		{415, "POST", collection, one, []string{"Content-Encoding", "br"}},
		{400, "POST", collection, "nonsense", []string{"Content-Encoding", "gzip"}},
		{413, "POST", collection, `{"rowset":"` + strings.Repeat("x", 5000) + `"}`, nil},
		{413, "POST", "sql/factory", sqlBody("select '" + strings.Repeat("x", 100) + "'"), nil},
		{400, "POST", "sql/factory", "", nil},
		{400, "POST", "sql/factory", "{}", nil},
		{400, "POST", "sql/factory", `{"sqlcmd":1}`, nil},
		{400, "POST", "sql/factory", `{"sqlcmd":"select 1","sqlcmd":"select 2"}`, nil},
		{400, "POST", "sql/factory", `{"sqlcmd":"select 1"} x`, nil},
		{400, "POST", "sql/factory", sqlBody(""), nil},
		{400, "POST", "sql/factory", sqlBody("nonsense"), nil},
		{400, "POST", "sql/factory", sqlBody("select ? from alerts.status"), nil},
		{400, "POST", "sql/factory", sqlBody("select * from alerts.nothing"), nil},
		{400, "POST", "sql/factory", sqlBody("grant x to y"), nil},
		{400, "POST", collection, `{"rowset":{"rows":[]}}`, nil},
		{400, "POST", collection, `{"rowset":{"rows":[{}]}}`, nil},
		{400, "POST", collection, `{"rowset":{"rows":[{"Identifier":"x","Nothing":1}]}}`, nil},
		{400, "POST", collection, `{"rowset":{"rows":[{"Identifier":"x","Identifier":"y"}]}}`, nil},
		{400, "POST", collection, `{"rowset":{"rows":[{"Identifier":{"x":1}}]}}`, nil},
		{400, "POST", collection, `{"rowset":{"rows":[{"Identifier":"x","Severity":"many"}]}}`, nil},
		{400, "POST", collection, `{"rowset":{"rows":[{"Identifier":"x","Severity":99999999999}]}}`, nil},
		{400, "POST", collection, strings.Repeat("[", 100), nil},
		{400, "POST", collection, `{"x":` + strings.Repeat("[", 100), nil},
		{403, "POST", "catalog/tables", `{"rowset":{"rows":[{"TableName":"x","DatabaseName":"y"}]}}`, nil},
		{400, "PATCH", collection, `{"rowset":{"rows":[{"Severity":1},{"Severity":2}]}}`, nil},
		{400, "PATCH", collection, `{"rowset":{"rows":[{"Identifier":"x"}]}}`, nil},
		{400, "PATCH", collection + "?Filter=Severity%3D1", one, nil},
		{400, "PATCH", collection + "?filter=Severity%3D1&filter=Severity%3D2", one, nil},
		{400, "DELETE", collection + "?filter=Severity=1;Node='x'", "", nil},
		{400, "DELETE", collection + "?filter=%zz", "", nil},
		{400, "DELETE", collection + "?where=Severity%3D1", "", nil},
		{400, "DELETE", collection + "?filter=" + escape("1=1 order by Serial"), "", nil},
		{400, "DELETE", collection + "?filter=" + escape("Severity = 1) or (1 = 1"), "", nil},
		{400, "DELETE", "alerts/status/1?filter=x", "", nil},
		{400, "GET", collection + "?collist=Nothing", "", nil},
		{400, "GET", collection + "?collist=" + escape("Serial from alerts.status; --"), "", nil},
		{400, "GET", collection + "?orderby=" + escape("Serial; delete"), "", nil},
		{400, "GET", collection + "?orderby=" + escape("Serial sideways"), "", nil},
		{400, "GET", collection + "?since=yesterday", "", nil},
		{400, "GET", "alerts/conversions?since=1", "", nil},
		{400, "GET", collection + "?filter=" + escape("(1=1"), "", nil},
		{400, "GET", collection + "?filter=" + escape("Node = 'x"), "", nil},
		{400, "GET", collection + "?filter=" + escape("1=1 -- x"), "", nil},
		{400, "GET", collection + "?filter=" + escape("1=1 /* x"), "", nil},
		{400, "GET", collection + "?filter=" + escape("Serial = ?"), "", nil},
	} {
		got := s.want(c.status, c.method, c.path, c.body, c.header...)
		if e := s.read(got).Exception; e.Status != c.status || e.Message == "" {
			t.Errorf("%s %s: %s", c.method, c.path, got)
		}
	}
	if r := s.read(s.want(200, "GET", collection+"?collist=Severity&orderby=Serial", "")); fmt.Sprint(r.column("Severity")) != "[0 1 2 3 4]" {
		t.Errorf("a refused request changed something: %v", r.column("Severity"))
	}
}

// TestCrowd has more requests than may be served.
func TestCrowd(t *testing.T) {
	s := serve(t, &Options{MaxRequests: 1, QueueTimeout: 10 * time.Millisecond})
	s.handler.slots <- struct{}{}
	resp, _ := s.do("GET", collection, "")
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("beyond MaxRequests: %s", resp.Status)
	}
	<-s.handler.slots
	s.want(200, "GET", collection, "")
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s.handler.Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "mainstem_omnibus_requests_total" && len(f.GetMetric()) != 2 {
			t.Errorf("%d kinds of requests were counted", len(f.GetMetric()))
		}
	}
}

func TestOptions(t *testing.T) {
	err := (&Options{MaxBody: -1, Timeout: -1, MaxStatement: 1 << 30, Realm: "a\"b"}).Validate()
	for _, name := range []string{"MaxBody", "Timeout", "MaxStatement", "Realm"} {
		if !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
	if _, err := New(nil, &Options{MaxRequests: -1}); err == nil {
		t.Error("New takes options that are not valid")
	}
}
