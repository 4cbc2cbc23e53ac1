package coordinator

import (
	"context"
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/omnirest/rowjson"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// Authenticator says who has a credential, and as what the server sees them. A wrong
// credential is Denied.
type Authenticator func(ctx context.Context, c Credential) (alert.SessionInfo, error)

// serverBackend is an alert server in this process.
type serverBackend struct {
	server *alert.Server
	who    Authenticator
}

// NewServerBackend returns a server in this process, so that the log below it is a
// cluster without a network. who is asked for each new connection. The server stays the
// caller's: close the coordinator first.
func NewServerBackend(server *alert.Server, who Authenticator) (Backend, error) {
	if server == nil || who == nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "coordinator", "a backend in this process needs a server and an authenticator")
	}
	return &serverBackend{server, who}, nil
}

// Connect implements [Backend].
func (b *serverBackend) Connect(ctx context.Context, c Credential) (Conn, error) {
	info, err := b.who(ctx, c)
	if err != nil {
		return nil, err
	}
	return &serverConn{session: b.server.Session(info)}, nil
}

// Ping implements [Backend].
func (b *serverBackend) Ping(ctx context.Context) error {
	rows, err := b.server.Query(ctx, "select top 1 DatabaseName from catalog.databases")
	if err != nil {
		return err
	}
	return rows.Close()
}

// serverConn is a session of a server in this process.
type serverConn struct {
	session *alert.Session
	moved   bool // USE was said: the next statements would find other tables
	buf     []byte
	keys    []byte
	ends    []int
}

// Query implements [Conn].
func (c *serverConn) Query(ctx context.Context, sql string, row func([]byte) error) (int64, error) {
	n, err := c.run(ctx, sql, row)
	if err != nil {
		err = &answerError{err}
	}
	return n, err
}

func (c *serverConn) run(ctx context.Context, sql string, row func([]byte) error) (int64, error) {
	if strings.ContainsAny(strings.TrimRight(sql, "; \r\n\t"), ";\n") {
		return c.script(ctx, sql, row)
	}
	c.note(firstWord(sql))
	rows, err := c.session.Query(ctx, sql)
	if err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }() // what it returns is in rows.Err
	return c.emit(rows, row)
}

// firstWord returns the letters that a statement begins with, behind blanks and comments.
func firstWord(sql string) string {
	sql = strings.TrimLeft(sql, " \t\r\n")
	end := strings.IndexFunc(sql, func(r rune) bool { return !unicode.IsLetter(r) })
	switch {
	case end < 0:
		return sql
	case end > 0:
		return sql[:end]
	}
	statements, err := osql.Split(sql, nil)
	if err != nil || len(statements) == 0 {
		return "" // the session says what is wrong
	}
	return statements[0].Verb()
}

func (c *serverConn) note(verb string) {
	if strings.EqualFold(verb, "use") {
		c.moved = true
	}
}

// script runs what may be several statements. Their changes count together; only the
// last result has rows.
func (c *serverConn) script(ctx context.Context, sql string, row func([]byte) error) (int64, error) {
	statements, err := osql.Split(sql, nil)
	if err != nil {
		return 0, err
	}
	for i := range statements {
		c.note(statements[i].Verb())
	}
	done, changed, affected := 0, int64(0), int64(0)
	err = c.session.Each(ctx, func(rows *alert.Rows) (err error) {
		if done++; done < len(statements) {
			changed += rows.Result().Affected
			return nil
		}
		affected, err = c.emit(rows, row)
		if rows.Columns() == nil {
			affected += changed
		}
		return err
	}, sql)
	return affected, err // it says which statement failed, and what those before it did
}

// emit gives each row to row, as JSON.
func (c *serverConn) emit(rows *alert.Rows, row func([]byte) error) (int64, error) {
	c.keys, c.ends = c.keys[:0], c.ends[:0]
	for i, col := range rows.Columns() {
		sign := byte(',')
		if i == 0 {
			sign = '{'
		}
		c.keys = append(rowjson.AppendString(append(c.keys, sign), col.Name), ':')
		c.ends = append(c.ends, len(c.keys))
	}
	for rows.Next() {
		r, from := rows.Row(), 0
		b := c.buf[:0]
		for i, end := range c.ends {
			b = append(b, c.keys[from:end]...)
			from = end
			b = appendValue(b, r.At(i))
		}
		c.buf = append(b, '}')
		if err := row(c.buf); err != nil {
			return 0, err
		}
	}
	if err := rows.Err(); err != nil {
		return 0, err
	}
	return rows.Result().Affected, nil
}

func appendValue(b []byte, v alert.Value) []byte {
	switch {
	case v.IsText():
		return rowjson.AppendString(b, strings.TrimSuffix(v.String(), "\x00"))
	case v.IsReal():
		f := v.Real()
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return append(b, '0') // JSON has no word for it
		}
		return strconv.AppendFloat(b, f, 'g', -1, 64)
	}
	return strconv.AppendInt(b, v.Int(), 10)
}

// Alive implements [Conn].
func (c *serverConn) Alive() bool { return !c.moved }

// Close implements [Conn].
func (c *serverConn) Close() error { return c.session.Close() }
