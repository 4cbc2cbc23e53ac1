package alert

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"iter"
	"sync"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
)

// A result takes rows from SQLite until it has blockRows, or blockBytes of memory.
const (
	blockRows  = 256
	blockBytes = 256 << 10
)

// Rows is the result of a query: the rows at one moment. It is read by one
// goroutine at a time and must be closed, unless it was read to its end. Reading
// slowly holds nobody up: see [Options.MaxResultBytes] and [Options.Memory].
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

// cursor is an open result of SQLite. Rows are taken from it with the gate held, a block
// at a time by its reader or, before a transaction begins, all by the writer. What the
// writer takes counts against the memory for results until the reader has read it. The
// writer waits for no memory, as everybody waits for the writer: a result for which there
// is none ends.
type cursor struct {
	m     *mirror
	types []Type
	mu    sync.Mutex // guards the rest

	conn  *conn       // nil once everything was taken
	rows  driver.Rows // nil once everything was taken
	row   []driver.Value
	ready []block     // rows that were taken and not read
	at    int         // of the next value in the first block
	bytes int         // of ready
	hold  budget.Hold // for ready, after the writer has taken the rest; empty before
	err   error       // why rows are missing at the end
}

// block is rows that were taken together.
type block struct {
	values []Value
	bytes  int // of memory, texts included
}

// open runs a query and takes its first rows.
func (m *mirror) open(ctx context.Context, types []Type, sql string, args []driver.Value) (*cursor, error) {
	c, err := m.acquire(ctx)
	if err != nil {
		return nil, err
	}
	return m.openOn(ctx, c, types, sql, args)
}

// openOn is open on a connection, which it gives back.
func (m *mirror) openOn(ctx context.Context, c *conn, types []Type, sql string, args []driver.Value) (cur *cursor, err error) {
	cur = &cursor{m: m, types: types, conn: c, row: make([]driver.Value, len(types)), hold: m.memory.Hold()}
	m.gate.RLock()
	defer m.gate.RUnlock()
	cur.mu.Lock()
	defer cur.mu.Unlock()
	if cur.rows, err = c.query(ctx, sql, args...); err != nil {
		m.readers <- c
		if ctx.Err() != nil {
			return nil, canceled(ctx)
		}
		return nil, mainstem.Refusef(mainstem.KindInvalid, "alert", "%w", err)
	}
	cur.take()
	if cur.err != nil {
		return nil, cur.err
	}
	if cur.rows != nil && !m.register(cur) {
		cur.drainLocked()
	}
	return cur, nil
}

// take reads the next block, and returns what it takes. The gate and mu are held.
func (c *cursor) take() (bytes int) {
	var values []Value
	text := 0
	for n := 0; n < blockRows && len(values)*valueBytes+text < blockBytes; n++ {
		err := c.rows.Next(c.row)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				c.err = mainstem.Refusef(mainstem.KindInvalid, "alert", "%w", err)
			}
			c.release()
			break
		}
		if values == nil {
			values = make([]Value, 0, firstRows*len(c.row))
		}
		for i := range c.row {
			v := fromSQL(c.row[i], c.types[i])
			text += len(v.s)
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0
	}
	bytes = cap(values)*valueBytes + text
	c.ready = append(c.ready, block{values, bytes})
	c.bytes += bytes
	return bytes
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

// drain takes everything that is left, if there is memory for it: or else the result
// ends. The gate is held.
func (c *cursor) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drainLocked()
}

func (c *cursor) drainLocked() {
	err := c.keep(c.bytes)
	for err == nil && c.rows != nil {
		err = c.keep(c.take())
	}
	if err != nil {
		c.end(err)
		return
	}
	c.hold.OnRecall(c.recalled, nil)
}

// keep takes memory for n more bytes that are ready. mu is held.
func (c *cursor) keep(n int) error {
	const taken = "%d bytes of the result had to be taken into memory because a write began, or many others are open, before they were read: "
	if c.bytes > c.m.maxResult {
		return mainstem.Refusef(mainstem.KindUnavailable, "alert", taken+"the limit is %d: ask for less at a time, read faster, or raise MaxResultBytes (of a server, memory-budget)",
			c.bytes, c.m.maxResult)
	}
	if err := c.hold.AcquireNow(int64(n)); err != nil {
		return mainstem.Refusef(mainstem.KindUnavailable, "alert", taken+"%w: ask for less at a time, read faster, or raise memory-budget", c.bytes, err)
	}
	return nil
}

// recalled ends a result that is not read, because others wait for its memory.
func (c *cursor) recalled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.hold.Size(); n > 0 { // else it was read or closed meanwhile
		c.end(mainstem.Refusef(mainstem.KindUnavailable, "alert", "nothing of the result was read for %v while others needed the %d bytes of memory that it had: ask for less at a time, read faster, or raise memory-budget",
			budget.Patience, n))
	}
}

// end ends the result with an error. mu is held.
func (c *cursor) end(err error) {
	c.err = err
	c.release()
	c.discard()
}

// discard gives back what was not read. mu is held.
func (c *cursor) discard() {
	c.ready, c.at, c.bytes = nil, 0, 0
	c.hold.Release()
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
		c.take()
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
	n := len(c.types)
	if n == 0 || len(c.ready) == 0 {
		return nil, c.rows != nil
	}
	b := c.ready[0]
	values = b.values[c.at : c.at+n : c.at+n]
	if c.at += n; c.at == len(b.values) { // the rows belong to the reader now
		c.ready[0] = block{}
		c.ready, c.at, c.bytes = c.ready[1:], 0, c.bytes-b.bytes
		c.hold.Shrink(int64(b.bytes))
		c.hold.OnRecall(c.recalled, nil) // the reader goes on
	}
	return values, true
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
	c.discard()
}
