package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/coordinator"
	"github.com/mainstemdev/mainstem/alert/omnirest/httpconn"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend answers each statement with what follows "rows ", and "fail" with an error.
type backend struct{ name string }

func (b backend) Connect(context.Context, coordinator.Credential) (coordinator.Conn, error) {
	return b, nil
}
func (backend) Ping(context.Context) error { return nil }
func (backend) Alive() bool                { return true }
func (backend) Close() error               { return nil }

func (b backend) Query(_ context.Context, sql string, row func([]byte) error) (int64, error) {
	if sql == "fail "+b.name {
		return 0, &mainstem.Error{Kind: mainstem.KindInvalid, Err: errors.New("as asked")}
	}
	n := int64(0)
	if rest, ok := strings.CutPrefix(sql, "rows "); ok {
		for i := range 1000 {
			if int64(i) == int64(len(rest)) {
				break
			}
			n++
			if err := row(fmt.Appendf(nil, `{"Cluster":%q,"N":%d,"Text":"it's \"ü\""}`, b.name, i)); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func connect(t testing.TB, o *Options) *Client {
	t.Helper()
	config := &coordinator.Config{}
	config.OMNIbus.Clusters = map[string][]string{"A": {"a"}, "B": {"b"}}
	config.OMNIbus.DialTimeout, config.OMNIbus.WaitTimeout, config.OMNIbus.QueryTimeout = testkit.Patience, testkit.Patience, testkit.Patience
	c, err := coordinator.Open(config, &coordinator.Options{Backends: map[string]coordinator.Backend{"a": backend{"A"}, "b": backend{"B"}}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(c.Handler())
	cl, err := New(s.URL, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cl.Close()
		s.Close()
		_ = c.Close()
	})
	return cl
}

var root = &Options{User: "root", Password: "secret"}

func TestRawSQL(t *testing.T) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for _, o := range []*Options{root, {User: "root", Password: "secret", HTTPClient: &http.Client{Transport: transport}}} {
		c := connect(t, o)
		for range 3 {
			results, err := c.RawSQL(t.Context(), "rows 1234567890abc")
			if err != nil || len(results) != 2 {
				t.Fatal(results, err)
			}
			for _, r := range results {
				if r.Err != nil || r.Affected != 13 || len(r.Rows) != 13 || r.Rows[12].Int("N") != 12 || r.Rows[0].Text("Cluster") != r.Cluster || r.Rows[0].Text("Text") != `it's "ü"` {
					t.Errorf("%+v", r)
				}
			}
		}
		results, err := c.RawSQL(t.Context(), "fail B", "B", "A")
		if err != nil || len(results) != 2 {
			t.Fatal(results, err)
		}
		for _, r := range results {
			if (r.Err != nil) != (r.Cluster == "B") || r.Err != nil && (r.Err.Code != "ERR_INVALID_ARGUMENT" || !strings.Contains(r.Err.Error(), "as asked")) {
				t.Errorf("%+v", r)
			}
		}
		if results, err := c.RawSQL(t.Context(), "x", "nobody"); err != nil || len(results) != 0 {
			t.Error(results, err)
		}
		if names, err := c.ClusterNames(t.Context()); err != nil || fmt.Sprint(names) != "[A B]" {
			t.Error(names, err)
		}
	}
}

func TestMerged(t *testing.T) {
	c := connect(t, root)
	merged, failed, err := c.Merged(t.Context(), Merge{OrderBy: []string{"N desc", "Cluster"}, Limit: 3, ClusterColumn: "From"}, "rows 1234")
	if err != nil || len(failed) != 0 || len(merged.Rows) != 3 {
		t.Fatal(merged, failed, err)
	}
	for i, want := range []string{"A 3", "B 3", "A 2"} {
		if got := fmt.Sprint(merged.Rows[i].Text("From"), " ", merged.Rows[i].Int("N")); got != want {
			t.Errorf("row %d is %s, want %s", i, got, want)
		}
	}
	_, failed, err = c.Merged(t.Context(), Merge{}, "fail A")
	if err != nil || len(failed) != 1 || failed[0].Cluster != "A" || failed[0].Err == nil {
		t.Error(failed, err)
	}
}

func TestEach(t *testing.T) {
	c := connect(t, root)
	for _, n := range []int{0, 7, 1000} {
		got := map[string]int64{}
		results, err := c.Each(t.Context(), func(cluster string, row Row) error {
			if row.Int("N") != got[cluster] || row.Text("Cluster") != cluster {
				t.Errorf("%s: %s after %d rows", cluster, row.Raw(), got[cluster])
			}
			got[cluster]++
			return nil
		}, "rows "+strings.Repeat("x", n))
		if err != nil || len(results) != 2 || got["A"] != int64(n) || got["B"] != int64(n) || results[0].Affected != int64(n) {
			t.Error(n, results, got, err)
		}
	}
	stop := errors.New("enough")
	if _, err := c.Each(t.Context(), func(string, Row) error { return stop }, "rows xxx"); !errors.Is(err, stop) {
		t.Error(err)
	}
	results, err := c.Each(t.Context(), func(string, Row) error { return nil }, "fail A")
	if err != nil || len(results) != 2 || (results[0].Err == nil) == (results[1].Err == nil) {
		t.Error(results, err)
	}
}

func TestErrorsOfRequests(t *testing.T) {
	for _, c := range []struct {
		o    *Options
		kind error
		code string
	}{
		{nil, mainstem.ErrDenied, "ERR_INSUFFICIENT_PRIVILEGES"},
		{&Options{User: "root"}, mainstem.ErrDenied, "ERR_INSUFFICIENT_PRIVILEGES"},
		{&Options{User: "root", Password: "x", RequestID: func() string { return strings.Repeat("x", 300) }}, mainstem.ErrInvalid, "ERR_VALIDATION"},
	} {
		_, err := connect(t, c.o).RawSQL(t.Context(), "x")
		var e *Error
		if !errors.Is(err, c.kind) || !errors.As(err, &e) || e.Code != c.code || errors.Is(err, mainstem.ErrUnknownOutcome) {
			t.Error(err)
		}
	}
	if _, err := connect(t, &Options{RequestID: func() string { return "a\nb" }}).ClusterNames(t.Context()); !errors.Is(err, mainstem.ErrInvalid) {
		t.Error(err)
	}
	for _, o := range []Options{{User: "a:b"}, {MaxRow: -1}} {
		if _, err := New("http://x", &o); !errors.Is(err, mainstem.ErrInvalid) {
			t.Error(err)
		}
	}
}

func TestAnswersWithoutSense(t *testing.T) {
	for body, kind := range map[string]error{
		`{}`: mainstem.ErrCorrupt, `[{"rows":[1]}]`: mainstem.ErrCorrupt, `[{"rows":[{}`: mainstem.ErrUnavailable, `[] x`: mainstem.ErrCorrupt, `[5]`: mainstem.ErrCorrupt,
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
		c, err := New(s.URL, root)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.RawSQL(t.Context(), "x"); !errors.Is(err, kind) || !errors.Is(err, mainstem.ErrUnknownOutcome) {
			t.Errorf("%s: %v", body, err)
		}
		if _, _, err := c.Merged(t.Context(), Merge{}, "x"); err == nil {
			t.Error(body)
		}
		if _, err := c.Each(t.Context(), func(string, Row) error { return nil }, "x"); err == nil && body != "{}" {
			t.Error(body)
		}
		_ = c.Close()
		s.Close()
	}
	c := connect(t, &Options{User: "root", Password: "x", MaxResult: 100})
	if _, err := c.RawSQL(t.Context(), "rows xxxxxxxxxxx"); !errors.Is(err, mainstem.ErrInvalid) {
		t.Error(err)
	}
}

// TestEachSaysThatAnAnswerIsTooLong: rows beyond the limit are an error, though the answer came whole.
func TestEachSaysThatAnAnswerIsTooLong(t *testing.T) {
	lines := []string{`{"clusterName":"A","row":{"N":1}}` + "\n", `{"clusterName":"A","row":{"N":2}}` + "\n" + `{"clusterName":"A","affectedRows":2}` + "\n"}
	taken := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(lines[0])+len(lines[1])))
		_, _ = io.WriteString(w, lines[0])
		_ = http.NewResponseController(w).Flush()
		<-taken
		_, _ = io.WriteString(w, lines[1])
	}))
	defer s.Close()
	c, err := New(s.URL, &Options{User: "root", Password: "x", MaxResult: int64(len(lines[0])) + 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	rows := 0
	_, err = c.Each(t.Context(), func(string, Row) error {
		rows++
		close(taken)
		return nil
	}, "x")
	if rows != 1 || !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("%d rows, %v", rows, err)
	}
}

// canned answers every request on a connection with the same bytes, and allocates nothing.
func canned(t testing.TB, answer string) *Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		nc, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = nc.Close() }()
		buf, response := make([]byte, 1<<16), fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nX-Request-Id: x\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
		for {
			if _, err := nc.Read(buf); err != nil {
				return
			}
			if _, err := nc.Write(response); err != nil {
				return
			}
		}
	}()
	c, err := New("http://"+l.Addr().String(), root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		_ = l.Close()
		<-done
	})
	return c
}

// memory are the scenarios of the original bench, with a quarter of what its client
// took for each request: 100 of an operation for inserts and selects of ten rows, 10 for
// selects of a hundred.
var memory = []struct {
	name          string
	rows          int
	bytes, allocs float64
}{
	{"insert", 0, 725429 / 100 / 4, 8011 / 100 / 4},
	{"select 10 rows", 10, 9084547 / 100 / 4, 123338 / 100 / 4},
	{"select 100 rows", 100, 7063819 / 10 / 4, 110178 / 10 / 4},
}

func cannedRows(n int) string {
	row := `{"Agent":"agent","AlertGroup":"0f8fad5b-d9cb-469f-a165-70867728950e","AlertKey":"0123456789abcdef0123456789abcdef","ExtendedAttr":"` + strings.Repeat("Voluptatem aut. ", 12) +
		`","FirstOccurrence":1700000000,"Identifier":"7c9e6679-7425-40de-944b-e07fc1f90ae7","Manager":"manager","Node":"host1.example.org","NodeAlias":"10.1.2.3","Severity":5,"Summary":"Sit accusantium voluptatem perferendis.","Type":1,"URL":"http://example.org/x"}`
	rows := strings.TrimSuffix(strings.Repeat(row+",", n), ",")
	return fmt.Sprintf(`[{"clusterName":"AGG1","rows":[%s],"affectedRows":%d},{"clusterName":"AGG2","rows":[%[1]s],"affectedRows":%[2]d}]`, rows, n)
}

// TestMemory compares what a request takes, all of its rows on two clusters, and one value
// of each of them read.
func TestMemory(t *testing.T) {
	for _, m := range memory {
		c := canned(t, cannedRows(m.rows))
		text := "INSERT INTO  alerts . status " + strings.Repeat("x", 600)
		request := func() {
			results, err := c.RawSQL(t.Context(), text)
			if err != nil || len(results) != 2 || len(results[1].Rows) != m.rows {
				t.Fatal(len(results), err)
			}
			for _, r := range results {
				for _, row := range r.Rows {
					if row.Int("Severity") != 5 {
						t.Fatal("a wrong row")
					}
				}
			}
		}
		request()
		const n = 50
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			request()
		}
		runtime.ReadMemStats(&after)
		bytes, allocs := float64(after.TotalAlloc-before.TotalAlloc)/n, float64(after.Mallocs-before.Mallocs)/n
		t.Logf("%s: %.0f bytes (at most %.0f), %.1f allocations (at most %.0f)", m.name, bytes, m.bytes, allocs, m.allocs)
		if !raceEnabled && (bytes > m.bytes || allocs > m.allocs) {
			t.Errorf("%s: %.0f bytes, at most %.0f; %.1f allocations, at most %.0f", m.name, bytes, m.bytes, allocs, m.allocs)
		}
	}
}

// doer answers without a network.
type doer struct{ body []byte }

func (d doer) Do(ctx context.Context, r *httpconn.Request) (*httpconn.Response, error) {
	target, err := httpconn.ParseTarget("http://x", nil)
	if err != nil {
		return nil, err
	}
	s := &httpconn.Standard{Client: &http.Client{Transport: d}, Target: target}
	return s.Do(ctx, r)
}

func (d doer) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, ContentLength: -1, Body: io.NopCloser(bytes.NewReader(d.body))}, nil
}

// FuzzAnswer feeds any answer to the client.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(cannedRows(1)))
	f.Add([]byte(`[{"clusterName":"A","rows":[],"affectedRows":0,"error":{"error":"E","message":"m"}}]`))
	f.Add([]byte("{\"clusterName\":\"A\",\"row\":{\"\xff\":1}}\n{\"affectedRows\":1}\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := New("http://x", nil)
		if err != nil {
			t.Fatal(err)
		}
		c.do = doer{body}
		results, err := c.RawSQL(t.Context(), "x")
		if err == nil {
			for _, r := range results {
				for _, row := range r.Rows {
					if len(row.Raw()) < 2 || row.Raw()[0] != '{' || row.Raw()[len(row.Raw())-1] != '}' {
						t.Fatalf("the row %q", row.Raw())
					}
				}
			}
		}
		_, _ = c.Each(t.Context(), func(_ string, row Row) error {
			_ = row.Int("x")
			return nil
		}, "x")
	})
}
