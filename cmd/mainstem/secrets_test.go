package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/internal/testnats"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

// The secrets of these tests. Some must be escaped in a URL.
const (
	secretOfLog     = "log/pass:w0rd@1"
	secretOfKey     = "key-pass-w0rd-2"
	secretOfServer  = "server-t0ken-3"
	secretOfKafka   = "kafka-pass-w0rd-4"
	secretOfAlerts  = "alerts-pass-w0rd-5"
	secretOfCluster = "cluster-s3cret-of-6-and-more"
	secretGuessed   = "guessed-pass-w0rd-7" // what somebody tries, who may have mistyped a real one
)

// clean fails the test if a text holds a secret, as it is or as it is written in
// URLs and in the headers of HTTP.
func clean(t *testing.T, what, text string) {
	t.Helper()
	for _, s := range []string{secretOfLog, secretOfKey, secretOfServer, secretOfKafka, secretOfAlerts, secretOfCluster, secretGuessed} {
		for _, form := range []string{s, url.QueryEscape(s), url.PathEscape(s), url.UserPassword("", s).String()[1:], basic("ada", s)} {
			if strings.Contains(text, form) {
				t.Errorf("%s shows the secret %q as %q:\n%s", what, s, form, text)
				break
			}
		}
	}
}

// basic is how a name and a password are written in a header of HTTP.
func basic(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

// TestSecretsAppearNowhere runs a server with every kind of secret, lets clients in and
// turns others away, at the level of logging that says most. Nothing that it writes or
// answers shows a secret.
func TestSecretsAppearNowhere(t *testing.T) {
	t.Run("nats", func(t *testing.T) {
		broker := testnats.NewServer(t, &testnats.Options{Configure: func(o *natsserver.Options) {
			o.Username, o.Password = "ada", secretOfLog
		}})
		secretive(t, broker.URL(), func(s *secretServer) {
			broker.Stop()
			broker.Start()
			up := func() bool { return s.answers(t, http.MethodGet, s.url+"/readyz", nil) == http.StatusOK }
			if !eventually(up) {
				t.Error("the server did not find its log again")
			}
		})
	})
	t.Run("postgres", func(t *testing.T) {
		u, err := url.Parse(testpostgres.FastDB(t)) // which lets everybody in, whatever the password
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(u.User.Username(), secretOfLog)
		q := u.Query()
		q.Set("sslpassword", secretOfKey)
		u.RawQuery = q.Encode()
		secretive(t, u.String(), func(*secretServer) {})
	})
}

// secretServer is a server with secrets, in a directory of files that hold them.
type secretServer struct {
	*process
	dir string
}

// secretive runs a server on a log whose address holds a secret. disturb makes trouble
// while it runs.
func secretive(t *testing.T, target string, disturb func(*secretServer)) {
	s := &secretServer{dir: t.TempDir()}
	for name, secret := range map[string]string{"token": secretOfServer, "kafka": secretOfKafka, "alerts": secretOfAlerts, "cluster": secretOfCluster} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.says(t, "alerts", "user", "set", "ada", "--file", "users", "--role", "admin", "--password-file", "alerts")
	s.says(t, "kafka", "user", "set", "ada", "--password-file", "kafka", "--log", target)
	var err error
	s.process, err = startServer(s.dir, os.Environ(), "--log", target, "--log-level", "debug", "--token-file", "token",
		"--kafka-sasl", "plain,scram-sha-512", "--omnibus", "127.0.0.1:0", "--omnibus-users", "users", "--alert-webhook", "127.0.0.1:0",
		"--cluster", "a@127.0.0.1:0", "--cluster-secret-file", "cluster")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	s.bearers(t)
	s.alerts(t)
	s.produces(t)
	disturb(s)
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	clean(t, "standard output", s.stdout.String())
	clean(t, "the log", s.stderr.String())
	if !strings.Contains(s.stderr.String(), "level=DEBUG") || !strings.Contains(s.stdout.String(), "xxxxx") {
		t.Errorf("the test looks at the wrong thing:\n%s%s", s.stdout.String(), s.stderr.String())
	}
}

// says runs a command and looks at what it writes.
func (s *secretServer) says(t *testing.T, args ...string) string {
	t.Helper()
	out, _ := said(t, s.dir, os.Environ(), args...)
	return out
}

// said runs a command in a process of its own, looks at what it writes, and returns that
// and its exit status.
func said(t *testing.T, dir string, env []string, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for a server that starts though it should not
	defer cancel()
	cmd := exec.CommandContext(ctx, "mainstem", args...)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	clean(t, fmt.Sprintf("mainstem %s", args[0]), string(out))
	return string(out), cmd.ProcessState.ExitCode()
}

// answers sends a request, looks at the answer and its header, and returns the status.
func (s *secretServer) answers(t *testing.T, method, address string, body []byte, header ...string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	status, text, err := roundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	clean(t, fmt.Sprintf("the answer of %s", req.URL.Path), text)
	return status
}

// bearers asks for everything over HTTP, with the token and with another.
func (s *secretServer) bearers(t *testing.T) {
	right, wrong := "Bearer "+secretOfServer, "Bearer "+secretGuessed
	for _, path := range []string{"/", "/healthz", "/readyz", "/metrics", "/config", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/vars", "/mainstem.v1.LogService/Head"} {
		s.answers(t, http.MethodGet, s.url+path, nil)
		s.answers(t, http.MethodGet, s.url+path, nil, "Authorization", wrong)
		s.answers(t, http.MethodGet, s.url+path+"?token="+secretGuessed, nil, "Authorization", right)
	}
	if got := s.answers(t, http.MethodGet, s.url+"/metrics", nil, "Authorization", right); got != http.StatusOK {
		t.Errorf("metrics with the token: status %d", got)
	}
	if got := s.answers(t, http.MethodGet, s.url+"/metrics", nil, "Authorization", wrong); got != http.StatusUnauthorized {
		t.Errorf("metrics with another token: status %d", got)
	}
	if out := s.says(t, "kv", "put", "app/users", "1", "x", "--log", s.url, "--token-file", "token"); !strings.Contains(out, "1") {
		t.Errorf("a put with the token: %s", out)
	}
	s.says(t, "kv", "get", "app/users", "1", "--log", s.url, "--token", secretGuessed)
	s.says(t, "kv", "get", "app/users", "1", "--log", strings.Replace(s.url, "://", "://ada:"+secretGuessed+"@", 1))
	s.says(t, "actor", "nodes", "--log", s.url, "--token-file", "token")
	s.says(t, "stats", "--log", s.url, "--token-file", "token")
}

// alerts asks the object server and the webhook, with the password and with another.
func (s *secretServer) alerts(t *testing.T) {
	for password, want := range map[string]int{secretOfAlerts: http.StatusOK, secretGuessed: http.StatusUnauthorized} {
		as := []string{"Authorization", "Basic " + basic("ada", password)}
		const tables = "/objectserver/restapi/"
		if got := s.answers(t, http.MethodGet, "http://"+s.omni+tables+"alerts/status", nil, as...); got != want {
			t.Errorf("alerts: status %d, want %d", got, want)
		}
		s.answers(t, http.MethodGet, "http://"+s.omni+tables+"sysinfo", nil, as...)
		for _, statement := range []string{"selec nothing", "select * from catalog.connections", "select * from catalog.properties"} {
			s.answers(t, http.MethodPost, "http://"+s.omni+tables+"sql/factory", fmt.Appendf(nil, "{%q: %q}", "sqlcmd", statement), append(as, "Content-Type", "application/json")...)
		}
		s.answers(t, http.MethodPost, "http://"+s.hook+"/alertmanager", []byte("{"), as...)
	}
	s.says(t, "alerts", "sql", "select Node from alerts.status", "--url", "http://ada:"+secretGuessed+"@"+s.omni)
}

// produces lets a client of Kafka in, and turns others away.
func (s *secretServer) produces(t *testing.T) {
	for password, want := range map[string]bool{secretOfKafka: true, secretGuessed: false} {
		for _, mechanism := range []sasl.Mechanism{
			plain.Auth{User: "ada", Pass: password}.AsMechanism(),
			scram.Auth{User: "ada", Pass: password}.AsSha512Mechanism(),
		} {
			cl, err := kgo.NewClient(kgo.SeedBrokers(s.kafka), kgo.SASL(mechanism), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("t"))
			if err != nil {
				t.Fatal(err)
			}
			if err := cl.Ping(t.Context()); (err == nil) != want {
				t.Errorf("%s: %v", mechanism.Name(), err)
			} else if want {
				err = cl.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr()
				if err != nil {
					t.Error(err)
				}
			}
			cl.Close()
		}
	}
}

// TestSecretsOfWhatIsRefused starts servers and commands that cannot start: no error
// shows a secret of the address, the configuration or the environment, nor does a help text.
func TestSecretsOfWhatIsRefused(t *testing.T) {
	dir := t.TempDir()
	plain, key := url.QueryEscape(secretOfLog), url.QueryEscape(secretOfKey)
	targets := []string{
		"nats://ada:" + plain + "@127.0.0.1:1",
		"nats://" + secretOfKey + "@127.0.0.1:1,nats://ada:" + plain + "@127.0.0.1:2?stream=A",
		"nats://ada:" + secretOfLog + "@127.0.0.1:1?nonsense=1",
		"postgres://ada:" + plain + "@127.0.0.1:1/db?sslpassword=" + key,
		"postgres://127.0.0.1:1/db?password=" + plain,
		"postgres://ada:" + secretOfLog + "%zz@127.0.0.1:1/db",
		"postgres://ada@127.0.0.1:port/db?password=" + plain,
		"natz://ada:" + plain + "@127.0.0.1:1",
		"http://ada:" + plain + "@127.0.0.1:1",
		"nats:embedded?store=" + dir + "/none/there&password=" + plain,
	}
	for i, target := range targets {
		files := map[string]string{
			"unknown.yaml": "log: " + inYAML(target) + "\ntoken: " + secretOfServer + "\nlisten-on: 1\n",
			"kind.yaml":    "token: {" + secretOfServer + ": 1}\nlog: [" + inYAML(target) + "]\n",
			"syntax.yaml":  "log: " + inYAML(target) + "\ntoken: \"" + secretOfServer + "\n",
			"token":        secretOfServer + "\n" + secretOfKey + "\n",
			"short":        secretOfCluster[:8],
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		serve := []string{"serve", "--listen", "127.0.0.1:0", "--kafka", "", "--log-level", "debug"}
		lines := [][]string{
			append(serve, "--log", target),
			{"kv", "get", "app/users", "1", "--log", target, "--timeout", "1s"},
			{"copy", "--from", target, "--to", filepath.Join(dir, "to"), "--timeout", "1s"},
		}
		if i == 0 {
			lines = append(lines,
				append(serve, "--log", "memory:", "--config", "unknown.yaml"),
				append(serve, "--log", "memory:", "--config", "kind.yaml"),
				append(serve, "--log", "memory:", "--config", "syntax.yaml"),
				append(serve, "--log", "memory:", "--token-file", "token", "--cluster", "a@127.0.0.1:0", "--cluster-secret-file", "short"),
				append(serve, "--log", "memory:", "--token", secretOfServer, "--max-value", "much"),
				append(serve, "--log", "memory:", "--token", secretOfServer, "--listen", "0.0.0.0:0"),
				[]string{"alerts", "sql", "select 1", "--url", "http://ada:" + plain + "@127.0.0.1:1"},
			)
		}
		for _, line := range lines {
			if out, status := said(t, dir, os.Environ(), line...); status == cli.ExitOK {
				t.Errorf("%q succeeded: %s", line, out)
			}
		}
		env := append(os.Environ(), "MAINSTEM_LOG="+target, "MAINSTEM_TOKEN="+secretOfServer, "MAINSTEM_ALERTS_PASSWORD="+secretOfAlerts)
		if _, status := said(t, dir, env, append(serve, "--nonsense")...); status != cli.ExitUsage {
			t.Errorf("an unknown flag: exit status %d", status)
		}
		for _, help := range [][]string{{"--help"}, {"serve", "--help"}, {"help", "output"}, {"kv", "get", "--help"}, {"version"}} {
			if out, status := said(t, dir, env, help...); status != cli.ExitOK {
				t.Errorf("%q: %s", help, out)
			}
		}
	}
}

// inYAML is a text in YAML.
func inYAML(s string) string { return "'" + s + "'" }
