package omnibus

import (
	"net/http"
	"time"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/omnirest/rowjson"
)

// factory runs the statements of a request to sql/factory and answers with the
// result of the last one. A result without rows has the number of rows changed by all.
func (x *exchange) factory() error {
	text, err := x.statement()
	if err != nil {
		return err
	}
	s, err := inspect(text, x.who.Role)
	if err != nil {
		return err
	}
	session := x.h.session(x.who)
	if s.use {
		session = x.h.server.Session(x.who.info())
		defer func() { _ = session.Close() }() // it only forgets it
	}
	if s.statements > 1 {
		return x.script(session, text, s.statements)
	}
	rows, err := session.Query(x.ctx, text)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // what it returns is in rows.Err
	return x.result(rows, rows.Result().Affected)
}

// script runs several statements. An error says which one failed, and what those before
// it did: see [alert.StatementError].
func (x *exchange) script(session *alert.Session, text string, count int) error {
	done, affected := 0, int64(0)
	return session.Each(x.ctx, func(rows *alert.Rows) error {
		done++
		affected += rows.Result().Affected
		if done < count {
			return nil
		}
		return x.result(rows, affected)
	}, text)
}

// result writes the result of a statement; affected is what counts if it has no rows.
func (x *exchange) result(rows *alert.Rows, affected int64) error {
	columns := rows.Columns()
	x.set.begin(&x.out, x.h.server.Name(), "", "", columns)
	for rows.Next() {
		if err := x.set.row(rows.Row()); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if columns != nil {
		affected = x.set.rows
	}
	x.set.end(affected, "")
	return nil
}

// system answers with what the server is: one row.
func (x *exchange) system() error {
	primary, _ := x.h.server.Property("ActingPrimary")
	b := append(*x.out.buf, `{"rowset":{"osname":`...)
	b = rowjson.AppendString(b, x.h.server.Name())
	b = append(b, `,"coldesc":[{"name":"ServerName","type":"string","size":64},{"name":"Product","type":"string","size":64},`...)
	b = append(b, `{"name":"ActingPrimary","type":"string","size":8},{"name":"Time","type":"utc","size":4}],"rows":[`...)
	b = append(b, "\n{\"ServerName\":"...)
	b = rowjson.AppendString(b, x.h.server.Name())
	b = append(b, `,"Product":"Mainstem","ActingPrimary":`...)
	b = rowjson.AppendString(b, primary)
	b = append(b, `,"Time":`...)
	b = appendInt(b, time.Now().Unix())
	*x.out.buf = append(b, "}],\"affectedRows\":1}}\n"...)
	x.out.status = http.StatusOK
	return nil
}
