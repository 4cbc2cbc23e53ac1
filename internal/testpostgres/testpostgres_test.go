package testpostgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/internal/testkit"
)

// childEnv makes the test binary a process that starts a server and waits to be killed.
const childEnv = "TESTPOSTGRES_CHILD"

func TestMain(m *testing.M) { goleak.VerifyTestMain(Main(m)) }

func exec1(t *testing.T, url, sql string) error {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(t.Context()))
	_, err = c.Exec(t.Context(), sql)
	return err
}

func TestEachTestHasItsOwnDatabase(t *testing.T) {
	one, two := DB(t), DB(t)
	if one == two {
		t.Fatalf("two databases with the URL %s", one)
	}
	for _, url := range []string{one, two} {
		if err := exec1(t, url, "CREATE TABLE t (i int)"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFastServerDoesNotSync(t *testing.T) {
	for want, url := range map[string]string{"on": DB(t), "off": FastDB(t)} {
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if err := c.QueryRow(t.Context(), "SHOW fsync").Scan(&got); err != nil || got != want {
			t.Errorf("fsync is %q, %v; want %q", got, err, want)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestCrashAndRestart(t *testing.T) {
	s := Start(t, nil)
	url := s.DB(t)
	if err := exec1(t, url, "CREATE TABLE t (i int)"); err != nil {
		t.Fatal(err)
	}
	for _, stop := range []func(testing.TB){s.Crash, s.Stop} {
		stop(t)
		if err := exec1(t, url, "SELECT 1"); err == nil {
			t.Fatal("a stopped server answers")
		}
		s.Restart(t)
		if err := exec1(t, url, "INSERT INTO t VALUES (1)"); err != nil {
			t.Fatalf("what was committed is gone after a crash: %v", err)
		}
	}
}

func TestNewestInstalled(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"9", "14", "16"} {
		bin := dir + "/" + version + "/bin"
		if err := os.MkdirAll(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, program := range []string{"initdb", "postgres"} {
			if version == "16" && program == "initdb" {
				continue // only clients are installed
			}
			if err := os.WriteFile(bin+"/"+program, nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	p, ok := newestInstalled([]string{dir + "/*/bin"})
	if !ok || p.initdb != dir+"/14/bin/initdb" || p.postgres != dir+"/14/bin/postgres" {
		t.Errorf("found %+v, %v: want those of version 14", p, ok)
	}
	if _, ok := newestInstalled([]string{dir + "/none/*"}); ok {
		t.Error("found programs where there are none")
	}
}

// A process that is killed must not leave its server or files behind.
func TestNothingOutlivesAKill(t *testing.T) {
	child := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.v")
	child.Env = append(os.Environ(), childEnv+"=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var dir string
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		if i := strings.Index(lines.Text(), "serving "); i >= 0 {
			if _, err := fmt.Sscanf(lines.Text()[i:], "serving %d %s", &pid, &dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	if pid == 0 {
		t.Fatal("the child has not started a server")
	}
	testkit.Eventually(t, "the server is gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	testkit.Eventually(t, "its files are gone", func() bool { _, err := os.Stat(dir); return errors.Is(err, fs.ErrNotExist) })
}

// TestChild is the process of TestNothingOutlivesAKill; otherwise it does nothing.
func TestChild(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		return
	}
	s := Start(t, &Options{Fast: true})
	fmt.Fprintf(os.Stdout, "serving %d %s\n", s.run.cmd.Process.Pid, s.dir)
	select {} // until it is killed
}
