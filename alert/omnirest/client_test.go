package omnirest

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/omnibus"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripted answers every request with the same, and keeps what was asked.
type scripted struct {
	status int
	body   string
	header map[string]string
	asked  []string
	bodies []string
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	user, password, _ := r.BasicAuth()
	s.asked = append(s.asked, fmt.Sprintf("%s %s %s:%s %s", r.Method, r.URL.RequestURI(), user, password, r.Header.Get("Accept")))
	s.bodies = append(s.bodies, string(body))
	w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	for k, v := range s.header {
		w.Header().Set(k, v)
	}
	w.WriteHeader(s.status)
	_, _ = io.WriteString(w, s.body)
}

func connect(t testing.TB, h http.Handler, o *Options) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := New(s.URL, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// documented is the answer to a GET in IBM's layout: tabs, and affectedRows at the end.
const documented = "{\n\t\"rowset\":\t{\n\t\t\"osname\":\t\"NCOMS\",\n\t\t\"dbname\":\t\"alerts\",\n\t\t\"tblname\":\t\"status\",\n" +
	"\t\t\"coldesc\":\t[{\n\t\t\t\"name\":\t\"Identifier\",\n\t\t\t\"type\":\t\"string\",\n\t\t\t\"size\":\t255\n\t\t}, {\n\t\t\t\"name\":\t\"StateChange\",\n\t\t\t\"type\":\t\"utc\",\n\t\t\t\"size\":\t4\n\t\t}],\n" +
	"\t\t\"rows\":\t[{\n\t\t\t\"Identifier\":\t\"a\\u0000\",\n\t\t\t\"StateChange\":\t1341412087\n\t\t}, {\n\t\t\t\"Identifier\":\t\"b\",\n\t\t\t\"StateChange\":\t0\n\t\t}],\n\t\t\"affectedRows\":\t2\n\t}\n}"

func TestReadsAnswersInAnyOrder(t *testing.T) {
	for name, body := range map[string]string{
		"documented": documented,
		"count first": `{"rowset":{"osname":"NCOMS","affectedRows":2,"coldesc":[{"name":"Identifier","type":"string","size":255},{"size":4,"type":"utc","name":"StateChange"}],` +
			`"rows":[{"StateChange":1341412087,"Identifier":"a"},{"Identifier":"b","StateChange":0}],"dbname":"alerts","tblname":"status"}}`,
	} {
		c := connect(t, &scripted{status: 200, body: body}, nil)
		res, err := c.Get(t.Context(), "alerts.status", Where{}, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		if res.Server != "NCOMS" || res.Database != "alerts" || res.Table != "status" || res.Affected != 2 || len(res.Rows) != 2 || fmt.Sprint(res.Columns) != "[{Identifier string 255} {StateChange utc 4}]" {
			t.Errorf("%s: %+v", name, res)
		}
		if r := res.Rows[0]; r.Text("Identifier") != "a" || r.Time("StateChange").Unix() != 1341412087 || !res.Rows[1].Time("StateChange").IsZero() {
			t.Errorf("%s: %s", name, r.Raw())
		}
	}
}

func TestRowsMayBeMissing(t *testing.T) {
	for _, body := range []string{`{"rowset":{"affectedRows":0}}`, `{"rowset":{"rows":null,"affectedRows":0}}`, `{"rowset":{"rows":[],"affectedRows":0}}`} {
		res, err := connect(t, &scripted{status: 200, body: body}, nil).SQL(t.Context(), "select 1")
		if err != nil || len(res.Rows) != 0 {
			t.Error(body, err)
		}
	}
}

// TestRequests compares what is sent with what IBM documents.
func TestRequests(t *testing.T) {
	s := &scripted{status: 200, body: `{"entry":{"affectedRows":1,"keyField":"12481%3ANCOMS","uri":"http://x/kf/12481%3ANCOMS"},"rowset":{}}`}
	c := connect(t, s, &Options{User: "root", Password: "p:w"})
	values := map[string]any{"Identifier": "x", "Severity": 4, "FirstOccurrence": time.Unix(1341412087, 0)}
	entry, err := c.Insert(t.Context(), "alerts.status", values)
	if err != nil || entry != (Entry{1, "12481:NCOMS", "http://x/kf/12481%3ANCOMS"}) {
		t.Error(entry, err)
	}
	calls := []error{}
	add := func(_ any, err error) { calls = append(calls, err) }
	add(c.Update(t.Context(), "alerts.status", Where{KeyField: "12481:NCOMS"}, map[string]any{"Acknowledged": 1}))
	add(c.Update(t.Context(), "alerts.status", Where{Filter: "Severity > 3 AND Node = 'a+b'"}, map[string]any{"Location": "it's"}))
	add(c.Delete(t.Context(), "alerts.status", Where{Serial: 7}))
	add(c.Delete(t.Context(), "alerts.details", Where{All: true}))
	add(c.Get(t.Context(), "catalog.columns", Where{Filter: "TableName='status'"}, &Selection{Columns: []string{"ColumnName", "DataType"}, OrderBy: "ColumnName DESC"}))
	add(c.SQL(t.Context(), "select \"x\"\n from status"))
	if err := errors.Join(calls...); err != nil {
		t.Error(err)
	}
	want := []string{
		"POST /objectserver/restapi/alerts/status", "PATCH /objectserver/restapi/alerts/status/kf/12481%3ANCOMS",
		"PATCH /objectserver/restapi/alerts/status?filter=Severity%20%3E%203%20AND%20Node%20%3D%20%27a%2Bb%27", "DELETE /objectserver/restapi/alerts/status/7",
		"DELETE /objectserver/restapi/alerts/details", "GET /objectserver/restapi/catalog/columns?collist=ColumnName%2CDataType&filter=TableName%3D%27status%27&orderby=ColumnName%20DESC",
		"POST /objectserver/restapi/sql/factory",
	}
	bodies := []string{
		`{"rowset":{"coldesc":[{"type":"utc","name":"FirstOccurrence"},{"type":"string","name":"Identifier"},{"type":"integer","name":"Severity"}],"rows":[{"FirstOccurrence":1341412087,"Identifier":"x","Severity":4}],"affectedRows":0}}`,
		`{"rowset":{"coldesc":[{"type":"integer","name":"Acknowledged"}],"rows":[{"Acknowledged":1}],"affectedRows":0}}`,
		`{"rowset":{"coldesc":[{"type":"string","name":"Location"}],"rows":[{"Location":"it's"}],"affectedRows":0}}`,
		"", "", "", `{"sqlcmd":"select \"x\"\n from status"}`,
	}
	for i := range want {
		if got := s.asked[i]; got != want[i]+" root:p:w application/json" || s.bodies[i] != bodies[i] {
			t.Errorf("%d: %s\n%s", i, got, s.bodies[i])
		}
	}
}

// A proxy without a server behind it answers 404. Rows that a receiver of alerts has are not lost by it.
func TestNotFoundOfAProxy(t *testing.T) {
	for body, want := range map[string]error{
		"<html>404</html>":                                           mainstem.ErrUnavailable,
		"404 page not found":                                         mainstem.ErrUnavailable,
		`{"exception":{"message":"no column X"}}`:                    mainstem.ErrNotFound,
		`{"exception":{"code":"not found","message":"no column X"}}`: mainstem.ErrNotFound,
	} {
		cl := connect(t, &scripted{status: 404, body: body}, nil)
		err := cl.InsertRows(t.Context(), "alerts.status", []string{"Identifier"}, [][]any{{"x"}})
		var e *mainstem.Error
		if !errors.Is(err, want) || !errors.As(err, &e) || e.Outcome != mainstem.NotWritten {
			t.Errorf("%s: %v, want %v", body, err, want)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		status  int
		body    string
		kind    mainstem.Kind
		outcome mainstem.Outcome
	}{
		{400, `{"exception":{"status":400,"message":"no column X"}}`, mainstem.KindInvalid, mainstem.NotWritten},
		{400, `{"exception":{"code":"unsupported","message":"GRANT"}}`, mainstem.KindUnsupported, mainstem.NotWritten},
		{401, `Authorization Required`, mainstem.KindDenied, mainstem.NotWritten},
		{403, `{}`, mainstem.KindDenied, mainstem.NotWritten},
		{404, `<html>`, mainstem.KindNotFound, mainstem.NotWritten},
		{409, `{"exception":{"message":"primary key collision"}}`, mainstem.KindExists, mainstem.NotWritten},
		{415, ``, mainstem.KindUnsupported, mainstem.NotWritten},
		{500, `{"exception":{"message":"syntax error"}}`, mainstem.KindInvalid, mainstem.Unknown},
		{500, `boom {`, mainstem.KindInternal, mainstem.Unknown},
		{503, `{"exception":{"code":"canceled","message":"slow"}}`, mainstem.KindUnavailable, mainstem.Unknown},
		{200, `hello`, mainstem.KindCorrupt, mainstem.Unknown},
		{200, `{"rowset":{"rows":[{"a":1}`, mainstem.KindUnavailable, mainstem.Unknown},
		{200, `{"rowset":{"rows":[5]}}`, mainstem.KindCorrupt, mainstem.Unknown},
		{200, `{}`, mainstem.KindCorrupt, mainstem.Unknown},
	} {
		cl := connect(t, &scripted{status: c.status, body: c.body}, nil)
		_, err := cl.SQL(t.Context(), "insert into alerts.status (Identifier) values ('x')")
		var e *mainstem.Error
		if !errors.As(err, &e) || e.Kind != c.kind || e.Outcome != c.outcome {
			t.Errorf("%d %s: %#v", c.status, c.body, err)
		}
		var s *StatusError
		if errors.As(err, &s) && (s.Status != c.status || strings.Contains(c.body, "message") && !strings.Contains(c.body, s.Message)) {
			t.Error(s)
		}
		if _, err := cl.SQL(t.Context(), "delete from a.b; delete from a.c"); c.status == 400 && !errors.Is(err, mainstem.ErrUnknownOutcome) {
			t.Error("the second of two statements failed, and the first is said not to be written:", err)
		}
	}
}

func TestInvalid(t *testing.T) {
	c := connect(t, &scripted{status: 200, body: "{}"}, nil)
	calls := map[string]error{}
	_, calls["no rows named"] = c.Delete(t.Context(), "alerts.status", Where{})
	_, calls["two ways"] = c.Update(t.Context(), "alerts.status", Where{All: true, Filter: "x"}, map[string]any{"a": 1})
	_, calls["table"] = c.Get(t.Context(), "status", Where{}, nil)
	_, calls["type"] = c.Insert(t.Context(), "alerts.status", map[string]any{"a": []int{1}})
	_, calls["nothing"] = c.Insert(t.Context(), "alerts.status", nil)
	_, calls["ragged"] = c.InsertMany(t.Context(), "alerts.status", []string{"a", "b"}, [][]any{{1}})
	_, calls["URL"] = New("nonsense", nil)
	_, calls["user"] = New("http://x", &Options{User: "a:b"})
	_, calls["limit"] = New("http://x", &Options{MaxRow: -1})
	for name, err := range calls {
		if !errors.Is(err, mainstem.ErrInvalid) {
			t.Error(name, err)
		}
	}
	if err := c.InsertRows(t.Context(), "alerts.status", []string{"a"}, [][]any{{1}}, "a"); !errors.Is(err, mainstem.ErrUnsupported) {
		t.Error(err)
	}
}

func TestLimits(t *testing.T) {
	body := `{"rowset":{"rows":[{"a":"` + strings.Repeat("x", 1000) + `"},{"a":"y"}]}}`
	for _, o := range []Options{{MaxRow: 500}, {MaxResult: 500}} {
		if _, err := connect(t, &scripted{status: 200, body: body}, &o).SQL(t.Context(), "select 1"); !errors.Is(err, mainstem.ErrInvalid) {
			t.Error(o, err)
		}
	}
}

func TestGzip(t *testing.T) {
	var asked string
	c := connect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header.Get("Accept-Encoding")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write([]byte(documented))
		_ = z.Close()
	}), &Options{Compress: true})
	res, err := c.SQL(t.Context(), "select 1")
	if err != nil || len(res.Rows) != 2 || asked != "gzip" {
		t.Error(res, err, asked)
	}
}

// TestMainstemIsAskedUntilItAnswers: an error, or the page of a proxy, does not say what server it is.
func TestMainstemIsAskedUntilItAnswers(t *testing.T) {
	const ours, other = `{"rowset":{"rows":[{"Product":"Mainstem"}]}}`, `{"rowset":{"rows":[{"Product":"Other"}]}}`
	for name, c := range map[string]struct {
		status int
		body   string
		last   bool // nothing is asked after it
	}{
		"failed": {500, "boom {", false}, "page": {200, "<html>", false}, "no rowset": {200, "{}", false},
		"no such path": {404, "", true}, "no such method": {405, "", true}, "refused": {400, "", true}, "IBM": {500, `{"exception":{"message":"what?"}}`, true}, "other": {200, other, true},
	} {
		s := &scripted{status: c.status, body: c.body}
		cl := connect(t, s, nil)
		if own, err := cl.Mainstem(t.Context()); own || err != nil {
			t.Errorf("%s: %v, %v", name, own, err)
		}
		s.status, s.body = 200, ours
		for range 2 {
			if own, err := cl.Mainstem(t.Context()); own == c.last || err != nil {
				t.Errorf("%s, then Mainstem: %v, %v", name, own, err)
			}
		}
		if want := map[bool]int{true: 1, false: 2}[c.last]; len(s.asked) != want {
			t.Errorf("%s: asked %d times, want %d", name, len(s.asked), want)
		}
	}
}

// TestIBMInsertsOneByOne: a server that has no bulk insert is given none.
func TestIBMInsertsOneByOne(t *testing.T) {
	posts := 0
	c := connect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.Error(w, "not found", http.StatusNotFound)
			return
		}
		posts++
		body, _ := io.ReadAll(r.Body)
		if strings.Count(string(body), `"Identifier":`) != 1 {
			t.Errorf("several rows in %s", body)
		}
		if posts == 3 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"entry":{"affectedRows":1}}`)
	}), nil)
	n, err := c.InsertMany(t.Context(), "alerts.status", []string{"Identifier"}, [][]any{{"a"}, {"b"}, {"c"}, {"d"}})
	if n != 2 || !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(fmt.Sprint(err), "after 2 rows") {
		t.Error(n, err)
	}
}

// TestAgainstMainstem works through the interface of a real server, on connections of
// the client and on those of net/http.
func TestAgainstMainstem(t *testing.T) {
	server, err := alert.Open(t.Context(), testengines.Memory(t), &alert.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	h, err := omnibus.New(server, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	for name, o := range map[string]*Options{"own": nil, "net-http": {HTTPClient: &http.Client{Transport: transport}}} {
		t.Run(name, func(t *testing.T) { runMainstem(t, connect(t, h, o)) })
	}
}

func runMainstem(t *testing.T, c *Client) {
	ctx := t.Context()
	if err := c.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	entry, err := c.Insert(ctx, "alerts.status", map[string]any{"Identifier": "one", "Severity": 5, "Summary": "it's \"ü\"", "FirstOccurrence": time.Unix(1700000000, 0)})
	if err != nil || entry.Affected != 1 {
		t.Fatal(entry, err)
	}
	res, err := c.Get(ctx, "alerts.status", Where{KeyField: entry.KeyField}, &Selection{Columns: []string{"Summary", "FirstOccurrence"}})
	if err != nil || len(res.Rows) != 1 || res.Rows[0].Text("Summary") != `it's "ü"` || res.Rows[0].Int("FirstOccurrence") != 1700000000 || res.Rows[0].Int("RowSerial") == 0 {
		t.Fatal(res, err)
	}
	rows := make([][]any, 2500)
	for i := range rows {
		rows[i] = []any{fmt.Sprint("many", i), i % 6}
	}
	if n, err := c.InsertMany(ctx, "alerts.status", []string{"Identifier", "Severity"}, rows); err != nil || n != 2500 {
		t.Fatal(n, err)
	}
	seen := 0
	res, err = c.EachSQL(ctx, "select Identifier from alerts.status where Identifier like '^many'", func(Row) error { seen++; return nil })
	if err != nil || seen != 2500 || res.Affected != 2500 {
		t.Error(seen, err)
	}
	stop := errors.New("enough")
	if _, err := c.EachSQL(ctx, "select Identifier from alerts.status", func(Row) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
	if e, err := c.Update(ctx, "alerts.status", Where{Filter: "Severity = 5"}, map[string]any{"Acknowledged": true}); err != nil || e.Affected != 417 {
		t.Error(e, err)
	}
	page, err := c.Get(ctx, "alerts.status", Where{}, &Selection{Limit: 10, Columns: []string{"Identifier"}})
	if err != nil || len(page.Rows) != 10 || page.Cursor == "" {
		t.Error(page, err)
	}
	if _, err := c.SQL(ctx, "select nonsense from alerts.status"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Error(err)
	}
	if e, err := c.Delete(ctx, "alerts.status", Where{All: true}); err != nil || e.Affected != 2501 {
		t.Error(e, err)
	}
	if _, err := c.Get(ctx, "alerts.status", Where{Serial: 1 << 30}, nil); !errors.Is(err, mainstem.ErrNotFound) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := c.SQL(ctx, "select 1"); !errors.Is(err, mainstem.ErrCanceled) {
		t.Error(err)
	}
}

// FuzzAnswer feeds any answer to the client: no panic, and an error or rows.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(documented))
	f.Add([]byte(`{"rowset":{"rows":[{}],"coldesc":[{}]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s := &scripted{status: 200, body: string(body)}
		c := &Client{do: handlerDoer{s}}
		res, err := c.SQL(t.Context(), "select 1")
		if (err == nil) == (res == nil) {
			t.Fatal(res, err)
		}
	})
}
