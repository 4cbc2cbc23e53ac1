package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// interpreter returns the path of a program that runs clients in another language, which must have
// these modules of Python. On a machine without them the test is skipped, and says so; with CI
// set it fails.
func interpreter(t *testing.T, name string, modules ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil && len(modules) > 0 {
		name += " with the modules " + strings.Join(modules, ", ")
		err = exec.Command(path, "-c", "import "+strings.Join(modules, ", ")).Run()
	}
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
}

func TestPythonOrders(t *testing.T) {
	python := interpreter(t, "python3")
	testOrders(t, func(args ...string) *exec.Cmd {
		cmd := exec.Command(python, append([]string{"-B", clientPath(t, "python", "order_service.py")}, args...)...)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+clientPath(t, "python"))
		return cmd
	})
}

func TestTypeScriptClient(t *testing.T) {
	node := interpreter(t, "node")
	testClient(t, exec.Command(node, "--test", clientPath(t, "typescript", "mainstem.test.js")))
}

func TestTypeScriptOrders(t *testing.T) {
	node := interpreter(t, "node")
	testOrders(t, func(args ...string) *exec.Cmd {
		return exec.Command(node, append([]string{clientPath(t, "typescript", "order_service.js")}, args...)...)
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
