package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/server"
)

// result is what a command line did.
type result struct {
	status      int
	out, errors string
}

// run runs a command line in this process, on nothing but what change gives it.
func run(ctx context.Context, change func(*cli.Main), line ...string) result {
	var out, errs testkit.Lines
	m := &cli.Main{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}
	if change != nil {
		change(m)
	}
	status := m.Run(ctx, program(m), line)
	return result{status, out.String(), errs.String()}
}

func startNode(t *testing.T) *server.Server {
	t.Helper()
	c := server.DefaultConfig()
	c.Log, c.Listen = server.Memory, "127.0.0.1:0"
	n, err := server.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestLogOfACommandThatNamesNone(t *testing.T) {
	t.Chdir(t.TempDir())
	put := []string{"kv", "put", "users", "1", "x"}

	// A server that answers is used.
	n := startNode(t)
	local := func(m *cli.Main) { m.LocalServer, m.ProbeTime = n.URL(), testkit.Patience }
	if r := run(t.Context(), local, put...); r.status != cli.ExitOK {
		t.Fatalf("%+v", r)
	}
	if _, err := n.Log().Get(t.Context(), "kv/default/users", []byte("1")); err != nil {
		t.Errorf("the server did not get it: %v", err)
	}
	if isThere(server.DefaultLog) {
		t.Error("a directory was created although a server answers")
	}
	// The variable is stronger, and a flag stronger still.
	env := func(m *cli.Main) { local(m); m.Env = []string{"MAINSTEM_LOG=here"} }
	if r := run(t.Context(), env, put...); r.status != cli.ExitOK || !isThere("here") {
		t.Errorf("with MAINSTEM_LOG: %+v", r)
	}
	if r := run(t.Context(), env, append(put, "--log", "there")...); r.status != cli.ExitOK || !isThere("there") {
		t.Errorf("with --log: %+v", r)
	}
	// Without a server, the directory.
	nobody := func(m *cli.Main) { m.LocalServer, m.ProbeTime = "http://127.0.0.1:1", testkit.Patience }
	if r := run(t.Context(), nobody, "kv", "get", "users", "1"); r.status != cli.ExitNotFound || isThere(server.DefaultLog) {
		t.Errorf("reading: %+v", r)
	}
	if r := run(t.Context(), nobody, put...); r.status != cli.ExitOK || !isThere(server.DefaultLog) {
		t.Errorf("writing: %+v", r)
	}
}

// TestServerThatMayBeThere: a write goes to no directory while there may be a server.
func TestServerThatMayBeThere(t *testing.T) {
	t.Chdir(t.TempDir())
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secure.StartTLS()
	defer secure.Close()
	for url, wait := range map[string]time.Duration{
		"http://" + silent.Addr().String():                    time.Millisecond,
		strings.Replace(secure.URL, "https://", "http://", 1): testkit.Patience,
	} {
		local := func(m *cli.Main) { m.LocalServer, m.ProbeTime = url, wait }
		for _, line := range [][]string{{"kv", "put", "users", "1", "x"}, {"kv", "get", "users", "1"}} {
			r := run(t.Context(), local, line...)
			if r.status != cli.ExitFailed || !strings.Contains(r.errors, "unavailable: something listens there") || !strings.Contains(r.errors, "; name the log with --log") {
				t.Errorf("%v, %s: %+v", line, url, r)
			}
		}
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	if isThere(server.DefaultLog) {
		t.Fatal("a directory was created")
	}
	local := func(m *cli.Main) { m.LocalServer, m.ProbeTime = other.URL, testkit.Patience }
	if r := run(t.Context(), local, "kv", "put", "users", "1", "x"); r.status != cli.ExitOK || !isThere(server.DefaultLog) {
		t.Errorf("another program: %+v", r)
	}
}

func TestSlowInputIsCommittedAsItComes(t *testing.T) {
	n := startNode(t)
	for name, line := range map[string][]string{
		"import":  {"kv", "import", "seen", "-", "--key", "{{.id}}"},
		"produce": {"topic", "produce", "lines"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "produce" {
				if r := run(t.Context(), nil, "topic", "create", "lines", "--log", n.URL()); r.status != cli.ExitOK {
					t.Fatalf("%+v", r)
				}
			}
			in, feed := io.Pipe()
			before, err := n.Log().Head(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan result, 1)
			go func() {
				done <- run(t.Context(), func(m *cli.Main) { m.Stdin = in }, append(line, "--log", n.URL())...)
			}()
			fmt.Fprintln(feed, `{"id":"1"}`)
			for r, err := range n.Log().Feed(t.Context(), mainstem.Filter{After: before, Follow: true}) {
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Contains(r.Value, []byte(`{"id":"1"}`)) {
					break // the first line is there while the input is still open
				}
			}
			feed.Close()
			if r := <-done; r.status != cli.ExitOK {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestInterruptedImportSaysWhereToGoOn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	ctx, cancel := context.WithCancelCause(t.Context())
	in, feed := io.Pipe()
	defer feed.Close()
	done := make(chan result, 1)
	go func() {
		done <- run(ctx, func(m *cli.Main) { m.Stdin = in }, "kv", "import", "seen", "-", "--key", "{{.id}}", "--batch", "2", "--log", dir)
	}()
	for i := range 6 {
		fmt.Fprintf(feed, "{\"id\":\"%d\"}\n", i) // returns when the import has taken it
	}
	cancel(cli.ErrInterrupted)
	r := <-done
	if r.status != cli.ExitInterrupted {
		t.Fatalf("%+v", r)
	}
	var next int
	if _, err := fmt.Sscanf(r.errors[strings.Index(r.errors, "--from-line"):], "--from-line %d", &next); err != nil {
		t.Fatalf("%v in %q", err, r.errors)
	}
	if next < 1 || next > 7 || !strings.Contains(r.out, fmt.Sprintf("%d written", next-1)) {
		t.Errorf("go on with line %d after %s", next, r.out)
	}
	keys := run(t.Context(), nil, "kv", "list", "seen", "--count", "--log", dir)
	if want := fmt.Sprintf("%d\n", next-1); keys.out != want {
		t.Errorf("the log holds %q keys, want %q", keys.out, want)
	}
	rest := run(t.Context(), func(m *cli.Main) {
		m.Stdin = strings.NewReader("{\"id\":\"0\"}\n{\"id\":\"1\"}\n{\"id\":\"2\"}\n{\"id\":\"3\"}\n{\"id\":\"4\"}\n{\"id\":\"5\"}\n")
	}, "kv", "import", "seen", "-", "--key", "{{.id}}", "--from-line", fmt.Sprint(next), "--log", dir)
	if want := fmt.Sprintf("%d written", 7-next); rest.status != cli.ExitOK || !strings.Contains(rest.out, want) {
		t.Errorf("going on: %+v, want %s", rest, want)
	}
}

func TestProgressIsForPeople(t *testing.T) {
	var lines strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&lines, "{\"id\":\"%d\"}\n", i)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "lines.jsonl")
	if err := os.WriteFile(file, []byte(lines.String()+"bad\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	person := func(m *cli.Main) { m.Terminal = true }
	line := []string{"kv", "import", "b", file, "--key", "{{.id}}", "--log", filepath.Join(dir, "log"), "--skip-bad"}
	if r := run(t.Context(), person, line...); !strings.Contains(r.errors, "importing  ░") || !strings.Contains(r.errors, "line 5001: not JSON") {
		t.Errorf("a person sees %q", r.errors)
	}
	for name, r := range map[string]result{
		"no terminal": run(t.Context(), nil, line...),
		"--quiet":     run(t.Context(), person, append(line, "--quiet")...),
		"--json":      run(t.Context(), person, append(line, "--json")...),
	} {
		if strings.ContainsAny(r.errors, "\r█░\x1b") || r.status != cli.ExitOK {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := run(t.Context(), person, "check", "--log", filepath.Join(dir, "log")); r.status != cli.ExitOK || !strings.HasPrefix(r.out, "ok") {
		t.Errorf("check: %+v", r)
	}
}

// closedPipe is a reader of the output that has gone away.
type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Err: syscall.EPIPE}
}

func TestClosedPipeIsQuiet(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	if r := run(t.Context(), nil, "kv", "put", "b", "k", strings.Repeat("x", 100_000), "--log", dir); r.status != cli.ExitOK {
		t.Fatalf("%+v", r)
	}
	r := run(t.Context(), func(m *cli.Main) { m.Stdout = closedPipe{} }, "kv", "list", "b", "--log", dir)
	if r.status != cli.ExitBrokenPipe || r.errors != "" {
		t.Errorf("%+v", r)
	}
	if r := run(t.Context(), nil, "check", "--log", dir); r.status != cli.ExitOK {
		t.Errorf("the log was not closed properly: %+v", r)
	}
}

// isThere reports whether there is something called path.
func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
