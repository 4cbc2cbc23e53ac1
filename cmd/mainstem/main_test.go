package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/internal/servertest"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// TestMain makes this test binary the mainstem of the scripts: they run real
// processes, without building anything else.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"mainstem": main})
}

// leakChecked runs the tests and then looks for goroutines that are left.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// TestViews runs the scripts of the views on a directory and on a server: a
// command must not care which.
func TestViews(t *testing.T) {
	t.Run("directory", func(t *testing.T) {
		testscript.Run(t, params("testdata/views", func(env *testscript.Env) error {
			env.Setenv("MAINSTEM_LOG", "data")
			return nil
		}))
	})
	t.Run("server", func(t *testing.T) {
		testscript.Run(t, params("testdata/views", func(env *testscript.Env) error {
			s, err := startServer(env.WorkDir, env.Vars, "--log", "served", "--durability", "os")
			if err != nil {
				return err
			}
			env.Defer(s.kill)
			env.Setenv("MAINSTEM_LOG", s.url)
			return nil
		}))
	})
}

// TestProgram runs the scripts about the program itself.
func TestProgram(t *testing.T) {
	testscript.Run(t, params("testdata/program", nil))
}

func params(dir string, setup func(*testscript.Env) error) testscript.Params {
	return testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			env.Values[processesKey{}] = map[string]*process{}
			env.Values[followersKey{}] = map[string]*follower{}
			env.Setenv("GORACE", hastyRace)
			if setup == nil {
				return nil
			}
			return setup(env)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": cmdStatus, "server": cmdServer, "end": cmdEnd, "fetch": cmdFetch, "certificate": cmdCertificate,
			"follow": cmdFollow, "interrupt": cmdInterrupt, "binary": cmdBinary, "size": cmdSize, "await": cmdAwait,
			"flip": cmdFlip, "cut": cmdCut, "send": cmdSend, "post": cmdPost, "ask": cmdAsk, "fill": cmdFill, "heard": cmdHeard, "kafka": cmdKafka,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	}
}

// hastyRace keeps processes built with the race detector from sleeping for a
// second when they end, which is their default. What they found they have told.
const hastyRace = "atexit_sleep_ms=0"

type processesKey struct{}

// process is a running mainstem serve.
type process struct {
	cmd    *exec.Cmd
	url    string
	kafka  string          // address for Kafka clients
	omni   string          // address for OMNIbus clients
	syslog string          // address for senders of syslog
	hook   string          // address for Alertmanager
	stdout strings.Builder // complete once it has ended, as stderr is
	stderr strings.Builder
	exited chan error
}

// startServer runs mainstem serve in dir and returns when it says that it is ready.
func startServer(dir string, env []string, args ...string) (*process, error) {
	path, err := exec.LookPath("mainstem")
	if err != nil {
		return nil, err
	}
	s := &process{exited: make(chan error, 1)}
	s.cmd = exec.Command(path, append([]string{"serve", "--json", "--listen", "127.0.0.1:0", "--kafka", "127.0.0.1:0"}, args...)...)
	s.cmd.Dir, s.cmd.Env, s.cmd.Stderr = dir, env, &s.stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	var ready struct{ Event, URL, Kafka, Omnibus, Syslog, Webhook string }
	lines := bufio.NewReader(out)
	line, rerr := lines.ReadBytes('\n')
	s.stdout.Write(line)
	go func() {
		_, _ = io.Copy(&s.stdout, lines)
		s.exited <- s.cmd.Wait()
	}()
	if rerr != nil || json.Unmarshal(line, &ready) != nil || ready.Event != "ready" {
		s.kill()
		return nil, fmt.Errorf("the server did not start: %q %w\n%s", line, rerr, s.stderr.String())
	}
	s.url, s.kafka, s.omni = ready.URL, ready.Kafka, ready.Omnibus
	s.syslog, s.hook = ready.Syslog, ready.Webhook
	return s, nil
}

func (s *process) kill() { _ = s.end(syscall.SIGKILL) }

// end signals the server and returns how it ended.
func (s *process) end(sig os.Signal) error {
	if s.cmd.ProcessState != nil {
		return nil
	}
	_ = s.cmd.Process.Signal(sig) // it may have ended
	select {
	case err := <-s.exited:
		return err
	case <-time.After(time.Minute):
		_ = s.cmd.Process.Kill()
		return errors.Join(errors.New("the server did not end"), <-s.exited)
	}
}

// cmdServer starts a server called NAME: server NAME FLAGS... Its URL is $NAME.
func cmdServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: server NAME FLAGS...")
	}
	s, err := startServer(ts.MkAbs("."), scriptEnv(ts), args[1:]...)
	ts.Check(err)
	ts.Value(processesKey{}).(map[string]*process)[args[0]] = s
	ts.Defer(s.kill)
	ts.Setenv(args[0], s.url)
	ts.Setenv(args[0]+"_KAFKA", s.kafka)
	ts.Setenv(args[0]+"_OMNIBUS", s.omni)
	ts.Setenv(args[0]+"_SYSLOG", s.syslog)
	ts.Setenv(args[0]+"_WEBHOOK", s.hook)
}

// scriptEnv returns what a process that the script does not start by exec must
// have of the script's environment.
func scriptEnv(ts *testscript.TestScript) []string {
	env := []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME"), "TMPDIR=" + ts.Getenv("TMPDIR"), "GORACE=" + hastyRace}
	for _, name := range []string{"MAINSTEM_CONFIG", "MAINSTEM_MAX_VALUE", "MAINSTEM_TOKEN_FILE", "MAINSTEM_LOG"} {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// cmdEnd ends the server called NAME and demands success, unless it was killed:
// end NAME term|int|kill.
func cmdEnd(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]os.Signal{"term": syscall.SIGTERM, "int": os.Interrupt, "kill": syscall.SIGKILL}
	if neg || len(args) != 2 || signals[args[1]] == nil {
		ts.Fatalf("usage: end NAME term|int|kill")
	}
	s := ts.Value(processesKey{}).(map[string]*process)[args[0]]
	if s == nil {
		ts.Fatalf("no server is called %s", args[0])
	}
	err := s.end(signals[args[1]])
	fmt.Fprint(ts.Stderr(), s.stderr.String())
	if err != nil && args[1] != "kill" {
		ts.Fatalf("server %s: %v\n%s", args[0], err, s.stderr.String())
	}
}

// cmdStatus runs a command and demands its exit status: status 3 mainstem kv get ...
func cmdStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// cmdFetch shows the answer to a GET: fetch STATUS URL [HEADER VALUE].
func cmdFetch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 && len(args) != 4 {
		ts.Fatalf("usage: fetch STATUS URL [HEADER VALUE]")
	}
	header := http.Header{}
	if len(args) == 4 {
		header.Set(args[2], args[3])
	}
	req, err := http.NewRequest(http.MethodGet, args[1], nil)
	ts.Check(err)
	req.Header = header
	showAnswer(ts, req, args[0])
}

// showAnswer sends a request, shows the body of the answer and demands its status.
func showAnswer(ts *testscript.TestScript, req *http.Request, want string) {
	status, body, err := roundTrip(req)
	ts.Check(err)
	fmt.Fprint(ts.Stdout(), body)
	if strconv.Itoa(status) != want {
		ts.Fatalf("status %d, want %s: %s", status, want, body)
	}
}

// roundTrip returns the answer to a request and leaves no connection behind.
func roundTrip(req *http.Request) (status int, body string, err error) {
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// cmdCertificate writes cert.pem and key.pem for 127.0.0.1.
func cmdCertificate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: certificate")
	}
	ts.Check(servertest.WriteCertificate(ts.MkAbs("cert.pem"), ts.MkAbs("key.pem")))
}

// cmdBinary writes a file of bytes given as numbers: binary FILE N...
func cmdBinary(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: binary FILE N...")
	}
	var content []byte
	for _, a := range args[1:] {
		n, err := strconv.ParseUint(a, 10, 8)
		ts.Check(err)
		content = append(content, byte(n))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), content, 0o600))
}

// cmdSize demands the size of a file in bytes: size FILE N.
func cmdSize(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: size FILE N")
	}
	if got := strconv.Itoa(len(ts.ReadFile(args[0]))); got != args[1] {
		ts.Fatalf("%s has %s bytes, want %s", args[0], got, args[1])
	}
}

// cmdAwait waits until the answer to a GET holds a text: await URL TEXT.
func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await URL TEXT")
	}
	req, err := http.NewRequest(http.MethodGet, args[0], nil)
	ts.Check(err)
	last := ""
	ok := eventually(func() bool {
		_, body, err := roundTrip(req)
		ts.Check(err)
		last = body
		return strings.Contains(body, args[1])
	})
	if !ok {
		ts.Fatalf("%s never said %q: %s", args[0], args[1], last)
	}
}

// eventually asks again until the answer is yes, or its patience ends.
func eventually(yes func() bool) bool {
	for begin := time.Now(); time.Since(begin) < testkit.Patience; time.Sleep(5 * time.Millisecond) {
		if yes() {
			return true
		}
	}
	return false
}

// largest returns the largest file that matches a pattern, and its content.
func largest(ts *testscript.TestScript, args []string) (path string, content []byte) {
	if len(args) != 1 {
		ts.Fatalf("usage: flip|cut PATTERN")
	}
	files, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	for _, f := range files {
		b, err := os.ReadFile(f)
		ts.Check(err)
		if len(b) > len(content) {
			path, content = f, b
		}
	}
	if path == "" {
		ts.Fatalf("no file matches %s", args[0])
	}
	return path, content
}

// cmdFlip changes one bit early in the largest file that matches: flip PATTERN.
func cmdFlip(ts *testscript.TestScript, _ bool, args []string) {
	path, b := largest(ts, args)
	b[len(b)/10] ^= 1
	ts.Check(os.WriteFile(path, b, 0o600))
}

// cmdCut removes the second half of the largest file that matches: cut PATTERN.
func cmdCut(ts *testscript.TestScript, _ bool, args []string) {
	path, b := largest(ts, args)
	ts.Check(os.Truncate(path, int64(len(b)/2)))
}
