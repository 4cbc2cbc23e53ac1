package alertserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/alertserver"
	"github.com/mainstemdev/mainstem/internal/servertest"
	"github.com/mainstemdev/mainstem/server"
)

// sql runs a statement by way of the listener for OMNIbus clients.
func sql(t *testing.T, n running, statement string) (rows []map[string]any, affected int) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"sqlcmd": statement})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+n.alerts.OmnibusAddr().String()+"/objectserver/restapi/sql/factory", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.SetBasicAuth("root", "")
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Rowset struct {
			Rows         []map[string]any
			AffectedRows int
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v", statement, resp.StatusCode, err)
	}
	return answer.Rowset.Rows, answer.Rowset.AffectedRows
}

func TestOmnibus(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	change := func(c *server.Config, a *alertserver.Config) {
		c.Log, a.Omnibus, a.ServerName = dir, "127.0.0.1:0", "AGG1"
	}
	n := start(t, change)
	if _, affected := sql(t, n, "insert into alerts.status (Identifier, Node, Severity) values ('a', 'web1', 5)"); affected != 1 {
		t.Errorf("an insert affected %d rows", affected)
	}
	want := func(n running) {
		t.Helper()
		rows, _ := sql(t, n, "select Node, Serial, Tally, ServerName from alerts.status")
		if len(rows) != 1 || rows[0]["Node"] != "web1" || rows[0]["Serial"] != 1.0 || rows[0]["Tally"] != 1.0 || rows[0]["ServerName"] != "AGG1" {
			t.Errorf("rows %v", rows)
		}
	}
	want(n)
	if err := n.alerts.Tables().RunAutomation(t.Context(), "generic_clear"); err != nil {
		t.Error(err)
	}
	servertest.AwaitMetrics(t, n.URL(),
		`mainstem_alert_automation_runs_total{name="new_row"} 1`, `mainstem_alert_automation_enabled{name="expire"} 1`,
		`mainstem_alert_automation_failures_total{name="generic_clear"} 0`, "mainstem_omnibus_",
	)
	if err := n.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	want(start(t, change))
}

func TestOmnibusAnswersToNamesOfThisMachineOnly(t *testing.T) {
	n := start(t, func(c *server.Config, a *alertserver.Config) { a.Omnibus = "127.0.0.1:0" })
	url := "http://" + n.alerts.OmnibusAddr().String() + "/objectserver/restapi/alerts/status?collist=Node"
	if code, body := servertest.Get(t, http.Header{}, url); code != http.StatusOK {
		t.Errorf("%d: %s", code, body)
	}
	if code, body := servertest.Get(t, http.Header{"Host": {"evil.example.org"}}, url); code != http.StatusForbidden {
		t.Errorf("a name that a web page chose: %d: %s", code, body)
	}
}

func TestOmnibusIsOffUnlessAskedFor(t *testing.T) {
	n := start(t, nil)
	if n.alerts.OmnibusAddr() != nil || n.alerts.Tables() != nil {
		t.Error("there are alert tables")
	}
	for s, err := range n.Log().Spaces(t.Context(), "alert") {
		t.Errorf("space %v, %v", s.Name, err)
	}
}

func TestOmnibusAddressTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := open(t, func(c *server.Config, a *alertserver.Config) { a.Omnibus = l.Addr().String() })
	if err := n.Start(t.Context()); !errors.Is(err, mainstem.ErrUnavailable) || !strings.Contains(err.Error(), "--omnibus") {
		t.Errorf("started: %v", err)
	}
	if err := n.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestOmnibusConfig(t *testing.T) {
	for name, c := range map[string]struct {
		change change
		want   string // in the error; "" if there is none
	}{
		"loopback": {func(c *server.Config, a *alertserver.Config) { a.Omnibus = "localhost:0" }, ""},
		"no port":  {func(c *server.Config, a *alertserver.Config) { a.Omnibus = "localhost" }, "HOST:PORT"},
		"beyond":   {func(c *server.Config, a *alertserver.Config) { a.Omnibus = "0.0.0.0:8081" }, "TLS (set tls-cert and tls-key) and users with passwords"},
		"no TLS":   {func(c *server.Config, a *alertserver.Config) { a.Omnibus, a.OmnibusUsers = "0.0.0.0:8081", "users" }, "without TLS (set tls-cert and tls-key);"},
		"no users": {func(c *server.Config, a *alertserver.Config) { a.Omnibus, c.TLSCert, c.TLSKey = ":8081", "c", "k" }, "without users with passwords"},
		"protected": {func(c *server.Config, a *alertserver.Config) {
			a.Omnibus, a.OmnibusUsers, c.TLSCert, c.TLSKey = ":8081", "users", "c", "k"
		}, ""},
		"users unused": {func(c *server.Config, a *alertserver.Config) { a.OmnibusUsers = "users" }, "without omnibus"},
		"insecure":     {func(c *server.Config, a *alertserver.Config) { a.Omnibus, c.Insecure = ":8081", true }, ""},
		"bad name":     {func(c *server.Config, a *alertserver.Config) { a.Omnibus, a.ServerName = "localhost:0", "a b" }, "alert-server-name"},
		"name of use":  {func(c *server.Config, a *alertserver.Config) { a.ServerName, a.Syslog = "AGG1", "127.0.0.1:0" }, ""},
		"name unused":  {func(c *server.Config, a *alertserver.Config) { a.ServerName = "AGG1" }, "without omnibus"},
	} {
		t.Run(name, func(t *testing.T) {
			all, _ := config(c.change)
			err := all.Validate()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
