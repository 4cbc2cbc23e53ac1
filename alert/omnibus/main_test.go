package omnibus

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a handler on a server of alert tables, reached over HTTP.
type site struct {
	t       testing.TB
	clock   *testkit.Clock
	server  *alert.Server
	handler *Handler
	url     string // without a slash at its end
	client  *http.Client
	user    string
	pass    string
}

// serve starts a site.
func serve(t testing.TB, o *Options) *site {
	t.Helper()
	return serveLog(t, testengines.Memory(t), o)
}

// serveLog starts a site on a log.
func serveLog(t testing.TB, log mainstem.Log, o *Options) *site {
	t.Helper()
	s := &site{t: t, clock: new(testkit.Clock)}
	if o == nil {
		o = &Options{}
	}
	logger := slog.New(slog.NewTextHandler(t.Output(), nil))
	var err error
	s.server, err = alert.Open(t.Context(), log, &alert.Options{Now: s.clock.Now, Every: -1, Logger: logger, Memory: o.Memory})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.server.Close(); err != nil {
			t.Error(err)
		}
	})
	if s.handler, err = New(s.server, o); err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(s.handler)
	s.url = hs.URL
	s.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	t.Cleanup(func() {
		if err := s.handler.Close(); err != nil {
			t.Error(err)
		}
		s.client.CloseIdleConnections()
		hs.Close()
	})
	return s
}

// as returns the site as another user sees it.
func (s *site) as(user, pass string) *site {
	other := *s
	other.user, other.pass = user, pass
	return &other
}

func (s *site) request(method, path, body string, header ...string) *http.Request {
	s.t.Helper()
	if !strings.HasPrefix(path, "/") {
		path = Prefix + path
	}
	r, err := http.NewRequestWithContext(context.Background(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if s.user != "" {
		r.SetBasicAuth(s.user, s.pass)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// do sends a request and returns the answer with its body.
func (s *site) do(method, path, body string, header ...string) (*http.Response, string) {
	s.t.Helper()
	resp, err := s.client.Do(s.request(method, path, body, header...))
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	p, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp, string(p)
}

// want sends a request and fails the test unless it is answered with status. It
// returns the body.
func (s *site) want(status int, method, path, body string, header ...string) string {
	s.t.Helper()
	resp, got := s.do(method, path, body, header...)
	if resp.StatusCode != status {
		s.t.Errorf("%s %s %.300s: status %d, want %d: %.500s", method, path, body, resp.StatusCode, status, got)
	}
	return got
}

// sql sends statements to the factory and returns the body.
func (s *site) sql(text string) string {
	s.t.Helper()
	return s.want(http.StatusOK, "POST", "sql/factory", sqlBody(text))
}

func sqlBody(text string) string {
	p, err := json.Marshal(map[string]string{"sqlcmd": text})
	if err != nil {
		panic(err)
	}
	return string(p)
}

// result is an answer with rows, as a client reads it.
type result struct {
	Rowset struct {
		OSName  string `json:"osname"`
		DBName  string `json:"dbname"`
		TblName string `json:"tblname"`
		ColDesc []struct {
			Name, Type string
			Size       int
		} `json:"coldesc"`
		Rows         []map[string]any `json:"rows"`
		AffectedRows int              `json:"affectedRows"`
		Cursor       string           `json:"cursor"`
	} `json:"rowset"`
	Entry struct {
		AffectedRows int    `json:"affectedRows"`
		KeyField     string `json:"keyField"`
		URI          string `json:"uri"`
	} `json:"entry"`
	Exception struct {
		Outcome string
		Status  int    `json:"status"`
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"exception"`
}

// read decodes a body.
func (s *site) read(body string) (r result) {
	s.t.Helper()
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		s.t.Fatalf("%v in %.500s", err, body)
	}
	return r
}

// column returns the values of a column of a result.
func (r *result) column(name string) []any {
	out := []any{}
	for _, row := range r.Rowset.Rows {
		out = append(out, row[name])
	}
	return out
}

// compact returns JSON without blanks.
func compact(t testing.TB, body string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(body)); err != nil {
		t.Fatalf("%v in %.500s", err, body)
	}
	return b.String()
}
