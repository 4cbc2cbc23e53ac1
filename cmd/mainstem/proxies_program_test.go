package main

import (
	"bufio"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/remotelog"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testport"
)

var proxies = flag.Bool("proxies", false, "test a server behind proxies, which must be installed")

// nginxAround is the configuration around what the documentation has for the http block.
const nginxAround = `daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events {}
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
%s
}
`

// proxyProgram is a proxy that the tests start, in a directory with its configuration.
type proxyProgram struct {
	name    string
	args    []string
	config  string // the name of its file
	around  string // what is around the configuration
	address string // how the configuration has an address, with %s for the port
}

var (
	nginx = proxyProgram{
		name: "nginx", config: "nginx.conf", around: nginxAround, address: "127.0.0.1:%s;",
		args: []string{"-p", ".", "-c", "nginx.conf", "-e", "stderr"},
	}
	envoy = proxyProgram{
		name: "envoy", config: "envoy.yaml", around: "%s", address: "{address: 127.0.0.1, port_value: %s}",
		args: []string{"-c", "envoy.yaml", "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warning"},
	}
)

// documentedConfig returns the configuration that the documentation has in a language.
func documentedConfig(t *testing.T, language string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "serving.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```"+language+"\n")
	config, _, ended := strings.Cut(rest, "```\n")
	if !found || !ended {
		t.Fatalf("docs/serving.md has no configuration in %s", language)
	}
	return config
}

// start runs the proxy with a configuration, in which the ports of the documentation become those
// of the server and a free one, until the test ends. It returns its URL.
func (p proxyProgram) start(t *testing.T, config, server string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	free, err := testport.Free()
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(free)
	for from, to := range map[string]string{"8080": u.Port(), "8000": port} {
		from = fmt.Sprintf(p.address, from)
		if strings.Count(config, from) != 1 {
			t.Fatalf("the configuration has not one %q", from)
		}
		config = strings.Replace(config, from, fmt.Sprintf(p.address, to), 1)
	}
	cmd := exec.Command(p.name, p.args...)
	cmd.Dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(cmd.Dir, p.config), fmt.Appendf(nil, p.around, config), 0o600); err != nil {
		t.Fatal(err)
	}
	var complaints testkit.Lines
	cmd.Stderr = &complaints
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("%s: %s", p.name, complaints.String())
		}
	})
	address := net.JoinHostPort("127.0.0.1", port)
	testkit.Eventually(t, p.name+" listens", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return "http://" + address
}

// serve starts a server and the proxy in front of it.
func (p proxyProgram) serve(t *testing.T, config string) (proxy string) {
	t.Helper()
	if !*proxies {
		t.Skipf("needs %s: run with -args -proxies", p.name)
	}
	if _, err := exec.LookPath(p.name); err != nil {
		t.Fatalf("%s is not installed: %v", p.name, err)
	}
	s, err := startServer(t.TempDir(), os.Environ(), "--log", "memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	return p.start(t, config, s.url)
}

// request sends a request and returns the body of the answer, which must have the status.
func request(t *testing.T, status int, method, url, body string, headers ...string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		t.Fatalf("%s %s: status %d, want %d: %s %v", method, url, resp.StatusCode, status, got, err)
	}
	return string(got)
}

// tryKeys writes and reads keys that a proxy may change on their way, under their conditions. The
// route by-key takes all of them.
func tryKeys(t *testing.T, table string) {
	t.Helper()
	for _, key := range []string{"a/b", "a//b", ".", "..", "x/../y", "a b", "a%2Fb", "a+b", "?x=1#y", "ü"} {
		byKey, value := table+"/by-key?key="+url.QueryEscape(key), "of "+key
		request(t, 200, "PUT", byKey, value, "If-None-Match", "*")
		urls := []string{byKey, table + "/by-key?key64=" + url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(key)))}
		if slices.Contains(keysInPaths, key) {
			urls = append(urls, table+"/"+url.PathEscape(key))
		}
		for _, u := range urls {
			if got := request(t, 200, "GET", u, ""); got != value {
				t.Errorf("%s: the value of %q is %q", u, key, got)
			}
			request(t, 304, "GET", u, "", "If-None-Match", `"1"`)
			request(t, 412, "PUT", u, "other", "If-Match", `"7"`)
			request(t, 412, "PUT", u, "other", "If-None-Match", "*")
		}
		request(t, 200, "PUT", byKey, "other", "If-Match", `"1"`)
		request(t, 200, "GET", byKey, "", "If-None-Match", `"1"`)
		request(t, 304, "GET", byKey, "", "If-None-Match", `"2"`)
		request(t, 200, "DELETE", byKey, "", "If-Match", `W/"2"`)
		request(t, 404, "GET", byKey, "")
	}
}

// keysInPaths arrive as they were sent: nginx and Envoy leave what is escaped alone.
var keysInPaths = []string{"a/b", "a//b", "x/../y", "a b", "a%2Fb", "a+b", "?x=1#y", "ü"}

// tryViews writes, reads and follows a table.
func tryViews(t *testing.T, proxy string) {
	t.Helper()
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	const table = "/v1/kv/shop/carts"
	tryKeys(t, proxy+table)
	r, err := http.NewRequestWithContext(t.Context(), "GET", proxy+table, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	until := func(part string) {
		for lines.Scan() {
			if strings.Contains(lines.Text(), part) {
				return
			}
		}
		t.Fatalf("the follower ended before %q: %v", part, lines.Err())
	}
	until("event: synced")
	for _, key := range []string{"c", "d"} { // each arrives before the next is written
		request(t, 200, "PUT", proxy+table+"/"+key, "1")
		until(`"key":"` + key + `"`)
	}
}

// beyondNginx is a value larger than the requests that nginx passes by default.
const beyondNginx = 3 << 20

// tryLog commits, reads and follows a log.
func tryLog(t *testing.T, proxy string, large int, o *remotelog.Options) {
	t.Helper()
	log, err := remotelog.Open(proxy, o)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	put := func(value []byte) mainstem.Receipt {
		b := mainstem.NewBatch()
		b.Ensure("s", mainstem.Policy{})
		b.Put("s", []byte("k"), value)
		r, err := log.Commit(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := put(make([]byte, large))
	if r, err := log.Get(t.Context(), "s", []byte("k")); err != nil || len(r.Value) != large {
		t.Fatalf("%d bytes: %v", len(r.Value), err)
	}
	last := put([]byte("x"))
	for r, err := range log.Feed(t.Context(), mainstem.Filter{Spaces: []string{"s"}, After: first.Last - 1, Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if string(r.Value) == "y" {
			break
		}
		if r.Position == last.Last {
			put([]byte("y")) // the follower waits for it
		}
	}
}

// TestNginx runs the configuration of the documentation.
func TestNginx(t *testing.T) {
	tryAll(t, nginx.serve(t, documentedConfig(t, "nginx")))
}

// TestEnvoy runs the configuration of the documentation.
func TestEnvoy(t *testing.T) {
	tryAll(t, envoy.serve(t, documentedConfig(t, "yaml")))
}

// TestEnvoyWithItsDefaults passes no upgrades.
func TestEnvoyWithItsDefaults(t *testing.T) {
	config := documentedConfig(t, "yaml")
	for _, setting := range []string{
		"                stream_idle_timeout: 3600s\n",
		"                upgrade_configs:\n                  - upgrade_type: mainstem-log/1\n",
		", timeout: 0s",
	} {
		if strings.Count(config, setting) != 1 {
			t.Fatalf("the configuration has not one %q", setting)
		}
		config = strings.Replace(config, setting, "", 1)
	}
	proxy := envoy.serve(t, config)
	t.Run("views", func(t *testing.T) { tryViews(t, proxy) })
	t.Run("connect", func(t *testing.T) { tryLog(t, proxy, beyondNginx, &remotelog.Options{HTTP1: true}) })
}

// tryAll tries everything that the documented configurations pass.
func tryAll(t *testing.T, proxy string) {
	t.Helper()
	t.Run("views", func(t *testing.T) { tryViews(t, proxy) })
	t.Run("sessions", func(t *testing.T) { tryLog(t, proxy, beyondNginx, &remotelog.Options{Transport: remotelog.Sessions}) })
	t.Run("connect", func(t *testing.T) { tryLog(t, proxy, beyondNginx, &remotelog.Options{HTTP1: true}) })
	if !strings.Contains(request(t, 200, "GET", proxy+"/metrics", ""), `mainstem_session_calls_total{`) {
		t.Error("the server counted no calls of sessions")
	}
}

// TestNginxWithItsDefaults passes no upgrades, and buffers.
func TestNginxWithItsDefaults(t *testing.T) {
	proxy := nginx.serve(t, `server {
    listen 127.0.0.1:8000;
    location / { proxy_pass http://127.0.0.1:8080; }
}`)
	t.Run("views", func(t *testing.T) { tryViews(t, proxy) })
	log, err := remotelog.Open(proxy, &remotelog.Options{Transport: remotelog.Sessions})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := log.Head(t.Context()); !errors.Is(err, mainstem.ErrUnsupported) {
		t.Errorf("a session without an upgrade: %v", err)
	}
	for name, o := range map[string]*remotelog.Options{"auto": nil, "connect": {HTTP1: true}} {
		t.Run(name, func(t *testing.T) { tryLog(t, proxy, 512<<10, o) })
	}
	auto, err := remotelog.Open(proxy, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer auto.Close()
	info, err := auto.Info(t.Context())
	if err != nil || info.Transport != remotelog.RPC || info.HTTP != "HTTP/1.1" || !strings.Contains(info.Fallback, "426") {
		t.Errorf("%+v, %v", info, err)
	}
	large := mainstem.NewBatch()
	large.Put("s", []byte("k"), make([]byte, beyondNginx))
	_, err = auto.Commit(t.Context(), large)
	if !errors.Is(err, mainstem.ErrInvalid) || errors.Is(err, mainstem.ErrUnknownOutcome) {
		t.Errorf("a batch that nginx refuses: %v", err)
	}
}
