package alertcmd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/omnirest"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// restTables are the tables of an object server, by its HTTP interface.
type restTables struct {
	client   *omnirest.Client
	readOnly bool
	every    time.Duration // between questions about what has changed, if there is no feed
}

func (t *restTables) close() error { return t.client.Close() }

// each runs a statement. The columns of its result are those of the first row, so that
// no row waits for the last one.
func (t *restTables) each(ctx context.Context, statement string, do func(*alertResult) error) error {
	if err := refuseWriting(t.readOnly, statement); err != nil {
		return err
	}
	res := &omnirest.Result{} // until its end was read
	next, stop := iter.Pull2(func(yield func(omnirest.Row, error) bool) {
		enough := false
		r, err := t.client.EachSQL(ctx, statement, func(row omnirest.Row) error {
			if enough = !yield(row, nil); enough {
				return errEnough
			}
			return nil
		})
		switch {
		case err == nil:
			res = r
		case !enough:
			yield(omnirest.Row{}, err)
		}
	})
	defer stop()
	row, err, ok := next()
	if err != nil {
		return err
	}
	result := &alertResult{affected: func() int64 { return res.Affected }}
	if ok {
		result.columns = columnsOfRow(row)
	} else {
		for _, c := range res.Columns {
			result.columns = append(result.columns, alertColumn{c.Name, c.Type == "string"})
		}
	}
	result.rows = func(yield func([]alert.Value, error) bool) {
		for ok {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(rowValues(row, result.columns), nil) {
				return
			}
			row, err, ok = next()
		}
	}
	return do(result)
}

// refuseWriting refuses a statement that may change something although nothing may be
// changed: a server that is asked for that by somebody who may would do it.
func refuseWriting(readOnly bool, statement string) error {
	if !readOnly {
		return nil
	}
	if _, err := osql.Split(statement, nil); err == nil && readsOnly([]string{statement}) {
		return nil
	}
	return mainstem.Refusef(mainstem.KindDenied, "alerts sql", "--read-only: the statement may change something")
}

// errEnough ends a result that nobody reads on.
var errEnough = errors.New("enough")

func columnsOfRow(row omnirest.Row) []alertColumn {
	var columns []alertColumn
	for name, v := range row.All() {
		columns = append(columns, alertColumn{name, v.IsText()})
	}
	return columns
}

// rowValues returns the values of a row. Usually they stand in the order of the columns.
func rowValues(row omnirest.Row, columns []alertColumn) []alert.Value {
	values := make([]alert.Value, len(columns))
	i := 0
	for name, v := range row.All() {
		at := i
		if at >= len(columns) || columns[at].name != name {
			at = columnAt(columns, name)
		}
		if at >= 0 {
			values[at] = jsonValue(v)
		}
		i++
	}
	return values
}

func columnAt(columns []alertColumn, name string) int {
	for i := range columns {
		if columns[i].name == name {
			return i
		}
	}
	return -1
}

func jsonValue(v omnirest.Value) alert.Value {
	switch x := v.Any().(type) {
	case int64:
		return alert.Int(x)
	case float64:
		return alert.Real(x)
	case bool:
		return alert.Bool(x)
	}
	return alert.Text(v.Text())
}

// columns asks for the columns of a table.
func (t *restTables) columns(ctx context.Context, table string) ([]alert.Column, error) {
	return describedColumns(ctx, t, table)
}

// describedColumns returns the columns that DESCRIBE tells, of several clusters those of
// the first that answers.
func describedColumns(ctx context.Context, t alertTables, table string) (columns []alert.Column, err error) {
	var trouble error
	err = t.each(ctx, "describe "+table, func(r *alertResult) error {
		if r.err != nil {
			trouble = fmt.Errorf("%s: %w", r.cluster, r.err)
			return nil
		}
		name, typ, size, key := r.at("ColumnName"), r.at("Type"), r.at("Size"), r.at("Key")
		var found []alert.Column
		for values, err := range r.rows {
			if err != nil {
				return err
			}
			if name < 0 || typ < 0 {
				continue
			}
			c := alert.Column{Name: values[name].String(), Type: describedType(values[typ])}
			if size >= 0 {
				c.Size = int(values[size].Int())
			}
			if key >= 0 {
				c.PrimaryKey = values[key].Bool()
			}
			found = append(found, c)
		}
		if columns == nil {
			columns = found
		}
		return nil
	})
	if err == nil && columns == nil {
		err = trouble
	}
	if err == nil && columns == nil {
		err = mainstem.Errorf(mainstem.KindNotFound, "alerts", "the server describes no columns of %s", table)
	}
	return columns, err
}

// typeCodes are the numbers that catalog.columns has for types which are no integers.
var typeCodes = map[int64]alert.Type{1: osql.Time, 2: osql.Varchar, 10: osql.Char}

// describedType returns a type by its name or its number. A name that is not known is
// taken for a text, in which every value fits; a number that is not, for an integer.
func describedType(v alert.Value) alert.Type {
	if !v.IsText() {
		if t, ok := typeCodes[v.Int()]; ok {
			return t
		}
		return osql.Integer64
	}
	name, _, _ := strings.Cut(strings.TrimSpace(v.String()), "(")
	if t, ok := osql.ParseType(name); ok {
		return t
	}
	return osql.Varchar
}

// typedRow returns the values of a row that was given as texts.
func typedRow(table string, row *alertInsert, columns []alert.Column) ([]alert.Value, error) {
	values := make([]alert.Value, len(row.columns))
	for i, name := range row.columns {
		c := alert.Column{Name: name}
		found := false
		for j := range columns {
			if columns[j].Name == name {
				c, found = columns[j], true
			}
		}
		if !found {
			return nil, mainstem.Refusef(mainstem.KindNotFound, "alerts insert", "the table %s has no column %s", table, name)
		}
		v, err := alert.Fit(row.values[i], c)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	return values, nil
}

func (t *restTables) insert(ctx context.Context, table string, row alertInsert, do func(*alertInserted) error) error {
	columns, err := t.columns(ctx, table)
	if err != nil {
		return err
	}
	values, err := typedRow(table, &row, columns)
	if err != nil {
		return err
	}
	if len(row.updating) > 0 {
		// The collection has nothing for that, SQL has.
		n, err := t.client.RawSQL(ctx, insertStatement(table, row.columns, [][]alert.Value{values}, row.updating), func(omnirest.Row) error { return nil })
		if err != nil {
			return err
		}
		return do(&alertInserted{affected: n})
	}
	named := make(map[string]any, len(values))
	for i, name := range row.columns {
		named[name] = values[i].Any()
	}
	e, err := t.client.Insert(ctx, table, named)
	if err != nil {
		return err
	}
	done := &alertInserted{affected: e.Affected, keyField: e.KeyField}
	if table == statusTable {
		serial, _, _ := strings.Cut(e.KeyField, ":")
		done.serial, _ = strconv.ParseInt(serial, 10, 64) // 0 if it is none
	}
	return do(done)
}

// insertStatement returns the INSERT of rows.
func insertStatement(table string, columns []string, rows [][]alert.Value, updating []string) string {
	var b strings.Builder
	b.WriteString("insert into " + table + " (" + strings.Join(columns, ", ") + ") values ")
	for i, row := range rows {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteByte('(')
		for j, v := range row {
			if j > 0 {
				b.WriteString(", ")
			}
			b.WriteString(literal(v))
		}
		b.WriteByte(')')
	}
	if len(updating) > 0 {
		b.WriteString(" updating (" + strings.Join(updating, ", ") + ")")
	}
	return b.String()
}

func literal(v alert.Value) string {
	switch {
	case v.IsText():
		return quoted(v.String())
	case v.IsReal():
		return strconv.FormatFloat(v.Real(), 'f', -1, 64)
	}
	return strconv.FormatInt(v.Int(), 10)
}

// changes yields the feed of a Mainstem server. Any other is asked now and then.
func (t *restTables) changes(ctx context.Context, table string, o *alert.ChangeOptions) iter.Seq2[alertChange, error] {
	return func(yield func(alertChange, error) bool) {
		own, err := t.client.Mainstem(ctx)
		if err != nil {
			yield(alertChange{}, err)
			return
		}
		var opts alert.ChangeOptions
		if o != nil {
			opts = *o
		}
		from := t.feed
		if !own {
			from = t.poll
		}
		for c, err := range from(ctx, table, &opts) {
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

func (t *restTables) feed(ctx context.Context, table string, o *alert.ChangeOptions) iter.Seq2[alertChange, error] {
	return func(yield func(alertChange, error) bool) {
		if o.NoFollow && o.Since.IsZero() && o.After == 0 {
			return // nothing is asked for
		}
		if o.NoFollow && o.After > 0 {
			yield(alertChange{}, mainstem.Errorf(mainstem.KindUnsupported, "alerts tail", "--from with --no-follow: the feed of a server does not tell its end").
				WithHint("use --log, or --since"))
			return
		}
		opts := omnirest.ChangeOptions{Since: o.Since, After: uint64(o.After), NoFollow: o.NoFollow}
		if o.Ready != nil {
			opts.Ready = func(after uint64) { o.Ready(mainstem.Position(after)) }
		}
		for c, err := range t.client.Changes(ctx, table, &opts) {
			if err != nil {
				yield(alertChange{}, err)
				return
			}
			out := alertChange{position: mainstem.Position(c.ID), deleted: c.Deleted}
			for name, v := range c.Row.All() {
				out.names = append(out.names, name)
				out.values = append(out.values, jsonValue(v))
			}
			if !yield(out, nil) {
				return
			}
		}
	}
}
