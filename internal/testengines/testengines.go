// Package testengines runs a test body on every engine that this machine can
// start, so that a view is tested on what it will meet.
//
//	func TestPut(t *testing.T) {
//		testengines.Each(t, func(t *testing.T, log mainstem.Log) { ... })
//	}
//
// The engines, in the order in which they are tried:
//
//   - memory: engine/pebblelog in memory, with caches so small that data moves
//     to files within a test, unless it asks for [Large] ones;
//   - model: the reference implementation (package enginetest/model). What fails
//     only here is the fault of the test or of the model;
//   - directory: engine/pebblelog in a directory of its own, removed afterwards;
//   - remote: engine/remotelog, connected to a server in this process;
//   - nats: engine/natslog, on a NATS server in this process;
//   - postgres: engine/pglog, on a PostgreSQL server that the process starts.
//
// The last two run only where the environment variable [Servers] is set, because they take
// several times as long as the others together:
//
//	MAINSTEM_TEST_SERVERS=1 go test ./kv ./event/... ./topic
//
// A test with many steps asks [Rounds] how many there may be on an engine that is slow.
//
// Other tests that need several servers or minutes ask [WithServers].
//
// # Guarantees
//
// Each body has an empty log of its own. When the body ends, the log is checked
// if its engine can check itself (see [mainstem.Checker]); any problem found
// fails the test. Then it is closed. A body may close its log itself; it is not
// checked then.
//
// # Testing
//
// The tests of this package run the whole conformance suite on the engines here.
package testengines

import (
	"os"
	"slices"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pglog"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// Servers is the environment variable that adds the engines on servers of others.
const Servers = "MAINSTEM_TEST_SERVERS"

// WithServers reports whether the tests that need several servers, or minutes, run whole.
// If not it says in the log of the test what is left out.
func WithServers(t testing.TB, leftOut string) bool {
	t.Helper()
	if os.Getenv(Servers) != "" {
		return true
	}
	t.Logf("left out: %s; %s=1 runs it, as step engines of .ci/run does", leftOut, Servers)
	return false
}

// engine is one way to open a log.
type engine struct {
	name string
	open func(t testing.TB, large bool) mainstem.Log
}

// Option changes what [Each] does.
type Option func(*settings)

type settings struct {
	skip  map[string]string // engine to reason
	only  []string
	large bool
}

// Skip leaves out the engine called name. The reason is shown: a skip is loud.
func Skip(name, reason string) Option {
	return func(s *settings) { s.skip[name] = reason }
}

// Only leaves out every engine but those named.
func Only(names ...string) Option {
	return func(s *settings) { s.only = append(s.only, names...) }
}

// Large opens the logs in memory with the memtables and caches that a log has by default, and the one on
// NATS with a stream in files. It is for a body that writes more than small memtables hold, so that data
// moves to files anyway: with tiny ones, to move it from file to file would take most of the time.
func Large() Option {
	return func(s *settings) { s.large = true }
}

// Each runs body as a subtest, named after the engine, on an empty log of each
// engine. An option that names an engine that is not there fails the test.
func Each(t *testing.T, body func(t *testing.T, log mainstem.Log), opts ...Option) {
	t.Helper()
	s := settings{skip: map[string]string{}}
	for _, o := range opts {
		o(&s)
	}
	if unknown := s.unknown(); unknown != "" {
		t.Fatalf("testengines: there is no engine called %q", unknown)
	}
	for _, e := range engines {
		if len(s.only) > 0 && !slices.Contains(s.only, e.name) || slices.Contains(servers, e.name) && os.Getenv(Servers) == "" {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			if reason := s.skip[e.name]; reason != "" {
				t.Skipf("not on %s: %s", e.name, reason)
			}
			body(t, start(t, e, s.large))
		})
	}
}

// Rounds returns n, or a tenth of it where a commit takes milliseconds, and fewer in a short run, see
// [testkit.Rounds]: a test that counts by it stays short on every engine.
func Rounds(log mainstem.Log, n int) int {
	n = testkit.Rounds(n)
	if _, slow := log.(*pglog.Log); slow {
		return max(n/10, 1)
	}
	return n
}

// unknown returns a name in s that no engine has, or "".
func (s *settings) unknown() string {
	names := slices.Clone(s.only)
	for name := range s.skip {
		names = append(names, name)
	}
	for _, name := range names {
		if !slices.ContainsFunc(engines, func(e engine) bool { return e.name == name }) {
			return name
		}
	}
	return ""
}

// Memory returns an empty log in memory, which is checked and closed when the
// test ends.
func Memory(t testing.TB) mainstem.Log {
	t.Helper()
	return start(t, engines[0], false)
}

func start(t testing.TB, e engine, large bool) mainstem.Log {
	t.Helper()
	log := e.open(t, large)
	t.Cleanup(func() { finish(t, log) })
	return log
}
