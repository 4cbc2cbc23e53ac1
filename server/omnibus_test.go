package server_test

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
	"github.com/mainstemdev/mainstem/internal/servertest"
	"github.com/mainstemdev/mainstem/server"
)

// sql runs a statement by way of the listener for OMNIbus clients.
func sql(t *testing.T, n *server.Server, statement string) (rows []map[string]any, affected int) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"sqlcmd": statement})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+n.OmnibusAddr().String()+"/objectserver/restapi/sql/factory", strings.NewReader(string(body)))
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
	change := func(c *server.Config) { c.Log, c.Omnibus, c.AlertServerName = dir, "127.0.0.1:0", "AGG1" }
	n := start(t, change)
	if _, affected := sql(t, n, "insert into alerts.status (Identifier, Node, Severity) values ('a', 'web1', 5)"); affected != 1 {
		t.Errorf("an insert affected %d rows", affected)
	}
	want := func(n *server.Server) {
		t.Helper()
		rows, _ := sql(t, n, "select Node, Serial, Tally, ServerName from alerts.status")
		if len(rows) != 1 || rows[0]["Node"] != "web1" || rows[0]["Serial"] != 1.0 || rows[0]["Tally"] != 1.0 || rows[0]["ServerName"] != "AGG1" {
			t.Errorf("rows %v", rows)
		}
	}
	want(n)
	if err := n.Alerts().RunAutomation(t.Context(), "generic_clear"); err != nil {
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
	n := start(t, func(c *server.Config) { c.Omnibus = "127.0.0.1:0" })
	url := "http://" + n.OmnibusAddr().String() + "/objectserver/restapi/alerts/status?collist=Node"
	if code, body := get(t, http.Header{}, url); code != http.StatusOK {
		t.Errorf("%d: %s", code, body)
	}
	if code, body := get(t, http.Header{"Host": {"evil.example.org"}}, url); code != http.StatusForbidden {
		t.Errorf("a name that a web page chose: %d: %s", code, body)
	}
}

func TestOmnibusIsOffUnlessAskedFor(t *testing.T) {
	n := start(t, nil)
	if n.OmnibusAddr() != nil || n.Alerts() != nil {
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
	c := server.DefaultConfig()
	c.Log, c.Listen, c.Omnibus = server.Memory, "127.0.0.1:0", l.Addr().String()
	n, err := server.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); !errors.Is(err, mainstem.ErrUnavailable) || !strings.Contains(err.Error(), "--omnibus") {
		t.Errorf("started: %v", err)
	}
	if err := n.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestOmnibusConfig(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*server.Config)
		want   string // in the error; "" if there is none
	}{
		"loopback": {func(c *server.Config) { c.Omnibus = "localhost:0" }, ""},
		"no port":  {func(c *server.Config) { c.Omnibus = "localhost" }, "HOST:PORT"},
		"beyond":   {func(c *server.Config) { c.Omnibus = "0.0.0.0:8081" }, "TLS (set tls-cert and tls-key) and users with passwords"},
		"no TLS":   {func(c *server.Config) { c.Omnibus, c.OmnibusUsers = "0.0.0.0:8081", "users" }, "without TLS (set tls-cert and tls-key);"},
		"no users": {func(c *server.Config) { c.Omnibus, c.TLSCert, c.TLSKey = ":8081", "c", "k" }, "without users with passwords"},
		"protected": {func(c *server.Config) {
			c.Omnibus, c.OmnibusUsers, c.TLSCert, c.TLSKey = ":8081", "users", "c", "k"
		}, ""},
		"users unused": {func(c *server.Config) { c.OmnibusUsers = "users" }, "without omnibus"},
		"insecure":     {func(c *server.Config) { c.Omnibus, c.Insecure = ":8081", true }, ""},
		"bad name":     {func(c *server.Config) { c.Omnibus, c.AlertServerName = "localhost:0", "a b" }, "alert-server-name"},
		"name of use":  {func(c *server.Config) { c.AlertServerName, c.AlertSyslog = "AGG1", "127.0.0.1:0" }, ""},
		"name unused":  {func(c *server.Config) { c.AlertServerName = "AGG1" }, "without omnibus"},
	} {
		t.Run(name, func(t *testing.T) {
			config := server.DefaultConfig()
			c.change(&config)
			err := config.Validate()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
