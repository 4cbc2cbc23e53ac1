package omnibus

import (
	"net/http"
	"strconv"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/omnirest/rowjson"
)

// insert adds the rows of the body to a table. Some clients send the parameters of
// their last GET along (node-omnibus does): an INSERT selects nothing, so they are
// read and not used.
func (x *exchange) insert() error {
	t, err := x.table()
	if err != nil {
		return err
	}
	if _, err := x.parameters(true, paramFilter, paramCollist, paramOrder); err != nil {
		return err
	}
	g, err := x.readRows(&t)
	if err != nil {
		return err
	}
	if err := g.complete(&t); err != nil {
		return err
	}
	r, err := x.h.session(x.who).InsertRows(x.ctx, t.Database+"."+t.Name, g.columns, g.rows)
	if err != nil {
		return err
	}
	x.h.metrics.inserted.Add(float64(r.Affected))
	x.out.status = http.StatusCreated
	if len(g.rows) > 1 || r.KeyField == "" {
		x.entry(r.Affected, "", x.base()+x.route.collection(), true)
		return nil
	}
	key := string(appendEscaped(nil, r.KeyField))
	x.entry(r.Affected, key, x.base()+x.route.collection()+"/kf/"+key, true)
	return nil
}

// readRows reads the rows of the body, which are for a table.
func (x *exchange) readRows(t *alert.TableInfo) (*given, error) {
	buf, err := x.body()
	if err != nil {
		return nil, err
	}
	defer release(buf)
	return decodeRows(*buf, t, x.h.o.MaxInsertRows, x.roomForRows())
}

// complete gives rows that lack columns of others the values that the table would
// have given them. Columns that have none must be there.
func (g *given) complete(t *alert.TableInfo) error {
	for i := range t.Columns {
		c := &t.Columns[i]
		at, named := g.index[c.Name]
		needed := (c.PrimaryKey || c.NoDefault) && c.Type != typeIncr
		if !named && !needed {
			continue
		}
		for n, row := range g.rows {
			switch {
			case !named || row[at] == nil && needed:
				return badRequest("row %d has no %s: every row of %s.%s needs it", n+1, c.Name, t.Database, t.Name)
			case row[at] == nil && c.Type.Text():
				row[at] = ""
			case row[at] == nil:
				row[at] = int64(0)
			}
		}
	}
	return nil
}

// update changes the rows that the filter selects, or one.
func (x *exchange) update() error {
	t, err := x.table()
	if err != nil {
		return err
	}
	where, err := x.writeCondition(&t)
	if err != nil {
		return err
	}
	g, err := x.readRows(&t)
	if err == nil && len(g.rows) != 1 {
		err = badRequest("the body has %d rows: a PATCH has one, for all rows that it changes", len(g.rows))
	}
	if err != nil {
		return err
	}
	text := "update " + t.Database + "." + t.Name + " set "
	var args []any
	for i, name := range g.columns {
		c, err := findColumn(&t, name)
		if err != nil {
			return err
		}
		if i > 0 {
			text += ", "
		}
		text += name + " = ?"
		switch {
		case g.rows[0][i] != nil:
			args = append(args, g.rows[0][i])
		case c.Type.Text():
			args = append(args, "")
		default:
			args = append(args, int64(0))
		}
	}
	return x.change(text, where, args)
}

// delete removes the rows that the filter selects, or one.
func (x *exchange) delete() error {
	t, err := x.table()
	if err != nil {
		return err
	}
	where, err := x.writeCondition(&t)
	if err != nil {
		return err
	}
	return x.change("delete from "+t.Database+"."+t.Name, where, nil)
}

// writeCondition returns which rows a PATCH or DELETE is for. Columns and an order make
// no difference to that, so they are read and not used; a filter below the path of a
// row would, and is refused.
func (x *exchange) writeCondition(t *alert.TableInfo) (condition, error) {
	p, err := x.parameters(true, paramFilter, paramCollist, paramOrder)
	if err != nil {
		return condition{}, err
	}
	if x.route.kind == rowRoute {
		if p[paramFilter] != "" {
			return condition{}, badRequest("the path names one row: the parameter filter has no meaning there")
		}
		return x.rowCondition(t)
	}
	where, err := parseFilter(p[paramFilter])
	if err == nil && where.order != "" {
		err = badRequest("the filter ends with ORDER BY, which has no meaning here")
	}
	return where, err
}

func (x *exchange) change(text string, where condition, args []any) error {
	if where.text != "" {
		text += " where (" + where.text + ")"
	}
	if err := oneStatement(text, len(args)); err != nil {
		return err
	}
	r, err := x.h.session(x.who).Exec(x.ctx, text, args...)
	if err != nil {
		return err
	}
	if x.route.kind == rowRoute {
		if r.Affected == 0 {
			return notFound("there is no row %.200s", x.route.path)
		}
		x.entry(r.Affected, "", x.route.path, false)
		return nil
	}
	x.entry(r.Affected, "", x.base()+x.route.collection(), false)
	return nil
}

// entry writes the answer to a request that changes rows.
func (x *exchange) entry(affected int64, keyField, uri string, created bool) {
	b := append(*x.out.buf, `{"entry":{"affectedRows":`...)
	b = appendInt(b, affected)
	if keyField != "" {
		b = append(b, `,"keyField":`...)
		b = rowjson.AppendString(b, keyField)
	}
	b = append(b, `,"uri":`...)
	b = rowjson.AppendString(b, uri)
	*x.out.buf = append(b, "}}\n"...)
	if created {
		x.w.Header()["Location"] = []string{uri}
	}
}

// base returns what stands before the path in an address of this server, as the
// client calls it.
func (x *exchange) base() string {
	if x.r.TLS != nil {
		return "https://" + x.r.Host
	}
	return "http://" + x.r.Host
}

// rowCondition returns the condition for the row that the path names.
func (x *exchange) rowCondition(t *alert.TableInfo) (condition, error) {
	if x.route.keyField == "" {
		return condition{text: "RowSerial = " + strconv.FormatInt(x.route.serial, 10), fixed: true}, nil
	}
	text, ok := keyCondition(t, x.route.keyField)
	if !ok {
		return condition{}, notFound("there is no row %.200s", x.route.path)
	}
	return condition{text: text, fixed: true}, nil
}
