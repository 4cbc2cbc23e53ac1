package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/servertest"
	"github.com/mainstemdev/mainstem/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a server in memory, as change wants it, until the test ends.
func start(t *testing.T, change func(*server.Config)) *server.Server {
	t.Helper()
	c := servertest.Config()
	if change != nil {
		change(&c)
	}
	return servertest.Start(t, c)
}

// client opens the log of a running node.
func client(t *testing.T, n *server.Server, o *server.LogOptions) mainstem.Log {
	t.Helper()
	log, err := server.OpenLog(t.Context(), n.URL(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return log
}

func put(t *testing.T, log mainstem.Log, key, value string) {
	t.Helper()
	b := mainstem.NewBatch()
	b.Ensure("s", mainstem.Policy{History: 1})
	b.Put("s", []byte(key), []byte(value))
	if _, err := log.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func TestHealthAndMetrics(t *testing.T) {
	n := start(t, nil)
	log := client(t, n, nil)
	put(t, log, "k", "v")
	if _, err := log.Get(t.Context(), "s", []byte("none")); !errors.Is(err, mainstem.ErrNotFound) {
		t.Fatal(err)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		code, body := servertest.Get(t, nil, n.URL()+path)
		var s server.Status
		if err := json.Unmarshal([]byte(body), &s); err != nil || code != 200 || s.Service != "mainstem" || s.Status != "ok" {
			t.Errorf("%s: %d %s %v", path, code, body, err)
		}
	}
	servertest.AwaitMetrics(t, n.URL(),
		`mainstem_commits_total{result="ok"} 1`, "mainstem_written_records_total 1", "mainstem_written_bytes_total 2",
		`mainstem_reads_total{method="get"} 1`, `mainstem_read_errors_total{kind="not found",method="get"} 1`,
		"mainstem_commit_seconds_count 1", "mainstem_batch_writes_sum 1", "mainstem_spaces 1", "mainstem_keys 1",
		"mainstem_head_position 1", "mainstem_read_only 0", "mainstem_disk_bytes", "mainstem_followers 0",
		`mainstem_session_calls_total{procedure="Commit"} 1`, "go_goroutines", "process_resident_memory_bytes",
	)
	servertest.Get(t, nil, n.URL()+"/mainstem.v1.LogService/SomebodysText")
	if strings.Contains(servertest.Metrics(t, n.URL()), "SomebodysText") {
		t.Error("the text of a URL became a label")
	}
}

// stopTimeout is longer than stopping takes on any machine, unless it waits for what does
// not end by itself.
const stopTimeout = 2 * time.Minute

func TestStopEndsFollowersAndKeepsWhatWasWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	n := start(t, func(c *server.Config) { c.Log, c.StopTimeout = dir, stopTimeout })
	put(t, n.Log(), "k", "v")

	following := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		for r, err := range n.Log().Feed(context.Background(), mainstem.Filter{Follow: true}) {
			if err != nil {
				ended <- err
				return
			}
			if string(r.Key) == "k" {
				close(following)
			}
		}
	}()
	<-following
	servertest.AwaitMetrics(t, n.URL(), "mainstem_followers 1")
	remote := client(t, n, nil)
	stream := make(chan error, 1)
	seen := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		first := true
		for _, err := range remote.Feed(ctx, mainstem.Filter{Follow: true}) {
			if err != nil {
				stream <- err
				return
			}
			if first {
				close(seen)
				first = false
			}
		}
	}()
	<-seen

	begin := time.Now()
	if err := n.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took >= stopTimeout {
		t.Errorf("stopping waited %v for followers", took)
	}
	if err := <-ended; !errors.Is(err, mainstem.ErrClosed) {
		t.Errorf("the follower in the process ended with %v, want Closed", err)
	}
	cancel() // a remote follower waits for the server to come back
	if err := <-stream; err == nil {
		t.Error("the remote follower ended without an error")
	}
	if err := n.Stop(t.Context()); err != nil {
		t.Errorf("stopping twice: %v", err)
	}
	if err := n.Start(t.Context()); !errors.Is(err, mainstem.ErrClosed) {
		t.Errorf("starting after stop: %v", err)
	}
	log, err := server.OpenLog(t.Context(), dir, &server.LogOptions{MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if r, err := log.Get(t.Context(), "s", []byte("k")); err != nil || string(r.Value) != "v" {
		t.Errorf("after stop: %s, %v", r.Value, err)
	}
}

func TestAddressInUse(t *testing.T) {
	n := start(t, nil)
	c := server.DefaultConfig()
	c.Log, c.Listen = server.Memory, n.Addr().String()
	second, err := server.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Stop(t.Context())
	if err := second.Start(t.Context()); !errors.Is(err, mainstem.ErrUnavailable) || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("got %v, want Unavailable with what to do", err)
	}
}

func TestToken(t *testing.T) {
	n := start(t, func(c *server.Config) { c.Token = "open-sesame" })
	if code, _ := servertest.Get(t, nil, n.URL()+"/healthz"); code != 200 {
		t.Errorf("/healthz without a token: %d", code)
	}
	if code, _ := servertest.Get(t, nil, n.URL()+"/metrics"); code != http.StatusUnauthorized {
		t.Errorf("/metrics without a token: %d", code)
	}
	if code, _ := servertest.Get(t, http.Header{"Authorization": {"Bearer open-sesame"}}, n.URL()+"/metrics"); code != 200 {
		t.Errorf("/metrics with the token: %d", code)
	}
	for token, want := range map[string]error{"": mainstem.ErrDenied, "wrong": mainstem.ErrDenied, "open-sesame": nil} {
		log := client(t, n, &server.LogOptions{Token: token})
		if _, err := log.Head(t.Context()); !errors.Is(err, want) {
			t.Errorf("token %q: got %v, want %v", token, err, want)
		}
	}
}

// certificate writes a certificate for 127.0.0.1 and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := servertest.WriteCertificate(cert, key); err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func TestTLS(t *testing.T) {
	cert, key := certificate(t)
	n := start(t, func(c *server.Config) { c.TLSCert, c.TLSKey, c.Token = cert, key, "secret" })
	if !strings.HasPrefix(n.URL(), "https://") {
		t.Fatalf("the URL is %s", n.URL())
	}
	put(t, client(t, n, &server.LogOptions{Token: "secret", TLSCA: cert}), "k", "v")
	stranger := client(t, n, &server.LogOptions{Token: "secret"})
	if _, err := stranger.Head(t.Context()); err == nil {
		t.Error("a client that does not trust the certificate got an answer")
	}
	if there, err := server.Probe(t.Context(), n.URL(), cert); !there || err != nil {
		t.Errorf("Probe does not find the server: %v", err)
	}
	for _, url := range []string{strings.Replace(n.URL(), "https", "http", 1), n.URL()} {
		if there, err := server.Probe(t.Context(), url, ""); there || !errors.Is(err, mainstem.ErrUnavailable) {
			t.Errorf("Probe of %s without the certificate: %t, %v, want Unavailable", url, there, err)
		}
	}
	if there, err := server.Probe(t.Context(), n.URL(), key); there || !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("Probe with a key as authority: %t, %v", there, err)
	}
	c := server.DefaultConfig()
	c.Log, c.TLSCert, c.TLSKey = server.Memory, key, cert
	if _, err := server.Open(t.Context(), c); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("certificate and key exchanged: %v", err)
	}
	if _, err := server.OpenLog(t.Context(), n.URL(), &server.LogOptions{TLSCA: key}); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("a key as authority: %v", err)
	}
}

func TestTLSIsNotOld(t *testing.T) {
	cert, key := certificate(t)
	n := start(t, func(c *server.Config) { c.TLSCert, c.TLSKey = cert, key })
	conn, err := tls.Dial("tcp", n.Addr().String(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11})
	if err == nil {
		conn.Close()
		t.Error("TLS 1.1 was accepted")
	}
}

func TestForeignHostNames(t *testing.T) {
	n := start(t, nil)
	for host, want := range map[string]int{
		"127.0.0.1:1": 200, "localhost": 200, "localhost:8080": 200, "[::1]:80": 200, "evil.example": 403, "evil.example:8080": 403,
	} {
		if code, _ := servertest.Get(t, http.Header{"Host": {host}}, n.URL()+"/healthz"); code != want {
			t.Errorf("host %q: %d, want %d", host, code, want)
		}
	}
	withToken := start(t, func(c *server.Config) { c.Token = "secret" })
	if code, _ := servertest.Get(t, http.Header{"Host": {"logs.example"}}, withToken.URL()+"/healthz"); code != 200 {
		t.Errorf("with a token, a proxy's host name: %d", code)
	}
}

func TestOpenLogTargets(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing")
	for target, want := range map[string]error{
		"":                       mainstem.ErrInvalid,
		"memory:x":               mainstem.ErrInvalid,
		"ftp://127.0.0.1/":       mainstem.ErrInvalid,
		"http://":                mainstem.ErrInvalid,
		"http://u:p@127.0.0.1:1": mainstem.ErrInvalid,
		missing:                  mainstem.ErrNotFound,
	} {
		log, err := server.OpenLog(t.Context(), target, &server.LogOptions{MustExist: true})
		if !errors.Is(err, want) {
			t.Errorf("%q: got %v, want %v", target, err, want)
		}
		if log != nil {
			t.Errorf("%q: a log came with the error", target)
		}
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("a reader created the directory")
	}
	log, err := server.OpenLog(t.Context(), server.Memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, log, "k", "v")
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

func TestProbeOfAnotherProgram(t *testing.T) {
	for name, answer := range map[string]string{"text": "OK", "json": `{"status":"ok"}`, "nothing": ""} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) })}
		done := make(chan struct{})
		go func() { defer close(done); _ = srv.Serve(l) }()
		if there, err := server.Probe(t.Context(), "http://"+l.Addr().String(), ""); there || err != nil {
			t.Errorf("%s: taken for a Mainstem server: %t, %v", name, there, err)
		}
		srv.Close()
		<-done
	}
	garbage := listening(t, answering("500 what?\r\n"))
	if there, err := server.Probe(t.Context(), garbage, ""); there || err != nil {
		t.Errorf("what does not speak HTTP: taken for a Mainstem server: %t, %v", there, err)
	}
	if there, err := server.Probe(t.Context(), "http://127.0.0.1:1", ""); there || err != nil {
		t.Errorf("found a server where nobody listens: %t, %v", there, err)
	}
}

// listening takes connections, one after another, until the test ends. It returns its URL.
func listening(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
			conn.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return "http://" + l.Addr().String()
}

// answering answers a request with a text, which ends there.
func answering(text string) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			_, _ = io.WriteString(conn, text)
		}
	}
}

// What listens and does not answer may be a server.
func TestProbeWithoutAnAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, serve := range map[string]func(net.Conn){
		"closed":  func(net.Conn) {},
		"in part": answering("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"),
		"silent":  func(net.Conn) { cancel(); <-ctx.Done() },
	} {
		within := t.Context()
		if name == "silent" {
			within = ctx
		}
		if there, err := server.Probe(within, listening(t, serve), ""); there || !errors.Is(err, mainstem.ErrUnavailable) {
			t.Errorf("%s: %t, %v, want Unavailable", name, there, err)
		}
	}
}

func TestCapabilitiesSurviveMeasuring(t *testing.T) {
	n := start(t, nil)
	if _, ok := n.Log().(mainstem.Snapshotter); !ok {
		t.Error("the log cannot be snapshot any more")
	}
	if _, ok := n.Log().(mainstem.Backuper); !ok {
		t.Error("the log cannot be backed up any more")
	}
	if _, ok := n.Log().(mainstem.Checker); !ok {
		t.Error("the log cannot be checked any more")
	}
}
