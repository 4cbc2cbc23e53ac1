package alertserver_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/alertserver"
	"github.com/mainstemdev/mainstem/internal/servertest"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testport"
	"github.com/mainstemdev/mainstem/server"
)

const notification = `{"version":"4","groupKey":"g","status":"firing","receiver":"mainstem","alerts":[` +
	`{"status":"firing","labels":{"alertname":"Disk","instance":"db-2:9100","severity":"critical"},"annotations":{"summary":"full"},` +
	`"startsAt":"2026-02-03T04:05:06Z","endsAt":"0001-01-01T00:00:00Z"}]}`

// post posts JSON, unless h says otherwise, and returns the status and the body of the answer.
func post(t *testing.T, client *http.Client, url, body string, h http.Header) (int, string) {
	t.Helper()
	if h = h.Clone(); h == nil {
		h = http.Header{}
	}
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	return servertest.Request(t, client, http.MethodPost, url, body, h)
}

// send sends a text by UDP or TCP.
func send(t *testing.T, network string, at net.Addr, text string) {
	t.Helper()
	conn, err := net.Dial(network, at.String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Error(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

func TestIngestByAllWays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	change := func(c *server.Config, a *alertserver.Config) {
		c.Log, a.Omnibus, a.Syslog, a.Webhook = dir, "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	}
	n := start(t, change)
	send(t, "udp", n.alerts.SyslogAddr(), "<11>Feb  3 04:05:07 web-1 nginx[7]: worker 1 died")
	send(t, "tcp", n.alerts.SyslogAddr(), "<11>Feb  3 04:05:07 web-2 nginx[7]: worker 1 died\n28 <11>1 - web-3 a - - - failed")
	if code, body := post(t, servertest.Client, "http://"+n.alerts.WebhookAddr().String()+"/alertmanager", notification, nil); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
	servertest.AwaitMetrics(t, n.URL(),
		`mainstem_alert_ingest_written_total{source="syslog"} 3`,
		`mainstem_alert_ingest_received_total{source="syslog"} 3`, `mainstem_alert_ingest_written_total{source="alertmanager"} 1`,
		`mainstem_alert_ingest_refused_total{reason="unmapped",source="syslog"} 0`, `mainstem_alert_ingest_dropped_total{reason="overflow",source="syslog"} 0`,
		`mainstem_alert_ingest_requests_total{source="alertmanager"} 1`, `mainstem_alert_ingest_waiting{source="syslog"} 0`,
	)
	rows, _ := sql(t, n, "select Node, ServerName from alerts.status order by Node")
	if fmt.Sprint(rows) != "[map[Node:db-2 ServerName:NCOMS] map[Node:web-1 ServerName:NCOMS] map[Node:web-2 ServerName:NCOMS] map[Node:web-3 ServerName:NCOMS]]" {
		t.Errorf("rows %v", rows)
	}
	rows, _ = sql(t, n, "select LogName from catalog.connections where AppName = 'PROBE' order by LogName")
	if fmt.Sprint(rows) != "[map[LogName:alertmanager] map[LogName:syslog]]" {
		t.Errorf("connections %v", rows)
	}
	if err := n.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// TestStopWritesWhatWasReceived: of what a connection has brought nothing is lost when
// the server stops.
func TestStopWritesWhatWasReceived(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	n := start(t, func(c *server.Config, a *alertserver.Config) {
		c.Log, a.Syslog, a.ServerName = dir, "127.0.0.1:0", "AGG1"
	})
	conn, err := net.Dial("tcp", n.alerts.SyslogAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const messages = 2000
	for i := range messages {
		if _, err := fmt.Fprintf(conn, "<11>1 - host-%d a - - - failed\n", i); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "all came in", func() bool {
		return strings.Contains(servertest.Metrics(t, n.URL()), fmt.Sprintf(`mainstem_alert_ingest_received_total{source="syslog"} %d`, messages))
	})
	if err := n.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	n = start(t, func(c *server.Config, a *alertserver.Config) { c.Log, a.Omnibus = dir, "127.0.0.1:0" })
	rows, _ := sql(t, n, "select count(*) as N, sum(Tally) as T, max(ServerName) as S from alerts.status")
	if fmt.Sprint(rows) != fmt.Sprintf("[map[N:%d S:AGG1 T:%[1]d]]", messages) {
		t.Errorf("%v", rows)
	}
}

func TestWhoMayPost(t *testing.T) {
	file := usersFile(t, map[alertserver.User]string{{Name: "am", Role: "writer"}: "w", {Name: "eve", Role: "reader"}: "r"})
	for name, c := range map[string]struct {
		change change
		header http.Header
		want   int
	}{
		"open":               {nil, nil, 200},
		"a page":             {nil, http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		"another name":       {nil, http.Header{"Host": {"evil.example.org"}}, 403},
		"no JSON":            {nil, http.Header{"Content-Type": {"text/plain"}}, 415},
		"token":              {func(c *server.Config, a *alertserver.Config) { c.Token = "s" }, http.Header{"Authorization": {"Bearer s"}}, 200},
		"no token":           {func(c *server.Config, a *alertserver.Config) { c.Token = "s" }, nil, 401},
		"wrong token":        {func(c *server.Config, a *alertserver.Config) { c.Token = "s" }, http.Header{"Authorization": {"Bearer x"}}, 401},
		"a user, no users":   {func(c *server.Config, a *alertserver.Config) { c.Token = "s" }, basic("am", "w"), 401},
		"a user":             {func(c *server.Config, a *alertserver.Config) { a.OmnibusUsers = file }, basic("am", "w"), 200},
		"a user or a token":  {func(c *server.Config, a *alertserver.Config) { a.OmnibusUsers, c.Token = file, "s" }, http.Header{"Authorization": {"Bearer s"}}, 200},
		"no user":            {func(c *server.Config, a *alertserver.Config) { a.OmnibusUsers = file }, nil, 401},
		"an empty token":     {func(c *server.Config, a *alertserver.Config) { a.OmnibusUsers = file }, http.Header{"Authorization": {"Bearer "}}, 401},
		"wrong password":     {func(c *server.Config, a *alertserver.Config) { a.OmnibusUsers = file }, basic("am", "r"), 401},
		"may only read":      {func(c *server.Config, a *alertserver.Config) { a.OmnibusUsers = file }, basic("eve", "r"), 403},
		"user, another name": {func(c *server.Config, a *alertserver.Config) { a.OmnibusUsers = file }, http.Header{"Authorization": basic("am", "w")["Authorization"], "Host": {"alerts.example.org"}}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t, func(cfg *server.Config, a *alertserver.Config) {
				a.Webhook = "127.0.0.1:0"
				if c.change != nil {
					c.change(cfg, a)
				}
			})
			if code, body := post(t, servertest.Client, "http://"+n.alerts.WebhookAddr().String()+"/", notification, c.header); code != c.want {
				t.Errorf("%d %s, want %d", code, body, c.want)
			}
		})
	}
}

// certificates writes a certificate and its key, and returns a client's configuration
// that trusts it and shows it.
func certificates(t *testing.T) (cert, key string, client *tls.Config) {
	t.Helper()
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := servertest.WriteCertificate(cert, key); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	client = &tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{pair}}
	client.RootCAs.AppendCertsFromPEM(pem)
	return cert, key, client
}

func TestIngestByTLS(t *testing.T) {
	cert, key, client := certificates(t)
	var said testkit.Lines
	n := start(t, func(c *server.Config, a *alertserver.Config) {
		c.TLSCert, c.TLSKey, a.SyslogCA = cert, key, cert
		// The UDP port of the same number is in use: there is no UDP besides TLS.
		a.Syslog, a.Webhook = testport.Address(t), "127.0.0.1:0"
		c.Logger = said.Logger()
	})
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: client}}
	if code, body := post(t, web, "https://"+n.alerts.WebhookAddr().String()+"/", notification, nil); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
	written := func() int64 { return countOf(t, n, "select count(*) from alerts.status where Manager = 'syslog'") }
	stranger := client.Clone()
	stranger.Certificates = nil
	if conn, err := tls.Dial("tcp", n.alerts.SyslogAddr().String(), stranger); err == nil { // TLS 1.3 tells the client later
		_, _ = io.WriteString(conn, "<11>1 - web-0 a - - - failed\n")
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("without a certificate: %v", err)
		}
		_ = conn.Close()
	}
	send(t, "tcp", n.alerts.SyslogAddr(), "<11>1 - web-1 a - - - failed\n")
	conn, err := tls.Dial("tcp", n.alerts.SyslogAddr().String(), client)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "<11>1 - web-2 a - - - failed\n"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the message is written", func() bool { return written() == 1 })
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if got := countOf(t, n, "select count(*) from alerts.status where Node = 'web-2'"); got != 1 {
		t.Error("a message came from somebody without a certificate")
	}
	if strings.Contains(said.String(), "other machines") {
		t.Errorf("a warning for nothing: %s", said.String())
	}
	if err := n.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp", n.alerts.SyslogAddr().String()); err == nil {
		t.Error("a server that was stopped listens for syslog", conn.Close())
	}
}

// countOf returns the number that a query counts.
func countOf(t *testing.T, n running, query string) int64 {
	t.Helper()
	rows, err := n.alerts.Tables().Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	all, err := rows.Collect()
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	return all[0].At(0).Int()
}

func TestMappingForTheColumnsThatThereAre(t *testing.T) {
	dir := t.TempDir()
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, "mapping.yaml")
	if err := os.WriteFile(file, []byte("syslog:\n  columns:\n    Site: \"cellar of ${hostname}\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	change := func(c *server.Config, a *alertserver.Config) { c.Log, a.Syslog, a.Mapping = data, "127.0.0.1:0", file }
	n := open(t, change)
	err := n.Start(t.Context())
	var f *server.FileError
	if !errors.Is(err, mainstem.ErrInvalid) || !errors.As(err, &f) || f.Setting != "alert-mapping" || !strings.Contains(err.Error(), "mapping.yaml:3") {
		t.Errorf("a column that there is not: %v", err)
	}
	if err := n.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	n = start(t, func(c *server.Config, a *alertserver.Config) { c.Log, a.Omnibus = data, "127.0.0.1:0" })
	sql(t, n, "alter table alerts.status add column Site varchar(64)")
	if err := n.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	n = start(t, change)
	send(t, "udp", n.alerts.SyslogAddr(), "<11>1 - web-1 a - - - failed")
	testkit.Eventually(t, "the column is filled", func() bool {
		return countOf(t, n, "select count(*) from alerts.status where Site = 'cellar of web-1'") == 1
	})
	if n.alerts.OmnibusAddr() != nil {
		t.Error("somebody listens for clients of OMNIbus")
	}
}

func TestIngestConfig(t *testing.T) {
	secure := func(c *server.Config) { c.TLSCert, c.TLSKey = "c", "k" }
	for name, c := range map[string]struct {
		change change
		want   string // in the error; "" if there is none
	}{
		"loopback": {func(c *server.Config, a *alertserver.Config) {
			a.Syslog, a.Webhook, a.Mapping = "localhost:1514", "[::1]:9099", "m"
		}, ""},
		"syslog":           {func(c *server.Config, a *alertserver.Config) { a.Syslog = "localhost" }, "HOST:PORT"},
		"webhook":          {func(c *server.Config, a *alertserver.Config) { a.Webhook = "9099" }, "HOST:PORT"},
		"syslog beyond":    {func(c *server.Config, a *alertserver.Config) { secure(c); a.Syslog = ":1514" }, "syslog knows neither passwords nor secrecy"},
		"syslog open":      {func(c *server.Config, a *alertserver.Config) { a.Syslog, c.Insecure = ":1514", true }, ""},
		"syslog by TLS":    {func(c *server.Config, a *alertserver.Config) { secure(c); a.Syslog, a.SyslogCA = ":6514", "ca" }, ""},
		"no certificate":   {func(c *server.Config, a *alertserver.Config) { a.Syslog, a.SyslogCA = ":6514", "ca" }, "set tls-cert and tls-key"},
		"CA unused":        {func(c *server.Config, a *alertserver.Config) { a.SyslogCA = "ca" }, "without alert-syslog"},
		"mapping unused":   {func(c *server.Config, a *alertserver.Config) { a.Mapping = "m" }, "without alert-syslog or alert-webhook"},
		"webhook beyond":   {func(c *server.Config, a *alertserver.Config) { a.Webhook = ":9099" }, "without TLS (set tls-cert and tls-key) and a token or users"},
		"webhook, TLS":     {func(c *server.Config, a *alertserver.Config) { secure(c); a.Webhook = ":9099" }, "without a token or users"},
		"webhook, token":   {func(c *server.Config, a *alertserver.Config) { secure(c); a.Webhook, c.Token = ":9099", "t" }, ""},
		"webhook, users":   {func(c *server.Config, a *alertserver.Config) { secure(c); a.Webhook, a.OmnibusUsers = ":9099", "u" }, ""},
		"webhook insecure": {func(c *server.Config, a *alertserver.Config) { a.Webhook, c.Insecure = ":9099", true }, ""},
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

func TestWarnsOfListenersThatAreOpen(t *testing.T) {
	var said testkit.Lines
	start(t, func(c *server.Config, a *alertserver.Config) {
		a.Omnibus, a.Syslog, a.Webhook, c.Insecure = "0.0.0.0:0", "0.0.0.0:0", "0.0.0.0:0", true
		c.Logger = said.Logger()
	})
	for _, want := range []string{"change this server's alerts without TLS", "raise alerts by syslog", "raise alerts without TLS"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("the log does not warn %q: %s", want, said.String())
		}
	}
}
