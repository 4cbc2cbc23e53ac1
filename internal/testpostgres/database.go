//go:build unix

package testpostgres

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// databases names the databases of a server.
type databases struct{ last atomic.Int64 }

// DB makes a new database on the server and returns its URL.
func (s *Server) DB(t testing.TB) string {
	t.Helper()
	url, err := s.create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return url
}

func (s *Server) create(ctx context.Context) (string, error) {
	name := fmt.Sprintf("test%d", s.last.Add(1))
	err := s.connect(ctx, "postgres", func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, "CREATE DATABASE "+name)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("create a database for the test: %w: %s", err, s.tail())
	}
	return s.URL(name), nil
}

// shared is a server for all tests of a process.
type shared struct {
	options Options
	once    sync.Once
	server  *Server
	err     error
}

var durable, fast = &shared{}, &shared{options: Options{Fast: true}}

// database makes a new database on the server, which it starts first if nobody has.
func (s *shared) database(ctx context.Context) (string, error) {
	s.once.Do(func() { s.server, s.err = start(context.WithoutCancel(ctx), &s.options) })
	if s.err != nil {
		return "", fmt.Errorf("start PostgreSQL: %w", s.err)
	}
	return s.server.create(ctx)
}

func (s *shared) mustDatabase(t testing.TB) string {
	t.Helper()
	url, err := s.database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// DB returns the URL of a new, empty database on the server that the process shares.
// The server works as PostgreSQL does by default: commits are durable.
func DB(t testing.TB) string {
	t.Helper()
	return durable.mustDatabase(t)
}

// ExampleDB is [FastDB] for examples, which have no T.
func ExampleDB(ctx context.Context) (string, error) { return fast.database(ctx) }

// FastDB is like [DB], on a server that never waits for the disk.
func FastDB(t testing.TB) string {
	t.Helper()
	return fast.mustDatabase(t)
}

// Runner runs tests, as *testing.M does.
type Runner interface{ Run() int }

// Main returns a runner that runs the tests of m and then stops the servers that they
// shared. It is for TestMain, in os.Exit(testpostgres.Main(m).Run()) or with goleak.
func Main(m Runner) Runner { return suite{m} }

type suite struct{ m Runner }

// Run implements [Runner].
func (s suite) Run() int {
	code := s.m.Run()
	for _, sh := range []*shared{durable, fast} {
		if sh.server == nil {
			continue
		}
		if err := sh.server.remove(); err != nil {
			code = max(code, 1)
		}
	}
	return code
}
