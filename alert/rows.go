package alert

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"iter"
	"sync"

	"github.com/mainstemdev/mainstem"
)

// prefetch is how many rows a result takes from SQLite at a time.
const prefetch = 256

// Rows is the result of a query: the rows at one moment. It is read by one
// goroutine at a time and must be closed, unless it was read to its end. Reading
// slowly holds nobody up: see [Options.MaxResultBytes].
type Rows struct {
	h        *header
	c        *cursor
	affected int64
	result   Result
	table    *table
	row      Row
	err      error
	ctx      context.Context
}

// Columns returns the columns of the result: none if the statement has no
// result. Do not change the slice.
func (r *Rows) Columns() []Column {
	if r.h == nil {
		return nil
	}
	return r.h.columns
}

// Table returns the database and the name of the table that the result is from:
// empty if it is from none, or from several.
func (r *Rows) Table() (database, name string) {
	if r.table == nil {
		return "", ""
	}
	return r.table.Database, r.table.Name
}

// Result returns what the statement changed; of a SELECT that was read to its
// end, Affected is the number of rows.
func (r *Rows) Result() Result {
	res := r.result
	if r.h != nil {
		res.Affected = r.affected
	}
	return res
}

// Next moves to the next row: false at the end, and on errors (see Err).
func (r *Rows) Next() bool {
	if r.c == nil || r.err != nil {
		return false
	}
	values, err := r.c.next(r.ctx)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			r.err = err
		}
		return false
	}
	r.affected++
	r.row = Row{h: r.h, values: values}
	return true
}

// Row returns the row that Next moved to. It belongs to the caller.
func (r *Rows) Row() Row { return r.row }

// Err returns what ended the rows before their end, if anything did.
func (r *Rows) Err() error { return r.err }

// Close ends the result and returns what Err returns. Closing twice is allowed.
func (r *Rows) Close() error {
	if r.c != nil {
		r.c.close()
	}
	return r.err
}

// All yields the rows that are left, and closes the result.
func (r *Rows) All() iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		defer func() { _ = r.Close() }()
		for r.Next() {
			if !yield(r.row, nil) {
				return
			}
		}
		if r.err != nil {
			yield(Row{}, r.err)
		}
	}
}

// Collect returns the rows that are left, and closes the result.
func (r *Rows) Collect() ([]Row, error) {
	var out []Row
	for row, err := range r.All() {
		if err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, nil
}

// cursor is an open result of SQLite. Rows are taken from it with the gate held,
// by its reader or, before a transaction ends, by the writer.
type cursor struct {
	m     *mirror
	types []Type
	mu    sync.Mutex // guards the rest

	conn  *conn       // nil once everything was taken
	rows  driver.Rows // nil once everything was taken
	row   []driver.Value
	ready []Value // rows that were taken and not read
	at    int
	bytes int   // in ready
	err   error // why rows are missing at the end
}

// open runs a query and takes its first rows.
func (m *mirror) open(ctx context.Context, types []Type, sql string, args []driver.Value) (*cursor, error) {
	c, err := m.acquire(ctx)
	if err != nil {
		return nil, err
	}
	cur := &cursor{m: m, types: types, conn: c, row: make([]driver.Value, len(types))}
	m.gate.RLock()
	defer m.gate.RUnlock()
	cur.mu.Lock()
	defer cur.mu.Unlock()
	if cur.rows, err = c.query(ctx, sql, args...); err != nil {
		m.readers <- c
		if ctx.Err() != nil {
			return nil, canceled(ctx)
		}
		return nil, invalid("%w", err)
	}
	cur.take(prefetch)
	if cur.err != nil {
		return nil, cur.err
	}
	if cur.rows != nil {
		m.cursors.Lock()
		m.cursors.open[cur] = struct{}{}
		m.cursors.Unlock()
	}
	return cur, nil
}

// take reads up to n rows. The gate and mu are held.
func (c *cursor) take(n int) {
	for range n {
		err := c.rows.Next(c.row)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				c.err = invalid("%w", err)
			}
			c.release()
			return
		}
		if c.ready == nil {
			c.ready = make([]Value, 0, firstRows*len(c.row))
		}
		for i := range c.row {
			v := fromSQL(c.row[i], c.types[i])
			c.bytes += len(v.s) + valueBytes
			c.ready = append(c.ready, v)
		}
	}
}

// firstRows is how many rows there is room for at first.
const firstRows = 10

// valueBytes is what a value takes besides its text.
const valueBytes = 32

// release gives the connection back. mu is held.
func (c *cursor) release() {
	if c.rows == nil {
		return
	}
	if err := c.rows.Close(); err != nil && c.err == nil {
		c.err = broken("closing a result", err)
	}
	c.rows = nil
	c.m.readers <- c.conn
	c.conn = nil
}

// drain takes everything that is left. The gate is held.
func (c *cursor) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.rows != nil {
		if c.bytes > c.m.maxResult {
			c.err = fail(mainstem.KindUnavailable, "the result has more than %d bytes and was read too slowly: ask for less, or raise MaxResultBytes", c.m.maxResult)
			c.release()
			return
		}
		c.take(prefetch)
	}
}

// next returns the values of the next row, or io.EOF.
func (c *cursor) next(ctx context.Context) ([]Value, error) {
	if ctx.Err() != nil {
		return nil, canceled(ctx)
	}
	c.mu.Lock()
	values, more := c.pop()
	err := c.err
	c.mu.Unlock()
	switch {
	case values != nil:
		return values, nil
	case !more && err != nil:
		return nil, err
	case !more:
		return nil, io.EOF
	}
	c.m.gate.RLock()
	c.mu.Lock()
	if c.rows != nil { // the writer may have been faster
		c.take(prefetch)
	}
	gone := c.rows == nil
	c.mu.Unlock()
	c.m.gate.RUnlock()
	if gone {
		c.forget()
	}
	return c.next(ctx)
}

// pop takes a row from those that are ready; more reports whether SQLite has
// more. mu is held. A row without columns does not exist.
func (c *cursor) pop() (values []Value, more bool) {
	if n := len(c.types); c.at+n <= len(c.ready) && n > 0 {
		values = c.ready[c.at : c.at+n : c.at+n]
		for i := range values {
			c.bytes -= len(values[i].s) + valueBytes
		}
		c.at += n
		if c.at == len(c.ready) {
			c.ready, c.at = nil, 0 // the rows belong to the reader now
		}
		return values, true
	}
	return nil, c.rows != nil
}

func (c *cursor) forget() {
	c.m.cursors.Lock()
	delete(c.m.cursors.open, c)
	c.m.cursors.Unlock()
}

func (c *cursor) close() {
	c.forget()
	c.m.gate.RLock()
	defer c.m.gate.RUnlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release()
	c.ready, c.at = nil, 0
}
