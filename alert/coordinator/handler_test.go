package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// TestRawSQLBytes compares answers byte by byte, through HTTP and in the process.
func TestRawSQLBytes(t *testing.T) {
	x := newSite(t, table(t, "ONE"))
	f := newFront(t, quick(map[string][]string{"A": {x.addr}, "B": {"local"}}), &Options{Backends: map[string]Backend{"local": must(NewServerBackend(table(t, "TWO"), people.in))}})
	for _, c := range []struct{ body, want string }{
		{`{"sql":"INSERT INTO  alerts . status  ( Identifier ,  Severity ,  Summary ) VALUES ('x', 5, 'it''s \"ü\"\n\u0001')"}`,
			`[{"clusterName":"A","rows":[],"affectedRows":1},{"clusterName":"B","rows":[],"affectedRows":1}]`},
		{`{"sql":"select Identifier, Severity, Summary from alerts.status","clusters":null}`,
			`[{"clusterName":"A","rows":[{"Identifier":"x","Severity":5,"Summary":"it's \"ü\"\n\u0001"}],"affectedRows":1},{"clusterName":"B","rows":[{"Identifier":"x","Severity":5,"Summary":"it's \"ü\"\n\u0001"}],"affectedRows":1}]`},
		{`{"sql":"select Identifier from alerts.status where Severity = 1","clusters":["B"]}`, `[{"clusterName":"B","rows":[],"affectedRows":0}]`},
		{`{"sql":"select 1","clusters":["nobody"]}`, `[]`},
		{`{"sql":"select 2 as n","clusters":["nobody","A","A"],"other":{"x":1}}`, `[{"clusterName":"A","rows":[{"n":2}],"affectedRows":1}]`},
		{`{"sql":"select 1 as n; select 2 as n","clusters":[]}`, `[{"clusterName":"A","rows":[{"n":2}],"affectedRows":1},{"clusterName":"B","rows":[{"n":2}],"affectedRows":1}]`},
		{`{"sql":"use alerts\ngo\nupdate status set Severity = 4\ngo\ndelete from status\ngo\n"}`, `[{"clusterName":"A","rows":[],"affectedRows":2},{"clusterName":"B","rows":[],"affectedRows":2}]`},
		{`{"sql":"select count(*) as n from status"}`, `[{"clusterName":"A","rows":[{"n":0}],"affectedRows":1},{"clusterName":"B","rows":[{"n":0}],"affectedRows":1}]`},
	} {
		if resp, got := f.post("root", "secret", c.body); resp.StatusCode != 200 || got != c.want || resp.Header.Get("X-Request-Id") != "id-1" || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
			t.Errorf("%s\n got %s\nwant %s", c.body, got, c.want)
		}
	}
	if got := f.get("/clusterNames", 200); got != `["A","B"]` {
		t.Error(got)
	}
}

func (f *front) get(path string, status int) string {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, f.web.URL+path, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("X-Request-Id", "id-1")
	resp, err := f.web.Client().Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	p, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		f.t.Errorf("%s: %s %s %v", path, resp.Status, p, err)
	}
	return string(p)
}

// documentedCase is a request whose answer the page documents.
type documentedCase struct {
	name, method, path, user, password, body string
	header                                   []string // names and values; "" takes one away
	status                                   int
	code                                     string
	prepare                                  func(*front)
}

func documentedCases() []documentedCase {
	ok := `{"sql":"select 1"}`
	post := func(name string, status int, code, body string, header ...string) documentedCase {
		return documentedCase{name: name, method: "POST", path: "/rawSQL", user: "root", password: "secret", body: body, header: header, status: status, code: code}
	}
	noAuth, noPassword, stopping := post("no Authorization", 401, "ERR_INSUFFICIENT_PRIVILEGES", ok), post("empty password", 403, "ERR_INSUFFICIENT_PRIVILEGES", ok), post("stopping", 503, "ERR_UNAVAILABLE", ok)
	noAuth.user, noPassword.password = "-", ""
	bye := func(f *front) { _ = f.c.Close() }
	stopping.prepare = bye
	return []documentedCase{
		post("fine", 200, "", ok),
		post("a cluster fails", 200, "", `{"sql":"fail"}`),
		post("lines", 200, "", ok, "Accept", "application/x-ndjson"),
		post("merged", 200, "", `{"sql":"select 1","merge":{"orderBy":["n desc"],"limit":3,"clusterColumn":"c"}}`),
		post("no request ID", 400, "ERR_VALIDATION", ok, "X-Request-Id", ""),
		post("long request ID", 400, "ERR_VALIDATION", ok, "X-Request-Id", strings.Repeat("x", 257)),
		post("no content type", 400, "ERR_VALIDATION", ok, "Content-Type", ""),
		post("other content type", 400, "ERR_VALIDATION", ok, "Content-Type", "text/plain"),
		post("no JSON", 400, "ERR_VALIDATION", `{"sql":`),
		post("no sql", 400, "ERR_VALIDATION", `{"clusters":["A"]}`),
		post("wrong type", 400, "ERR_VALIDATION", `{"sql":5}`),
		post("wrong order", 400, "ERR_VALIDATION", `{"sql":"x","merge":{"orderBy":["a b c"]}}`),
		post("wrong limit", 400, "ERR_VALIDATION", `{"sql":"x","merge":{"limit":-1}}`),
		post("too long", 400, "ERR_VALIDATION", `{"sql":"`+strings.Repeat("x", 5000)+`"}`),
		post("other scheme", 403, "ERR_INSUFFICIENT_PRIVILEGES", ok, "Authorization", "Bearer x"),
		noAuth, noPassword, stopping,
		{name: "other method", method: "PUT", path: "/rawSQL", status: 405, code: "ERR_INCORRECT_OPERATION"},
		{name: "names", method: "GET", path: "/clusterNames", status: 200},
		{name: "names without ID", method: "GET", path: "/clusterNames", header: []string{"X-Request-Id", ""}, status: 400, code: "ERR_VALIDATION"},
		{name: "names by POST", method: "POST", path: "/clusterNames", status: 405, code: "ERR_INCORRECT_OPERATION"},
		{name: "health", method: "GET", path: "/healthz", status: 200},
		{name: "ready", method: "GET", path: "/readyz", status: 200},
		{name: "not ready", method: "GET", path: "/readyz", status: 503, code: "ERR_UNAVAILABLE", prepare: bye},
		{name: "page", method: "GET", path: "/openapi.yml", status: 200},
	}
}

func (f *front) run(c *documentedCase) (*http.Response, string) {
	f.t.Helper()
	if c.prepare != nil {
		c.prepare(f)
	}
	req, err := http.NewRequestWithContext(f.t.Context(), c.method, f.web.URL+c.path, strings.NewReader(c.body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("X-Request-Id", "id")
	req.Header.Set("Content-Type", "application/json")
	if c.user != "" && c.user != "-" {
		req.SetBasicAuth(c.user, c.password)
	}
	for i := 0; i < len(c.header); i += 2 {
		req.Header.Del(c.header[i])
		if c.header[i+1] != "" {
			req.Header.Set(c.header[i], c.header[i+1])
		}
	}
	resp, err := f.web.Client().Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	p, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return resp, string(p)
}

// TestOpenAPI asks for everything that the served page documents, and compares status,
// media type and shape with it.
func TestOpenAPI(t *testing.T) {
	var page map[string]any
	produced := map[string]bool{}
	for _, c := range documentedCases() {
		t.Run(c.name, func(t *testing.T) {
			s := &fake{name: "s", query: func(_ context.Context, _ *fakeConn, sql string, row func([]byte) error) (int64, error) {
				if sql == "fail" {
					return 0, &mainstem.Error{Kind: mainstem.KindInvalid, Err: errors.New("no")}
				}
				return 2, errors.Join(row([]byte(`{"n":1}`)), row([]byte(`{"n":2}`)))
			}}
			config := quick(map[string][]string{"A": {"s"}})
			config.HTTP.MaxBody = 4000
			f := newFront(t, config, &Options{Backends: map[string]Backend{"s": s}})
			if page == nil {
				if err := yaml.Unmarshal([]byte(f.get("/openapi.yml", 200)), &page); err != nil {
					t.Fatal(err)
				}
			}
			resp, body := f.run(&c)
			if resp.StatusCode != c.status {
				t.Fatalf("%s %s", resp.Status, body)
			}
			if c.code != "" && !strings.Contains(body, `"error":"`+c.code+`"`) {
				t.Errorf("want %s: %s", c.code, body)
			}
			media := strings.TrimSpace(strings.Split(resp.Header.Get("Content-Type"), ";")[0])
			at := []string{"paths", c.path, strings.ToLower(c.method), "responses", fmt.Sprint(c.status), "content", media, "schema"}
			if c.status == 405 { // the documented method of the path documents it
				at[2] = map[string]string{"/rawSQL": "post", "/clusterNames": "get"}[c.path]
			}
			schema := lookup(page, page, at...)
			if schema == nil {
				t.Fatalf("the page does not document %v", at)
			}
			produced[strings.Join(at[1:7], " ")] = true
			for _, value := range valuesOf(t, media, body) {
				if err := conforms(page, schema, value); err != nil {
					t.Errorf("%v: %s", err, body)
				}
			}
		})
	}
	for _, d := range documented(page) {
		if !produced[d] {
			t.Errorf("the page documents what no case produces: %s", d)
		}
	}
}

// valuesOf returns the documents in a body.
func valuesOf(t testing.TB, media, body string) []any {
	t.Helper()
	texts := []string{body}
	if media == "application/x-ndjson" {
		texts = strings.Split(strings.TrimSpace(body), "\n")
	}
	var values []any
	for _, text := range texts {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if media != "application/yaml" {
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				t.Fatal(err)
			}
		}
		values = append(values, v)
	}
	return values
}

// documented returns every path, method, status and media type of the page.
func documented(page map[string]any) []string {
	var out []string
	paths, _ := page["paths"].(map[string]any)
	for path, methods := range paths {
		for method := range methods.(map[string]any) {
			for status := range lookup(page, page, "paths", path, method, "responses") {
				for media := range lookup(page, page, "paths", path, method, "responses", status, "content") {
					out = append(out, strings.Join([]string{path, method, "responses", status, "content", media}, " "))
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// lookup follows keys and references.
func lookup(page, at map[string]any, keys ...string) map[string]any {
	for _, k := range keys {
		next, _ := at[k].(map[string]any)
		at = deref(page, next)
	}
	return at
}

func deref(page, at map[string]any) map[string]any {
	if ref, ok := at["$ref"].(string); ok {
		return lookup(page, page, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	return at
}

// conforms checks a value against what of JSON Schema the page uses.
func conforms(page, schema map[string]any, v any) error {
	schema = deref(page, schema)
	switch schema["type"] {
	case "array":
		list, ok := v.([]any)
		if !ok {
			return fmt.Errorf("%v is no array", v)
		}
		items, _ := schema["items"].(map[string]any)
		for _, x := range list {
			if err := conforms(page, items, x); err != nil {
				return err
			}
		}
	case "object":
		return conformsObject(page, schema, v)
	case "string":
		s, ok := v.(string)
		if enum, _ := schema["enum"].([]any); !ok || enum != nil && !slices.Contains(enum, any(s)) {
			return fmt.Errorf("%v is not one of the strings", v)
		}
	case "integer":
		if n, ok := v.(float64); !ok || n != float64(int64(n)) {
			return fmt.Errorf("%v is no whole number", v)
		}
	default:
		return fmt.Errorf("the page has the type %v", schema["type"])
	}
	return nil
}

func conformsObject(page, schema map[string]any, v any) error {
	object, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%v is no object", v)
	}
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, ok := object[name.(string)]; !ok {
			return fmt.Errorf("%v is missing", name)
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, x := range object {
		p, ok := properties[name].(map[string]any)
		if !ok && schema["additionalProperties"] == false {
			return fmt.Errorf("%s is not documented", name)
		}
		if ok {
			if err := conforms(page, p, x); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

func TestMerge(t *testing.T) {
	backends := map[string]Backend{}
	for name, rows := range map[string]string{"a": `{"n":2,"s":"b"} {"n":10,"s":"a"}`, "b": `{"n":2,"s":"a"} {"n":-1.5,"s":"z"} {}`, "c": ""} {
		backends[name] = &fake{name: name, query: func(_ context.Context, _ *fakeConn, _ string, row func([]byte) error) (int64, error) {
			if rows == "" {
				return 0, &mainstem.Error{Kind: mainstem.KindInvalid, Err: errors.New("no")}
			}
			for r := range strings.SplitSeq(rows, " ") {
				if err := row([]byte(r)); err != nil {
					return 0, err
				}
			}
			return int64(strings.Count(rows, "{")), nil
		}}
	}
	f := newFront(t, quick(map[string][]string{"A": {"a"}, "B": {"b"}, "C": {"c"}}), &Options{Backends: backends})
	failed := `,{"clusterName":"C","rows":[],"affectedRows":0,"error":{"error":"ERR_INVALID_ARGUMENT","message":"the statement was refused","reason":"invalid: no"}}]`
	for merge, want := range map[string]string{
		`{"orderBy":["n desc","s"],"limit":4}`:                            `[{"clusterName":"*","rows":[{"n":10,"s":"a"},{"n":2,"s":"a"},{"n":2,"s":"b"},{}],"affectedRows":4}` + failed,
		`{"orderBy":["s ASC","n"],"limit":2,"clusterColumn":"cl\"uster"}`: `[{"clusterName":"*","rows":[{"cl\"uster":"B"},{"cl\"uster":"B","n":2,"s":"a"}],"affectedRows":2}` + failed,
		`{"limit":1}`: `[{"clusterName":"*","rows":[{"n":2,"s":"b"}],"affectedRows":1}` + failed,
	} {
		if _, got := f.post("root", "secret", `{"sql":"select 1","merge":`+merge+`}`); got != want {
			t.Errorf("%s\n got %s\nwant %s", merge, got, want)
		} else if !json.Valid([]byte(got)) {
			t.Errorf("no JSON: %s", got)
		}
	}
}

// TestLongAnswersAreStreamed: rows come before the cluster is done, one cluster after
// the other, and an error at the end is in the entry.
func TestLongAnswersAreStreamed(t *testing.T) {
	for _, lines := range []bool{false, true} {
		more, done := make(chan struct{}), make(chan struct{})
		long := func(_ context.Context, c *fakeConn, _ string, row func([]byte) error) (int64, error) {
			for range 2 {
				for range 1000 {
					if err := row(fmt.Appendf(nil, `{"x":%q}`, strings.Repeat("y", 50))); err != nil {
						return 0, err
					}
				}
				<-more
			}
			if c.s.name == "b" {
				return 0, &mainstem.Error{Kind: mainstem.KindUnavailable, Outcome: mainstem.Unknown, Err: errors.New("gone")}
			}
			return 2000, nil
		}
		config := quick(map[string][]string{"A": {"a"}, "B": {"b"}, "C": {"c"}})
		config.OMNIbus.StreamAfter = 1000
		f := newFront(t, config, &Options{Backends: map[string]Backend{"a": &fake{name: "a", query: long}, "b": &fake{name: "b", query: long}, "c": &fake{name: "c"}}})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.web.URL+"/rawSQL", strings.NewReader(`{"sql":"select 1"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth("root", "secret")
		req.Header.Set("X-Request-Id", "1")
		req.Header.Set("Content-Type", "application/json")
		if lines {
			req.Header.Set("Accept", "application/x-ndjson")
		}
		resp, err := f.web.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 900)
		if _, err := io.ReadFull(resp.Body, first); err != nil {
			t.Fatal(err)
		}
		close(more)
		rest, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		close(done)
		if err != nil {
			t.Fatal(err)
		}
		checkStream(t, lines, string(first)+string(rest))
	}
}

func checkStream(t *testing.T, lines bool, text string) {
	t.Helper()
	rows, errs, clusters := map[string]int{}, map[string]string{}, 0
	if !lines {
		var list []answered
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		for _, a := range list {
			clusters++
			rows[a.ClusterName], errs[a.ClusterName] = len(a.Rows), a.code()
		}
	} else {
		for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
			var l struct {
				ClusterName  string
				Row          map[string]any
				AffectedRows *int64
				Error        *struct{ Error string }
			}
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err, line)
			}
			if l.Row != nil {
				rows[l.ClusterName]++
				continue
			}
			clusters++
			if l.Error != nil {
				errs[l.ClusterName] = l.Error.Error
			}
		}
	}
	if clusters != 3 || rows["A"] != 2000 || rows["C"] != 1 || errs["A"] != "" || errs["B"] != "ERR_UNAVAILABLE" || !lines && rows["B"] != 0 && rows["B"] != 2000 {
		t.Errorf("lines=%v: %d clusters, rows %v, errors %v", lines, clusters, rows, errs)
	}
}

func TestLimitOfAResult(t *testing.T) {
	s := &fake{name: "s", query: func(_ context.Context, _ *fakeConn, _ string, row func([]byte) error) (int64, error) {
		for range 100 {
			if err := row([]byte(`{"x":"yyyyyyyyyyyyyyyyyyyy"}`)); err != nil {
				return 0, err
			}
		}
		return 100, nil
	}}
	config := quick(map[string][]string{"A": {"s"}})
	config.OMNIbus.MaxResult = 1000
	f := newFront(t, config, &Options{Backends: map[string]Backend{"s": s}})
	if a := f.sql("select 1")["A"]; a.code() != "ERR_INVALID_ARGUMENT" || len(a.Rows) != 0 {
		t.Errorf("%+v", a)
	}
}

func TestCloseWaitsForRequests(t *testing.T) {
	f, first, _ := pair(t, func(c *Config) { c.HTTP.ShutdownTimeout = testkit.Patience })
	begun, release := make(chan struct{}), make(chan struct{})
	first.set(func() {
		first.query = func(_ context.Context, _ *fakeConn, _ string, row func([]byte) error) (int64, error) {
			close(begun)
			<-release
			return 1, row([]byte(`{"Server":"first"}`))
		}
	})
	answer, closed := make(chan answered), make(chan error)
	go func() { answer <- f.sql("select 1")["AGG"] }()
	<-begun
	go func() { closed <- f.c.Close() }()
	testkit.Eventually(t, "new requests are refused", func() bool {
		resp, _ := f.post("root", "secret", `{"sql":"x","clusters":["none"]}`)
		return resp.StatusCode == http.StatusServiceUnavailable
	})
	select {
	case <-closed:
		t.Error("Close did not wait")
	default:
	}
	close(release)
	if a := <-answer; a.from() != "first" {
		t.Errorf("a request that was running failed: %+v", a)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	for _, s := range []*fake{first} {
		if s.get(func() int { return s.open }) != 0 {
			t.Error("connections are open after Close")
		}
	}
}

// TestCloseEndsWhatTakesTooLong: a request that does not end by itself is ended.
func TestCloseEndsWhatTakesTooLong(t *testing.T) {
	f, first, _ := pair(t, func(c *Config) { c.HTTP.ShutdownTimeout = 1 })
	begun := make(chan struct{})
	first.set(func() {
		first.query = func(ctx context.Context, _ *fakeConn, _ string, _ func([]byte) error) (int64, error) {
			close(begun)
			<-ctx.Done()
			return 0, cut
		}
	})
	answer := make(chan answered)
	go func() { answer <- f.sql("select 1")["AGG"] }()
	<-begun
	if err := f.c.Close(); err != nil {
		t.Error(err)
	}
	if a := <-answer; a.Error == nil {
		t.Errorf("%+v", a)
	}
}

func TestPanicIsAnErrorOfItsRequest(t *testing.T) {
	f, _, _ := pair(t, nil)
	f.c.byName["AGG"] = nil // a bug
	if resp, body := f.post("root", "secret", `{"sql":"x","clusters":["AGG"]}`); resp.StatusCode != 500 || !strings.Contains(body, "ERR_UNKNOWN") {
		t.Error(resp.Status, body)
	}
	if got := f.get("/clusterNames", 200); got != `["AGG"]` {
		t.Error(got)
	}
}

// TestPanicOfABackendIsAnErrorOfItsCluster: others answer, and no connection is lost by it.
func TestPanicOfABackendIsAnErrorOfItsCluster(t *testing.T) {
	bug := func() { panic("a bug") }
	for name, prepare := range map[string]func(*fake){
		"connecting": func(s *fake) { s.wrong = func(Credential) error { bug(); return nil } },
		"a statement": func(s *fake) {
			s.query = func(context.Context, *fakeConn, string, func([]byte) error) (int64, error) { bug(); return 0, nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			bad, good := &fake{name: "bad"}, &fake{name: "good"}
			config := quick(map[string][]string{"A": {"bad"}, "B": {"good"}})
			config.OMNIbus.MaxConnections = 2
			f := newFront(t, config, &Options{Backends: map[string]Backend{"bad": bad, "good": good}})
			bad.set(func() { prepare(bad) })
			for range 2*config.OMNIbus.MaxConnections + 1 {
				got := f.sql("select 1", "A", "B")
				if a, b := got["A"], got["B"]; a.code() != "ERR_UNKNOWN" || b.from() != "good" {
					t.Fatalf("%+v", got)
				}
			}
			bad.set(func() { bad.wrong, bad.query = nil, nil })
			if a := f.sql("select 1", "A")["A"]; a.from() != "bad" {
				t.Errorf("afterwards: %+v", a)
			}
		})
	}
}

// panicking is a server whose checks panic.
type panicking struct{ *fake }

func (panicking) Ping(context.Context) error { panic("a bug") }

// TestPanicOfACheckIsAFailure of the server, and not the end of the process.
func TestPanicOfACheckIsAFailure(t *testing.T) {
	config := quick(map[string][]string{"A": {"bad"}})
	config.OMNIbus.HealthInterval = time.Hour
	f := newFront(t, config, &Options{Backends: map[string]Backend{"bad": panicking{&fake{name: "bad"}}}})
	f.c.clusters[0].check(t.Context())
	if failures, last := f.c.clusters[0].servers[0].state(); failures != 1 || !errors.Is(last, errPanicked) {
		t.Errorf("%d failures, the last: %v", failures, last)
	}
}

// FuzzParse: any body is refused or understood.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"sql":"x","clusters":["a"],"merge":{"orderBy":["a desc"],"limit":1}}`))
	f.Add([]byte(`{"sql":"select 'a' from b"}` + "\n"))
	f.Add([]byte(`{"sql":"a","sql":"b"}`))
	f.Add([]byte(`{"sql":"\u0041"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if sql, ok := onlySQL(body); ok {
			var whole rawSQL
			if err := json.Unmarshal(body, &whole); err != nil || whole.SQL == nil || *whole.SQL != sql || whole.Clusters != nil || whole.Merge != nil {
				t.Fatalf("%q is %q, and in general %v, %v", body, sql, whole, err)
			}
		}
		r, err := parse(body)
		if err == nil && (r.SQL == nil || r.Merge != nil && len(r.Merge.terms) != len(r.Merge.OrderBy)) {
			t.Fatal("accepted", reflect.ValueOf(*r))
		}
	})
}
