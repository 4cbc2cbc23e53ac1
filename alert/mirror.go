package alert

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite"

	"github.com/mainstemdev/mainstem/alert/osql"
	"github.com/mainstemdev/mainstem/internal/budget"
)

// mirror is the rows of all tables in a SQLite database in memory. One
// connection writes, the others read. They share the pages of the
// database: nothing is copied from one to the other, and what is written costs no
// reader its cache. For that, SQLite looks for a row for one of them at a time: a query
// that walks a large table to find its next row holds the others up.
//
// The gate makes transactions and the reading of rows exclude each other, as
// SQLite wants of connections that share pages. A transaction is short: it begins when its
// rows are in the log already. Nobody waits for a slow reader: before it begins, the
// writer takes what open results still have to give into memory, or ends those for which
// there is none.
//
// Lock order: gate, cursors.Mutex, cursor.mu.
type mirror struct {
	gate    sync.RWMutex
	writer  *conn
	readers chan *conn
	all     []*conn

	cursors struct {
		sync.Mutex
		open    map[*cursor]struct{}
		waiting int // calls of acquire. Invariant: open does not grow while there are some
	}
	maxResult int            // bytes of one result that is taken into memory
	memory    *budget.Budget // of all of them; nil: without a limit

	undo   undo             // of the next transaction; with the gate
	shapes map[shape]string // of the writer
	args   []driver.Value   // the writer's scratch
}

// mirrors numbers the databases in memory of this process.
var mirrors atomic.Int64

const maxReaders = 8

func openMirror(ctx context.Context, maxResult int, memory *budget.Budget) (m *mirror, err error) {
	if err := register(); err != nil {
		return nil, broken("registering functions with SQLite", err)
	}
	n := min(maxReaders, max(2, runtime.GOMAXPROCS(0)))
	m = &mirror{readers: make(chan *conn, n), maxResult: maxResult, memory: memory, undo: undoable, shapes: map[shape]string{}}
	m.cursors.open = map[*cursor]struct{}{}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	connector, err := sqlite.NewConnector(fmt.Sprintf("file:mainstem-alert-%d?mode=memory&cache=shared", mirrors.Add(1)))
	if err != nil {
		return nil, broken("opening a database in memory", err)
	}
	for i := range n + 1 {
		c, err := connector.Connect(ctx)
		if err != nil {
			return nil, broken("opening a database in memory", err)
		}
		k := &conn{Conn: c, prepared: map[string]driver.Stmt{}}
		m.all = append(m.all, k)
		if err := k.prepareMirror(ctx, i == 0); err != nil {
			return nil, broken("preparing a database in memory", err)
		}
		if i == 0 {
			m.writer = k
		} else {
			m.readers <- k
		}
	}
	return m, nil
}

// pageSize is that of the mirror. When siblings in a tree are balanced, SQLite looks
// through a table of all pages at the end of the transaction; with large pages they are
// few, balancing is rare, and the memory between them is a twentieth instead of a half.
const pageSize = "page_size=65536"

// prepareMirror sets the connection up.
func (c *conn) prepareMirror(ctx context.Context, writer bool) error {
	pragmas := []string{pageSize, "synchronous=OFF", "journal_mode=MEMORY", "temp_store=MEMORY"}
	if writer {
		pragmas = append(pragmas, "cache_spill=OFF")
	} else {
		pragmas = append(pragmas, "query_only=ON")
	}
	for _, p := range pragmas {
		if err := c.each(ctx, func([]driver.Value) error { return nil }, "PRAGMA "+p); err != nil {
			return err
		}
	}
	return c.forget()
}

func (m *mirror) close() error {
	m.gate.Lock()
	defer m.gate.Unlock()
	m.drainAll()
	var errs []error
	for _, c := range m.all {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}

// undo says whether a transaction of the mirror can be taken back. That costs a
// copy of every page that it changes.
type undo bool

const (
	// final transactions cannot: when one fails, the mirror is lost.
	final    undo = false
	undoable undo = true
)

// begin shuts the gate and begins a transaction: readers wait until commit or
// rollback opens it again.
func (m *mirror) begin(ctx context.Context, u undo) error {
	m.gate.Lock()
	m.drainAll()
	err := m.journal(ctx, u)
	if err == nil {
		_, err = m.writer.exec(ctx, "BEGIN IMMEDIATE")
	}
	if err != nil {
		m.gate.Unlock()
		return err
	}
	return nil
}

// journal has SQLite keep what it needs to take the next transactions back, or not.
func (m *mirror) journal(ctx context.Context, u undo) error {
	if m.undo == u {
		return nil
	}
	mode := "OFF"
	if u == undoable {
		mode = "MEMORY"
	}
	got := ""
	err := m.writer.each(ctx, func(row []driver.Value) error {
		got = fromSQL(row[0], osql.Varchar).s
		return nil
	}, "PRAGMA journal_mode="+mode)
	if err == nil && !strings.EqualFold(got, mode) {
		err = fmt.Errorf("SQLite keeps the journal mode %s instead of %s", got, mode)
	}
	if err == nil {
		m.undo = u
	}
	return err
}

// commit makes the transaction visible to readers, after inside has run.
func (m *mirror) commit(ctx context.Context, inside ...func()) error {
	defer m.gate.Unlock()
	if _, err := m.writer.exec(ctx, "COMMIT"); err != nil {
		return err
	}
	for _, f := range inside {
		f()
	}
	return nil
}

// rollback takes the transaction back; a final one it only ends.
func (m *mirror) rollback(ctx context.Context) error {
	defer m.gate.Unlock()
	_, err := m.writer.exec(ctx, "ROLLBACK")
	return err
}

// drainAll takes the rest of all open results into memory. The gate is held.
func (m *mirror) drainAll() {
	m.cursors.Lock()
	defer m.cursors.Unlock()
	for c := range m.cursors.open {
		c.drain()
	}
	clear(m.cursors.open)
}

// acquire returns a connection for reading. If open results hold them all, one
// is taken into memory, or ends for lack of it. Another query may be given its connection;
// that one does not keep it then, see [mirror.register].
func (m *mirror) acquire(ctx context.Context) (*conn, error) {
	select {
	case c := <-m.readers:
		return c, nil
	default:
	}
	m.gate.RLock()
	m.cursors.Lock()
	m.cursors.waiting++
	for c := range m.cursors.open {
		c.drain()
		delete(m.cursors.open, c)
		break
	}
	m.cursors.Unlock()
	m.gate.RUnlock()
	defer func() {
		m.cursors.Lock()
		m.cursors.waiting--
		m.cursors.Unlock()
	}()
	select {
	case c := <-m.readers:
		return c, nil
	case <-ctx.Done():
		return nil, canceled(ctx)
	}
}

// register notes that c keeps its connection until it is read, unless somebody waits for one.
func (m *mirror) register(c *cursor) bool {
	m.cursors.Lock()
	defer m.cursors.Unlock()
	if m.cursors.waiting > 0 {
		return false
	}
	m.cursors.open[c] = struct{}{}
	return true
}

// createTable makes the mirror of t, without its indexes if bare.
func (m *mirror) createTable(ctx context.Context, t *table, bare bool) error {
	columns := []string{osql.RowID + " INTEGER PRIMARY KEY", osql.Version + " INTEGER NOT NULL"}
	for i := range t.Columns {
		columns = append(columns, mirrorColumn(&t.Columns[i]))
	}
	if _, err := m.writer.exec(ctx, fmt.Sprintf("CREATE TABLE %s (%s)", t.mirror(), strings.Join(columns, ", "))); err != nil {
		return err
	}
	if bare {
		return nil
	}
	return m.createIndexes(ctx, t)
}

func mirrorColumn(c *Column) string {
	typ := "INTEGER NOT NULL DEFAULT 0"
	switch {
	case c.Type.Text():
		typ = "TEXT NOT NULL DEFAULT ''"
	case c.Type == osql.Real:
		typ = "REAL NOT NULL DEFAULT 0"
	}
	return osql.MirrorColumn(c) + " " + typ
}

func (m *mirror) createIndexes(ctx context.Context, t *table) error {
	var keys []string
	for _, i := range t.keys {
		keys = append(keys, osql.MirrorColumn(&t.Columns[i]))
	}
	if _, err := m.writer.exec(ctx, fmt.Sprintf("CREATE UNIQUE INDEX %s_key ON %[1]s (%s)", t.mirror(), strings.Join(keys, ", "))); err != nil {
		return err
	}
	for i := range t.indexes {
		if err := m.createIndex(ctx, t, &t.indexes[i]); err != nil {
			return err
		}
	}
	return nil
}

func (m *mirror) createIndex(ctx context.Context, t *table, x *index) error {
	var columns []string
	for _, id := range x.Columns {
		columns = append(columns, osql.MirrorColumn(&Column{ID: id}))
	}
	_, err := m.writer.exec(ctx, fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (%s)", x.mirror(t), t.mirror(), strings.Join(columns, ", ")))
	return err
}

// mirror returns the name of the index in SQLite: indexes of the same columns
// are one.
func (x *index) mirror(t *table) string {
	s := t.mirror()
	for _, id := range x.Columns {
		s += fmt.Sprintf("_%d", id)
	}
	return s
}

// change brings the mirror from old, nil if there was none, to t, nil if there
// is none any more. The mirrors of dropped columns stay until the server is
// opened anew: nothing names them.
func (m *mirror) change(ctx context.Context, old, t *table) error {
	if old != nil && (t == nil || t.ID != old.ID) {
		if _, err := m.writer.exec(ctx, "DROP TABLE "+old.mirror()); err != nil {
			return err
		}
		old = nil
	}
	if t == nil {
		return nil
	}
	if old == nil {
		return m.createTable(ctx, t, false)
	}
	for _, x := range old.indexes { // first: a column may only go when no index needs it
		if !t.hasIndex(x.Columns) {
			if _, err := m.writer.exec(ctx, "DROP INDEX IF EXISTS "+x.mirror(t)); err != nil {
				return err
			}
		}
	}
	for i := range t.Columns {
		if _, ok := old.column[t.Columns[i].ID]; !ok {
			if _, err := m.writer.exec(ctx, fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s", t.mirror(), mirrorColumn(&t.Columns[i]))); err != nil {
				return err
			}
		}
	}
	for i := range t.indexes {
		if err := m.createIndex(ctx, t, &t.indexes[i]); err != nil {
			return err
		}
	}
	return nil
}
