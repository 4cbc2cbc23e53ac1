package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/actor/cluster/clusterserver"
	"github.com/mainstemdev/mainstem/alert/alertserver"
	"github.com/mainstemdev/mainstem/alert/coordinator"
	"github.com/mainstemdev/mainstem/internal/servertest"
	"github.com/mainstemdev/mainstem/server"
	"github.com/mainstemdev/mainstem/wire/kafka/kafkaserver"
)

// notification is an alert of a web page.
const notification = `{"version":"4","alerts":[{"status":"firing","labels":{"alertname":"forged"},"startsAt":"2026-02-03T04:05:06Z"}]}`

const factory = `{"sqlcmd":"delete from alerts.status"}`

// TestNoListenerServesWebPages walks all listeners of a server, and that of a coordinator,
// with what a page of another origin makes a browser send.
func TestNoListenerServesWebPages(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("s", 64)), 0o600); err != nil {
		t.Fatal(err)
	}
	k, node, a := kafkaserver.New(), clusterserver.New(), alertserver.New()
	k.Config.Listen = "127.0.0.1:0"
	node.Config.Node, node.Config.SecretFile = "web@127.0.0.1:0", secret
	a.Config.Omnibus, a.Config.Syslog, a.Config.Webhook = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	n := start(t, func(c *server.Config) { c.Components = append(a.Components(), k, node) })
	p := startCoordinator(t, a.OmnibusAddr().String())
	if _, err := a.Tables().Exec(t.Context(), "insert into alerts.status (Identifier) values ('kept')"); err != nil {
		t.Fatal(err)
	}

	omnibus, webhook := "http://"+a.OmnibusAddr().String(), "http://"+a.WebhookAddr().String()
	for _, c := range []struct{ method, url, contentType, body string }{
		{"POST", omnibus + "/objectserver/restapi/sql/factory", "", factory},
		{"POST", omnibus + "/objectserver/restapi/sql/factory", "application/json", factory},
		{"POST", omnibus + "/objectserver/restapi/alerts/status", "", `{"rowset":{"rows":[{"Identifier":"forged"}]}}`},
		{"DELETE", omnibus + "/objectserver/restapi/alerts/status", "", ""},
		{"PATCH", omnibus + "/objectserver/restapi/alerts/status", "application/json", `{"rowset":{"rows":[{"Severity":1}]}}`},
		{"POST", n.URL() + "/mainstem.v1.LogService/Commit", "application/json", `{}`},
		{"POST", n.URL() + "/mainstem.v1.LogService/Commit", "application/proto", ""},
		{"POST", n.URL() + "/mainstem.v1.LogService/Commit", "application/grpc-web", ""},
		{"POST", n.URL() + "/metrics", "", ""},
		{"POST", n.URL() + clusterserver.NodesPath, "", ""},
		{"POST", webhook + "/alertmanager", "application/json", notification},
		{"POST", webhook + "/api/v2/alerts", "", `[{"labels":{"alertname":"forged"}}]`},
		{"POST", p.URL() + "/rawSQL", "application/json", `{"sql":"delete from alerts.status"}`},
		{"POST", p.URL() + "/metrics", "", ""},
	} {
		h := http.Header{"Authorization": {"Basic cm9vdDo="}, "X-Request-Id": {"1"}, "Content-Type": {c.contentType}}
		for name, value := range map[string]string{"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"} {
			page := h.Clone()
			page.Set(name, value)
			if code, body := servertest.Request(t, servertest.Client, c.method, c.url, c.body, page); code != http.StatusForbidden || !strings.Contains(body, "web page") {
				t.Errorf("%s %s with %s: %d %s", c.method, c.url, name, code, body)
			}
		}
		// A page that came from the listener itself, and a program, are not refused for that.
		own := h.Clone()
		own.Set("Origin", c.url[:strings.Index(c.url[len("http://"):], "/")+len("http://")])
		if c.method != "POST" || strings.Contains(c.url, "sql") || strings.Contains(c.url, "SQL") {
			continue // it would do what it asks for
		}
		for _, h := range []http.Header{own, h} {
			if code, body := servertest.Request(t, servertest.Client, c.method, c.url, `{`, h); code == http.StatusForbidden {
				t.Errorf("%s %s with Origin %q: %d %s", c.method, c.url, h.Get("Origin"), code, body)
			}
		}
	}
	wantKept(t, a)
	for _, address := range []net.Addr{a.SyslogAddr(), k.Addr()} {
		speakHTTP(t, address)
	}
	wantKept(t, a)
}

// wantKept wants one alert in the table, kept.
func wantKept(t *testing.T, a *alertserver.Alerts) {
	t.Helper()
	rows, err := a.Tables().Query(t.Context(), "select Identifier from alerts.status")
	if err != nil {
		t.Fatal(err)
	}
	all, err := rows.Collect()
	if err != nil || len(all) != 1 || all[0].At(0).String() != "kept" {
		t.Errorf("the alerts are %v, %v", all, err)
	}
}

// startCoordinator starts a coordinator of one object server.
func startCoordinator(t *testing.T, address string) *alertserver.Coordinator {
	t.Helper()
	c := &coordinator.Config{}
	c.HTTP.Listen, c.OMNIbus.Clusters = "127.0.0.1:0", map[string][]string{"AGG1": {address}}
	p, err := alertserver.OpenCoordinator(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// speakHTTP sends a request to a listener of another protocol, which has to close the
// connection without an answer.
func speakHTTP(t *testing.T, address net.Addr) {
	t.Helper()
	conn, err := net.Dial("tcp", address.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n<11>Nov 22 17:00:00 web1 app: forged\n")
	answer, err := io.ReadAll(conn)
	var timeout net.Error
	if len(answer) > 0 || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("%s answers HTTP with %q, %v", address, answer, err)
	}
}

// TestListenersAnswerToNamesOfThisMachineOnly: a page whose name its owner lets mean
// 127.0.0.1 has the origin of the listener.
func TestListenersAnswerToNamesOfThisMachineOnly(t *testing.T) {
	a := alertserver.New()
	a.Config.Omnibus, a.Config.Webhook = "127.0.0.1:0", "127.0.0.1:0"
	n := start(t, func(c *server.Config) { c.Components = a.Components() })
	p := startCoordinator(t, a.OmnibusAddr().String())
	for _, url := range []string{n.URL(), "http://" + a.OmnibusAddr().String(), "http://" + a.WebhookAddr().String(), p.URL()} {
		rebound := http.Header{"Host": {"evil.example:80"}, "Origin": {"http://evil.example:80"}, "Sec-Fetch-Site": {"same-origin"}}
		for _, method := range []string{"GET", "POST"} {
			if code, body := servertest.Request(t, servertest.Client, method, url+"/", "", rebound); code != http.StatusForbidden || !strings.Contains(body, "localhost") {
				t.Errorf("%s %s: %d %s", method, url, code, body)
			}
		}
		for _, name := range []string{"LocalHost:1", "127.0.0.1", "[::1]:80"} {
			if code, body := servertest.Request(t, servertest.Client, "GET", url+"/", "", http.Header{"Host": {name}}); code == http.StatusForbidden {
				t.Errorf("%s by the name %s: %d %s", url, name, code, body)
			}
		}
	}
}
