package omnibus

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// The parameters of requests.
const (
	paramFilter  = "filter"
	paramCollist = "collist"
	paramOrder   = "orderby"
	paramLimit   = "limit"
	paramCursor  = "cursor"
	paramSince   = "since"
	paramAfter   = "after"
)

// parameters reads the query of the request. Each parameter may be there once; an
// empty one is as none. Those of requests that write must be known: a mistyped
// filter must not change all rows.
func (x *exchange) parameters(strict bool, known ...string) (map[string]string, error) {
	values, err := url.ParseQuery(x.r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("the parameters: %w", err)
	}
	out := map[string]string{}
	for name, v := range values {
		switch {
		case !slices.Contains(known, name):
			if strict {
				return nil, badRequest("the parameter %.60q is not known: %s", name, parameterList(known))
			}
			continue
		case len(v) > 1:
			return nil, badRequest("the parameter %s is there twice", name)
		}
		if v[0] != "" {
			out[name] = v[0]
		}
	}
	return out, nil
}

func parameterList(known []string) string {
	if len(known) == 0 {
		return "this request takes none"
	}
	return "this request takes " + strings.Join(known, ", ")
}

// table returns the table that the path names.
func (x *exchange) table() (alert.TableInfo, error) {
	t, ok := x.h.server.Table(x.route.database + "." + x.route.table)
	if !ok {
		return t, notFound("there is no table %.60s.%.60s", x.route.database, x.route.table)
	}
	return t, nil
}

// query is a GET that was understood.
type query struct {
	table   alert.TableInfo
	columns []string // that are shown
	hidden  []string // that the cursor needs besides
	where   condition
	order   []term
	since   int64 // -1: none
	limit   int   // 0: none
	after   []any // the values of a cursor
	hash    uint64
}

func (x *exchange) parseQuery(t alert.TableInfo) (*query, error) {
	p, err := x.parameters(false, paramFilter, paramCollist, paramOrder, paramLimit, paramCursor, paramSince)
	if err != nil {
		return nil, err
	}
	q := &query{table: t, since: -1}
	if q.columns, err = parseCollist(p[paramCollist], &t); err != nil {
		return nil, err
	}
	if q.where, err = parseFilter(p[paramFilter]); err != nil {
		return nil, err
	}
	if q.order, err = parseOrder(p[paramOrder]+","+q.where.order, &t); err != nil {
		return nil, err
	}
	if s := p[paramSince]; s != "" {
		if q.since, err = parseTime(s); err != nil {
			return nil, err
		}
		if _, err := findColumn(&t, columnSince); err != nil {
			return nil, err
		}
		if len(q.order) == 0 {
			q.order = []term{{column: columnSince}}
		}
	}
	return q, q.page(p[paramLimit], p[paramCursor])
}

// columnSince is the column that says when a row has changed.
const columnSince = "StateChange"

func parseTime(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, badRequest("%.40q is no time: want seconds since 1970", s)
	}
	return n, nil
}

// page takes limit and cursor into the query.
func (q *query) page(limit, cursor string) error {
	if limit == "" {
		if cursor != "" {
			return badRequest("a cursor needs a limit")
		}
		return nil
	}
	n, err := strconv.ParseInt(limit, 10, 31)
	if err != nil || n < 1 || n == 1<<31-1 {
		return badRequest("the limit %.20q: want a number from 1 to %d", limit, 1<<31-2)
	}
	q.limit = int(n)
	if !slices.ContainsFunc(q.order, func(o term) bool { return o.column == osql.RowSerial }) {
		q.order = append(q.order, term{column: osql.RowSerial})
	}
	for _, o := range q.order {
		if !slices.Contains(q.columns, o.column) {
			q.hidden = append(q.hidden, o.column)
		}
	}
	q.hash = cursorHash(&q.table, q.where, q.order)
	if cursor != "" {
		q.after, err = decodeCursor(cursor, q.hash, len(q.order))
	}
	return err
}

// statement returns the SELECT for the query, and its arguments.
func (q *query) statement() (string, []any) {
	b := []byte("select ")
	if q.limit > 0 {
		b = append(appendInt(append(b, "top "...), int64(q.limit)+1), ' ') // one more tells whether there is more
	}
	for i, name := range q.columns {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, name...)
	}
	for _, name := range q.hidden {
		b = append(append(b, ", "...), name...)
	}
	b = append(append(append(append(b, " from "...), q.table.Database...), '.'), q.table.Name...)
	b, args := q.appendWhere(b)
	for i, o := range q.order {
		if i == 0 {
			b = append(b, " order by "...)
		} else {
			b = append(b, ", "...)
		}
		b = append(b, o.column...)
		if o.desc {
			b = append(b, " desc"...)
		}
	}
	return string(b), args
}

func (q *query) appendWhere(b []byte) ([]byte, []any) {
	var args []any
	word := " where "
	and := func() {
		b = append(b, word...)
		word = " and "
	}
	if q.since >= 0 {
		and()
		b = append(b, columnSince+" >= ?"...)
		args = append(args, q.since)
	}
	if q.after != nil {
		and()
		var more []any
		b, more = appendAfter(b, q.order, q.after)
		args = append(args, more...)
	}
	if q.where.text != "" {
		and()
		b = append(append(append(b, '('), q.where.text...), ')')
	}
	return b, args
}

// get answers with the rows of a table, or with one.
func (x *exchange) get() error {
	t, err := x.table()
	if err != nil {
		return err
	}
	q, err := x.parseQuery(t)
	if err != nil {
		return err
	}
	if x.route.kind == rowRoute {
		if q.where, err = x.rowCondition(&t); err != nil {
			return err
		}
		q.since, q.limit, q.after, q.order, q.hidden = -1, 0, nil, nil, nil
	}
	if done, err := x.unchanged(q); done || err != nil {
		return err
	}
	text, args := q.statement()
	if err := oneStatement(text, len(args)); err != nil {
		return err
	}
	rows, err := x.h.session(x.who).Query(x.ctx, text, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // what it returns is in rows.Err
	return x.rows(q, rows)
}

// oneStatement checks that a text with something of the client in it is still one statement.
func oneStatement(text string, args int) error {
	s, err := osql.Split(text, make([]osql.Literal, args))
	if err == nil && len(s) != 1 {
		err = badRequest("the filter is not one condition")
	}
	return err
}

func (x *exchange) rows(q *query, rows *alert.Rows) error {
	columns := rows.Columns()
	x.set.begin(&x.out, x.h.server.Name(), q.table.Database, q.table.Name, columns[:len(q.columns)])
	cursor := ""
	var last alert.Row
	for rows.Next() {
		if q.limit > 0 && x.set.rows == int64(q.limit) {
			cursor = encodeCursor(q.hash, last, q.orderIn(columns))
			break
		}
		last = rows.Row()
		if err := x.set.row(last); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if x.set.rows == 0 && x.route.kind == rowRoute {
		return notFound("there is no row %.200s", x.route.path)
	}
	x.set.end(x.set.rows, cursor)
	return nil
}

// orderIn returns which columns of a result the order is by.
func (q *query) orderIn(columns []alert.Column) []int {
	at := make([]int, len(q.order))
	for i, o := range q.order {
		at[i] = slices.IndexFunc(columns, func(c alert.Column) bool { return c.Name == o.column })
	}
	return at
}
