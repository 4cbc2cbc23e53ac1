//go:build unix

package testpostgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// How long a server may take.
const (
	startTimeout = 60 * time.Second
	pollEvery    = 10 * time.Millisecond
)

// Options are those of a server. Nil and zero fields mean the defaults.
type Options struct {
	// Fast turns fsync off: the server survives the crash of a process, not of the machine.
	Fast bool
	// Settings are added to the configuration, as in "wal_writer_delay": "50ms".
	Settings map[string]string
}

// Server is a PostgreSQL server with data of its own. Its methods must not be called
// at the same time, but for [Server.URL].
type Server struct {
	dir      string
	account  account
	programs programs
	settings []string
	databases

	run struct {
		sync.Mutex
		cmd  *exec.Cmd // nil: it does not run
		calm func() error
	}
}

// Start starts a server that is stopped, and removed with its data, when the test ends.
func Start(t testing.TB, o *Options) *Server {
	t.Helper()
	s, err := start(context.WithoutCancel(t.Context()), o)
	if err != nil {
		t.Fatalf("start PostgreSQL: %v", err)
	}
	t.Cleanup(func() {
		if err := s.remove(); err != nil {
			t.Errorf("stop PostgreSQL: %v", err)
		}
	})
	return s
}

func start(ctx context.Context, o *Options) (s *Server, err error) {
	if o == nil {
		o = &Options{}
	}
	s = &Server{}
	if s.programs, err = findPrograms(); err != nil {
		return nil, err
	}
	if s.account, err = serverAccount(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "pg"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.remove())
		}
	}()
	if err := s.account.own(s.dir); err != nil {
		return nil, err
	}
	s.settings = settings(o)
	initdb := s.account.command(s.dir, s.programs.initdb, "--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", s.data())
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", s.programs.initdb, err, out)
	}
	return s, s.start(ctx)
}

// settings are the arguments of the server.
func settings(o *Options) []string {
	all := map[string]string{
		"listen_addresses": "", "max_connections": "200", "shared_buffers": "64MB", "max_wal_size": "1GB",
		"log_min_messages": "warning", "dynamic_shared_memory_type": "mmap", "autovacuum_naptime": "10s",
	}
	if o.Fast {
		all["fsync"], all["full_page_writes"] = "off", "off"
	}
	maps.Copy(all, o.Settings)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, "-c", name+"="+all[name])
	}
	return out
}

func (s *Server) data() string    { return filepath.Join(s.dir, "data") }
func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

// URL returns the connection string of a database.
func (s *Server) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/" + database}
	u.RawQuery = url.Values{"host": {s.dir}, "port": {"5432"}}.Encode()
	return u.String()
}

// Crash stops the server as if its processes were killed at once: nothing is written
// any more, connections break. What was fsynced is there after [Server.Restart].
func (s *Server) Crash(t testing.TB) {
	t.Helper()
	if err := s.stop(syscall.SIGQUIT); err != nil {
		t.Fatalf("crash PostgreSQL: %v", err)
	}
}

// Stop stops the server in order: it ends connections and writes a checkpoint.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if err := s.stop(syscall.SIGINT); err != nil {
		t.Fatalf("stop PostgreSQL: %v", err)
	}
}

// Restart starts a server that was stopped, and waits until it takes connections.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.start(t.Context()); err != nil {
		t.Fatalf("restart PostgreSQL: %v", err)
	}
}

func (s *Server) start(ctx context.Context) error {
	s.run.Lock()
	defer s.run.Unlock()
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := s.account.command(s.dir, s.programs.postgres, append([]string{"-D", s.data(), "-k", s.dir, "-p", "5432"}, s.settings...)...)
	cmd.Stdout, cmd.Stderr = log, log // files: no goroutine has to copy
	if err := cmd.Start(); err != nil {
		return err
	}
	calm, err := watchdog(cmd.Process.Pid, s.dir)
	if err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	s.run.cmd, s.run.calm = cmd, calm
	return s.ready(ctx)
}

// ready waits until the server answers.
func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := s.connect(ctx, "postgres", func(*pgx.Conn) error { return nil })
		if err == nil {
			return nil
		}
		if gone(s.run.cmd.Process.Pid) {
			return fmt.Errorf("the server ended while it started: %s", s.tail())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("no answer after %v: %w: %s", startTimeout, err, s.tail())
		}
	}
}

// gone reports whether a child has ended. It stays a zombie for Wait.
func gone(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false // not Linux, or not known: the timeout decides
	}
	i := bytes.LastIndexByte(b, ')')
	return i >= 0 && i+2 < len(b) && b[i+2] == 'Z'
}

// tail returns the end of the server's log.
func (s *Server) tail() string {
	b, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2000):])
}

func (s *Server) stop(how syscall.Signal) error {
	s.run.Lock()
	defer s.run.Unlock()
	if s.run.cmd == nil {
		return nil
	}
	err := s.run.cmd.Process.Signal(how)
	if werr := s.run.cmd.Wait(); werr != nil && !errors.As(werr, new(*exec.ExitError)) {
		err = errors.Join(err, werr)
	}
	err = errors.Join(err, s.run.calm())
	s.run.cmd, s.run.calm = nil, nil
	return err
}

// remove stops the server and removes everything.
func (s *Server) remove() error {
	return errors.Join(s.stop(syscall.SIGQUIT), os.RemoveAll(s.dir))
}

// connect calls f with a connection to a database.
func (s *Server) connect(ctx context.Context, database string, f func(c *pgx.Conn) error) error {
	c, err := pgx.Connect(ctx, s.URL(database))
	if err != nil {
		return err
	}
	return errors.Join(f(c), c.Close(ctx))
}
