package ingest

import (
	"context"
	"errors"
	"slices"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
)

// Sink is where rows go. It may be called from many goroutines. *alert.Session has
// such a method, but for its result: see [OpenServer]; and so has a client of a
// remote server.
type Sink interface {
	// InsertRows inserts rows into a table, "database.table": columns names what the
	// values of each row are for, a string, an int64 or a float64 each. It works like
	// one INSERT: a row whose primary key is there is a reinsert, and updating names the
	// columns that take the new values then; a sink that cannot do that is Unsupported, and
	// is called without. When it returns nil all rows are durable.
	//
	// An error of kind Invalid or Exists means that some row cannot be written, now or
	// later. NotFound means that the table, or a column that some row has something in, is
	// missing: receivers leave out columns that were dropped, see [MappingOptions], else such
	// rows, and an import ends. After any other error the same rows may be inserted again.
	// Rows and values may be kept no longer than the call.
	InsertRows(ctx context.Context, table string, columns []string, rows [][]any, updating ...string) error
}

// insert inserts rows as a mapping says. A sink that knows no updating, as the HTTP
// interface of object servers, inserts without: then an alert that comes again keeps what
// it has in those columns. The columns in gone are left out.
func insert(ctx context.Context, sink Sink, m *Mapping, rows [][]any, gone map[string]bool) error {
	names, values := m.compact(rows, gone)
	updating := slices.DeleteFunc(slices.Clone(m.Updating()), func(name string) bool { return gone[name] })
	err := sink.InsertRows(ctx, m.Table(), names, values, updating...)
	if len(updating) > 0 && errors.Is(err, mainstem.ErrUnsupported) {
		err = sink.InsertRows(ctx, m.Table(), names, values)
	}
	return err
}

// SinkFunc is a function as a [Sink].
type SinkFunc func(ctx context.Context, table string, columns []string, rows [][]any, updating ...string) error

// InsertRows calls f.
func (f SinkFunc) InsertRows(ctx context.Context, table string, columns []string, rows [][]any, updating ...string) error {
	return f(ctx, table, columns, rows, updating...)
}

// App is what a [ServerSink] calls itself: the server treats it as a probe, which
// may send an alert late or twice.
const App = "PROBE"

// ServerSink is a [Sink] that writes to a server in the same process.
type ServerSink struct {
	session *alert.Session
}

// OpenServer returns a sink that writes to server, in a session of its own under the
// name of user. Close it when nobody uses it any more; the server stays the caller's.
func OpenServer(server *alert.Server, user string) *ServerSink {
	return &ServerSink{session: server.Session(alert.SessionInfo{User: user, App: App, Description: "ingest"})}
}

// InsertRows implements [Sink].
func (s *ServerSink) InsertRows(ctx context.Context, table string, columns []string, rows [][]any, updating ...string) error {
	_, err := s.session.InsertRows(ctx, table, columns, rows, updating...)
	return err
}

// Close ends the session. Closing twice is allowed.
func (s *ServerSink) Close() error { return s.session.Close() }

// refused reports whether err is about the rows, and not about the sink: to insert
// them again is of no use.
func refused(err error) bool {
	return errors.Is(err, mainstem.ErrInvalid) || errors.Is(err, mainstem.ErrExists)
}

// misplaced reports whether err is about the rows, or what they are for is missing.
func misplaced(err error) bool { return refused(err) || errors.Is(err, mainstem.ErrNotFound) }

// over reports whether the sink is gone for good.
func over(err error) bool {
	return errors.Is(err, mainstem.ErrClosed) || errors.Is(err, mainstem.ErrUnsupported)
}
