package alert

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
)

// conn is a connection to the mirror with the statements it has prepared. One
// goroutine at a time uses it.
type conn struct {
	driver.Conn
	prepared map[string]driver.Stmt
	named    []driver.NamedValue // scratch
}

// maxPrepared bounds the prepared statements of a connection; when it is
// reached, they are closed.
const maxPrepared = 256

func (c *conn) prepare(ctx context.Context, sql string) (driver.Stmt, error) {
	if s, ok := c.prepared[sql]; ok {
		return s, nil
	}
	if len(c.prepared) >= maxPrepared {
		if err := c.forget(); err != nil {
			return nil, err
		}
	}
	p, ok := c.Conn.(driver.ConnPrepareContext)
	if !ok {
		return nil, errors.New("the driver of SQLite cannot prepare statements")
	}
	// Without the caller's context: what is prepared outlives the call.
	s, err := p.PrepareContext(context.WithoutCancel(ctx), sql)
	if err != nil {
		return nil, err
	}
	c.prepared[sql] = s
	return s, nil
}

// forget closes the prepared statements.
func (c *conn) forget() error {
	var errs []error
	for _, s := range c.prepared {
		errs = append(errs, s.Close())
	}
	clear(c.prepared)
	return errors.Join(errs...)
}

func (c *conn) close() error { return errors.Join(c.forget(), c.Conn.Close()) }

func (c *conn) bind(args []driver.Value) []driver.NamedValue {
	c.named = c.named[:0]
	for i, a := range args {
		c.named = append(c.named, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return c.named
}

// exec runs a statement without a result. It returns the number of the row that
// an INSERT made.
func (c *conn) exec(ctx context.Context, sql string, args ...driver.Value) (int64, error) {
	s, err := c.prepare(ctx, sql)
	if err != nil {
		return 0, err
	}
	e, ok := s.(driver.StmtExecContext)
	if !ok {
		return 0, errors.New("the driver of SQLite cannot run statements")
	}
	r, err := e.ExecContext(ctx, c.bind(args))
	if err != nil {
		return 0, err
	}
	return r.LastInsertId()
}

// query begins a statement with a result, which the caller closes before the
// connection is used again.
func (c *conn) query(ctx context.Context, sql string, args ...driver.Value) (driver.Rows, error) {
	s, err := c.prepare(ctx, sql)
	if err != nil {
		return nil, err
	}
	q, ok := s.(driver.StmtQueryContext)
	if !ok {
		return nil, errors.New("the driver of SQLite cannot query")
	}
	return q.QueryContext(ctx, c.bind(args))
}

// each calls do for every row of a query. The values are lent.
func (c *conn) each(ctx context.Context, do func(row []driver.Value) error, sql string, args ...driver.Value) (err error) {
	rows, err := c.query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	row := make([]driver.Value, len(rows.Columns()))
	for {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := do(row); err != nil {
			return err
		}
	}
}
