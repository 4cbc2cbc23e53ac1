package omnirest

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/omnirest/httpconn"
	"github.com/mainstemdev/mainstem/alert/omnirest/rowjson"
)

// Row is a row as the server sent it; a NUL at the end of a text is left out.
type Row = rowjson.Row

// Value is one value of a row.
type Value = rowjson.Value

// Column describes a column of a result.
type Column struct {
	Name string
	Type string // "string", "integer", "utc", …
	Size int    // bytes
}

// Result is the answer to a statement or a GET.
type Result struct {
	Server          string // the name of the object server
	Database, Table string // of a collection
	Columns         []Column
	Rows            []Row // nil where they are given to a function
	Affected        int64 // rows that were changed, or selected
	Cursor          string
}

// rows does a request and gives each row of the answer to do, which is lent it. If res is
// not nil, it becomes what else the answer says.
func (c *Client) rows(ctx context.Context, req *httpconn.Request, o mainstem.Outcome, res *Result, do func(Row) error) (affected int64, err error) {
	resp, err := c.do.Do(ctx, req)
	if err != nil {
		return 0, err
	}
	if resp.Status != http.StatusOK && resp.Status != http.StatusCreated {
		return 0, c.failed(resp, o)
	}
	defer func() { _ = resp.Close() }() // an answer cut short is an error of reading
	body, err := unpack(resp)
	if err != nil {
		return 0, err
	}
	r := rowjson.NewReader(body, &c.limits)
	defer r.Release()
	affected, err = readRowset(r, res, do)
	if err != nil && o != mainstem.NoOutcome {
		err = withOutcome(err, mainstem.Unknown)
	}
	return affected, err
}

// unpack returns the body of an answer, out of gzip if it is in it.
func unpack(resp *httpconn.Response) (io.Reader, error) {
	switch strings.ToLower(resp.Encoding) {
	case "", "identity":
		return resp.Body, nil
	case "gzip":
		z, err := gzip.NewReader(resp.Body)
		if err != nil {
			return nil, &mainstem.Error{Kind: mainstem.KindCorrupt, Op: "omnirest", Err: err}
		}
		return z, nil
	}
	return nil, mainstem.Errorf(mainstem.KindUnsupported, "omnirest", "an answer in %.40q", resp.Encoding)
}

// readRowset reads {"rowset": {…}}, whose keys may come in any order.
func readRowset(r *rowjson.Reader, res *Result, do func(Row) error) (affected int64, err error) {
	found := false
	err = r.Object(func(key string) error {
		if key != "rowset" || found {
			return r.Skip()
		}
		found = true
		return r.Object(func(key string) (err error) {
			switch {
			case key == "rows":
				return readRows(r, do)
			case key == "affectedRows":
				affected, err = r.Int()
			case res == nil:
				err = r.Skip()
			default:
				err = res.read(r, key)
			}
			return err
		})
	})
	if err == nil {
		err = r.End()
	}
	if err == nil && !found {
		err = mainstem.Errorf(mainstem.KindCorrupt, "omnirest", "the answer has no rowset: is the address that of an object server's HTTP interface?")
	}
	if res != nil {
		res.Affected = affected
	}
	return affected, err
}

func readRows(r *rowjson.Reader, do func(Row) error) error {
	if c, err := r.Peek(); err == nil && c == 'n' {
		return r.Skip() // null
	}
	var raw []byte
	return r.Array(func() (err error) {
		if raw, err = r.Value(raw[:0]); err != nil {
			return err
		}
		if raw[0] != '{' {
			return mainstem.Errorf(mainstem.KindCorrupt, "omnirest", "the row %.40q is no object", raw)
		}
		return do(rowjson.NewRow(raw))
	})
}

// read reads what an answer says besides its rows.
func (res *Result) read(r *rowjson.Reader, key string) (err error) {
	switch key {
	case "osname":
		res.Server, err = r.Text()
	case "dbname":
		res.Database, err = r.Text()
	case "tblname":
		res.Table, err = r.Text()
	case "cursor":
		res.Cursor, err = r.Text()
	case "coldesc":
		return r.Array(func() error {
			col := Column{}
			err := r.Object(func(key string) (err error) {
				switch key {
				case "name":
					col.Name, err = r.Text()
				case "type":
					col.Type, err = r.Text()
				case "size":
					var n int64
					n, err = r.Int()
					col.Size = int(n)
				default:
					err = r.Skip()
				}
				return err
			})
			res.Columns = append(res.Columns, col)
			return err
		})
	default:
		err = r.Skip()
	}
	return err
}

// keeper keeps rows in few pieces of memory.
type keeper struct {
	rows  []Row
	piece []byte
}

const keeperPiece = 16 << 10

func (k *keeper) keep(row Row) error {
	raw := row.Raw()
	if len(raw) > cap(k.piece)-len(k.piece) {
		k.piece = make([]byte, 0, max(len(raw), min(keeperPiece, 8*len(raw))))
	}
	from := len(k.piece)
	k.piece = append(k.piece, raw...)
	k.rows = append(k.rows, rowjson.NewRow(k.piece[from:len(k.piece):len(k.piece)]))
	return nil
}
