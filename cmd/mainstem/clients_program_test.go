package main

import (
	"bufio"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// clientOrders is how many orders the example of a client places while its server is killed.
const clientOrders = "40"

// interpreter returns the path of a program that runs clients in another language. On a machine
// without it the test is skipped, and says so; with CI set it fails.
func interpreter(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("the clients need %s: %v", name, err)
	default:
		t.Skipf("SKIPPED, NOT TESTED: the client needs %s: %v", name, err)
	}
	return path
}

// clientPath is a file of the clients.
func clientPath(t *testing.T, parts ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{"..", "..", "clients"}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPythonClient(t *testing.T) {
	python := interpreter(t, "python3")
	testClient(t, exec.Command(python, "-B", "-m", "unittest", "discover", "-s", clientPath(t, "python", "tests")))
	testOrders(t, func(url string) *exec.Cmd {
		cmd := exec.Command(python, "-B", clientPath(t, "python", "order_service.py"), url, clientOrders)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+clientPath(t, "python"))
		return cmd
	})
}

func TestTypeScriptClient(t *testing.T) {
	node := interpreter(t, "node")
	testClient(t, exec.Command(node, "--test", clientPath(t, "typescript", "mainstem.test.js")))
	testOrders(t, func(url string) *exec.Cmd {
		return exec.Command(node, clientPath(t, "typescript", "order_service.js"), url, clientOrders)
	})
}

// testClient runs the tests of a client on a server of their own.
func testClient(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	s, err := startServer(t.TempDir(), os.Environ(), "--log", "memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer s.kill()
	cmd.Env = append(os.Environ(), "MAINSTEM_URL="+s.url)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}

// testOrders runs the example of a client, and kills the server with SIGKILL three times
// meanwhile. Every order is made once.
func testOrders(t *testing.T, example func(url string) *exec.Cmd) {
	t.Helper()
	dir := t.TempDir()
	s, err := startServer(dir, os.Environ(), "--log", "data", "--durability", "os")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.kill() }()
	at, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	cmd := example(s.url)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	overdue := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	defer overdue.Stop()
	last := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch last = lines.Text(); last {
		case "placed 10", "placed 20", "placed 30":
			s.kill()
			if s, err = startServer(dir, os.Environ(), "--log", "data", "--durability", "os", "--listen", at.Host); err != nil {
				err = errors.Join(err, cmd.Process.Kill())
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, complaints.String())
	}
	if want := "stock 0, events " + clientOrders + ", mails " + clientOrders; last != want {
		t.Errorf("the orders end with %q, want %q", last, want)
	}
}
