package alertcmd

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/omnibus"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// ibm is an object server without what Mainstem has besides IBM's interface: no system
// information at the path of its choice, no feeds, one row in an INSERT.
type ibm struct {
	inner http.Handler

	mu   sync.Mutex
	said []string // statements and requests that change something
}

func (s *ibm) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var posted struct {
		SQL    string `json:"sqlcmd"`
		Rowset struct{ Rows []any }
	}
	_ = json.Unmarshal(body, &posted)
	user, password, _ := r.BasicAuth()
	switch {
	case user != "root" || password != "":
		http.Error(w, "Authorization Required", http.StatusUnauthorized)
		return
	case strings.HasSuffix(r.URL.Path, "/sysinfo"):
		http.Error(w, "no such collection", http.StatusNotFound)
		return
	case strings.Contains(r.Header.Get("Accept"), "event-stream"):
		http.Error(w, "", http.StatusNotAcceptable)
		return
	case len(posted.Rowset.Rows) > 1 || strings.Contains(posted.SQL, "), ("):
		http.Error(w, `{"exception":{"message":"one row only"}}`, http.StatusBadRequest)
		return
	}
	if r.Method != http.MethodGet && !strings.HasPrefix(posted.SQL, "select") && !strings.HasPrefix(posted.SQL, "describe") {
		s.mu.Lock()
		s.said = append(s.said, strings.TrimSpace(r.URL.Path+" "+posted.SQL))
		s.mu.Unlock()
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	s.inner.ServeHTTP(w, r)
}

func startIBM(t *testing.T) (*alert.Server, *ibm, string) {
	t.Helper()
	server, err := alert.Open(t.Context(), testengines.Memory(t), &alert.Options{Every: -1, Name: "NCOMS"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	h, err := omnibus.New(server, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	s := &ibm{inner: h}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	return server, s, web.URL
}

// TestAServerThatIsNotMainstem: what the interface of others lacks is not asked of them.
func TestAServerThatIsNotMainstem(t *testing.T) {
	server, said, url := startIBM(t)
	at := []string{"--url", url, "--user", "root"}
	do := func(want int, line ...string) outcome {
		t.Helper()
		r := runAlerts(t.Context(), nil, append(append([]string{"alerts"}, line...), at...)...)
		if r.status != want {
			t.Errorf("%v: %+v", line, r)
		}
		return r
	}
	if r := do(cli.ExitOK, "insert", "Identifier=a", "Node=web1", "Severity=5", "FirstOccurrence=1700000000"); r.out != "done\tserial\t1\tkey\t1:NCOMS\n" {
		t.Errorf("inserted: %q", r.out)
	}
	do(cli.ExitOK, "insert", "Identifier=a", "Severity=3", "--updating", "Severity")
	file := filepath.Join(t.TempDir(), "x.jsonl")
	if err := os.WriteFile(file, []byte("{\"Identifier\":\"b\",\"Severity\":1}\n{\"Identifier\":\"c\",\"Severity\":99999999999}\n{\"Identifier\":\"d\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := do(cli.ExitFailed, "import", file); !strings.Contains(r.out, "2 written, 1 bad") || !strings.Contains(r.errors, "x.jsonl:2: ") {
		t.Errorf("imported: %+v", r)
	}
	if r := do(cli.ExitOK, "sql", "select Identifier, Severity, Tally, FirstOccurrence from alerts.status where Identifier = 'a'"); !strings.HasSuffix(r.out, "\na\t3\t2\t1700000000\n") {
		t.Errorf("selected: %q", r.out)
	}
	want := []string{
		"/objectserver/restapi/alerts/status",
		"/objectserver/restapi/sql/factory insert into alerts.status (Identifier, Severity) values ('a', 3) updating (Severity)",
		"/objectserver/restapi/alerts/status", "/objectserver/restapi/alerts/status",
	}
	if fmt.Sprint(said.said) != fmt.Sprint(want) {
		t.Errorf("asked for\n%s", strings.Join(said.said, "\n"))
	}
	if r := do(cli.ExitOK, "tail", "--since", "1h", "--no-follow", "--columns", "Identifier"); strings.Count(r.out, "\tchange\t") != 3 {
		t.Errorf("tail: %q", r.out)
	}
	do(cli.ExitFailed, "tail", "--from", "7")
	if r := runAlerts(t.Context(), nil, "alerts", "sql", "select 1 from alerts.status", "--url", url); r.status != cli.ExitFailed || !strings.Contains(r.errors, "--user") {
		t.Errorf("without a user: %+v", r)
	}
	if _, err := server.Query(t.Context(), "select 1 from alerts.status"); err != nil {
		t.Error(err)
	}
}

// TestPollingShowsEachChangeOnce: also those of the second that was asked about last.
func TestPollingShowsEachChangeOnce(t *testing.T) {
	server, _, url := startIBM(t)
	exec := func(statement string) {
		t.Helper()
		if _, err := server.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec("insert into alerts.status (Identifier) values ('old')")
	c, err := (&alertFlags{url: url, user: "root", every: leastEvery}).connect(t.Context(), &cli.Main{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.close() }()
	steps := []string{
		"insert into alerts.status (Identifier) values ('new')", "update alerts.status set Grade = 1 where Identifier = 'old'",
		"update alerts.status set Grade = 2 where Identifier = 'new'", "",
	}
	p := &poller{tables: c, table: statusTable, known: map[string]struct{}{}}
	if err := p.begin(t.Context(), &alert.ChangeOptions{}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"new 0", "old 1", "new 2", ""} {
		if steps[i] != "" {
			exec(steps[i])
		}
		got := ""
		err := p.ask(t.Context(), func(c alertChange) error {
			got += fmt.Sprintf("%s %d", c.get("Identifier"), c.get("Grade").Int())
			return nil
		})
		if err != nil || got != want {
			t.Errorf("after %q: %q, %v, want %q", steps[i], got, err, want)
		}
	}
	said := ""
	o := alert.ChangeOptions{Since: time.Unix(0, 0), NoFollow: true, Ready: func(mainstem.Position) { said += "ready" }}
	for c, err := range c.changes(t.Context(), statusTable, &o) {
		if err != nil {
			t.Fatal(err)
		}
		said += c.get("Identifier").String() + " "
	}
	if said != "old new ready" && said != "new old ready" { // by StateChange, perhaps of one second
		t.Errorf("changes since ever: %q", said)
	}
}

// TestNothingIsMissedAfterReady: neither by a feed, nor where it is asked for.
func TestNothingIsMissedAfterReady(t *testing.T) {
	server, other, url := startIBM(t)
	own := httptest.NewServer(other.inner)
	t.Cleanup(own.Close)
	for _, url := range []string{own.URL, url} {
		tables, err := (&alertFlags{url: url, user: "root", every: leastEvery}).connect(t.Context(), &cli.Main{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tables.close() }()
		ready := 0
		o := alert.ChangeOptions{Ready: func(mainstem.Position) {
			ready++
			if _, err := server.Exec(t.Context(), "insert into alerts.status (Identifier) values ('"+url+"')"); err != nil {
				t.Error(err)
			}
		}}
		for c, err := range tables.changes(t.Context(), statusTable, &o) {
			if got := c.get("Identifier").String(); err != nil || got != url {
				t.Errorf("after ready: %q, %v", got, err)
			}
			break
		}
		if ready != 1 {
			t.Errorf("ready %d times", ready)
		}
	}
}
