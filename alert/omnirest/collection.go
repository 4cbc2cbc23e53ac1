package omnirest

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/omnirest/httpconn"
	"github.com/mainstemdev/mainstem/alert/omnirest/rowjson"
)

// Where selects rows of a table: by a condition, or one row by its number or its key
// field ("<Serial>:<ServerName>" in alerts.status).
type Where struct {
	Filter   string // a condition in ObjectServer SQL
	Serial   int64  // RowSerial, good on this server only
	KeyField string
	All      bool // all rows: Update and Delete need it instead of nothing
}

// Selection says what a GET returns of the rows. Nil means all columns in any order.
type Selection struct {
	Columns []string
	OrderBy string // "Severity DESC, Acknowledged ASC"
	// Limit and Cursor are for pages of Mainstem's: at most Limit rows, behind those
	// of the page whose Result.Cursor it was. IBM's server does not know them.
	Limit  int
	Cursor string
}

// path returns the path of the rows, with the filter.
func (w *Where) path(table string, change bool) (string, url.Values, error) {
	database, name, ok := strings.Cut(table, ".")
	if !ok || database == "" || name == "" {
		return "", nil, mainstem.Refusef(mainstem.KindInvalid, "omnirest", "the table %q: want database.table", table)
	}
	path := "/" + url.PathEscape(database) + "/" + url.PathEscape(name)
	given := 0
	for _, g := range []bool{w.Filter != "", w.Serial != 0, w.KeyField != "", w.All} {
		if g {
			given++
		}
	}
	switch {
	case given > 1:
		return "", nil, mainstem.Refusef(mainstem.KindInvalid, "omnirest", "more than one of Filter, Serial, KeyField and All is given")
	case given == 0 && change:
		return "", nil, mainstem.Refusef(mainstem.KindInvalid, "omnirest", "nothing says which rows of %s to change: give a Filter, Serial, KeyField, or All", table)
	case w.Serial != 0:
		path += "/" + strconv.FormatInt(w.Serial, 10)
	case w.KeyField != "":
		path += "/kf/" + strings.ReplaceAll(url.QueryEscape(w.KeyField), "+", "%20")
	}
	q := url.Values{}
	if w.Filter != "" {
		q.Set("filter", w.Filter)
	}
	return path, q, nil
}

// withQuery spells blanks as %20, which every server reads.
func withQuery(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + strings.ReplaceAll(q.Encode(), "+", "%20")
}

// Get returns rows of a table, "database.table". A row that is named and not there
// is NotFound.
func (c *Client) Get(ctx context.Context, table string, w Where, s *Selection) (*Result, error) {
	var k keeper
	res, err := c.Each(ctx, table, w, s, k.keep)
	if err != nil {
		return nil, err
	}
	res.Rows = k.rows
	return res, nil
}

// Each calls do with each of the rows as it comes; an error of do ends it. The result
// that it returns has no rows.
func (c *Client) Each(ctx context.Context, table string, w Where, s *Selection, do func(Row) error) (*Result, error) {
	path, q, err := w.path(table, false)
	if err != nil {
		return nil, err
	}
	if s != nil {
		if len(s.Columns) > 0 {
			q.Set("collist", strings.Join(s.Columns, ","))
		}
		if s.OrderBy != "" {
			q.Set("orderby", s.OrderBy)
		}
		if s.Limit > 0 {
			q.Set("limit", strconv.Itoa(s.Limit))
		}
		if s.Cursor != "" {
			q.Set("cursor", s.Cursor)
		}
	}
	res := &Result{}
	req := &httpconn.Request{Method: http.MethodGet, Path: withQuery(path, q), Header: c.header}
	if _, err := c.rows(ctx, req, mainstem.NoOutcome, res, do); err != nil {
		return nil, err
	}
	return res, nil
}

// Entry is the answer to a change of a collection.
type Entry struct {
	Affected int64
	KeyField string // of the row that was inserted
	URI      string
}

// Insert inserts one row. values are by column: strings, whole numbers, reals, bools,
// and times, which are sent as utc.
func (c *Client) Insert(ctx context.Context, table string, values map[string]any) (Entry, error) {
	columns, row := split(values)
	return c.insert(ctx, table, columns, [][]any{row})
}

func (c *Client) insert(ctx context.Context, table string, columns []string, rows [][]any) (Entry, error) {
	path, _, err := (&Where{}).path(table, false)
	if err != nil {
		return Entry{}, err
	}
	return c.change(ctx, http.MethodPost, path, columns, rows)
}

// Update sets columns of the rows that w selects.
func (c *Client) Update(ctx context.Context, table string, w Where, values map[string]any) (Entry, error) {
	path, q, err := w.path(table, true)
	if err != nil {
		return Entry{}, err
	}
	columns, row := split(values)
	return c.change(ctx, http.MethodPatch, withQuery(path, q), columns, [][]any{row})
}

// Delete deletes the rows that w selects.
func (c *Client) Delete(ctx context.Context, table string, w Where) (Entry, error) {
	path, q, err := w.path(table, true)
	if err != nil {
		return Entry{}, err
	}
	return c.change(ctx, http.MethodDelete, withQuery(path, q), nil, nil)
}

// change sends a change and reads the entry that answers it.
func (c *Client) change(ctx context.Context, method, path string, columns []string, rows [][]any) (e Entry, err error) {
	req := &httpconn.Request{Method: method, Path: path, Header: c.header}
	if rows != nil {
		if req.Body, err = appendRowset(nil, columns, rows); err != nil {
			return e, err
		}
	}
	resp, err := c.do.Do(ctx, req)
	if err != nil {
		return e, err
	}
	if resp.Status != http.StatusOK && resp.Status != http.StatusCreated {
		return e, c.failed(resp, mainstem.NotWritten)
	}
	defer func() { _ = resp.Close() }() // an answer cut short is an error of reading
	body, err := unpack(resp)
	if err != nil {
		return e, withOutcome(err, mainstem.Unknown)
	}
	r := rowjson.NewReader(body, &rowjson.Limits{MaxBytes: maxException})
	err = r.Object(func(key string) error {
		if key != "entry" {
			return r.Skip()
		}
		return r.Object(func(key string) (err error) { return e.read(r, key) })
	})
	if err != nil {
		return e, withOutcome(err, mainstem.Unknown)
	}
	if e.URI == "" {
		e.URI = resp.Location
	}
	return e, nil
}

func (e *Entry) read(r *rowjson.Reader, key string) (err error) {
	switch key {
	case "affectedRows":
		e.Affected, err = r.Int()
	case "keyField":
		var escaped string
		if escaped, err = r.Text(); err != nil {
			return err
		}
		if e.KeyField, err = url.PathUnescape(escaped); err != nil {
			e.KeyField, err = escaped, nil // a server that does not escape
		}
	case "uri":
		e.URI, err = r.Text()
	default:
		err = r.Skip()
	}
	return err
}

// afterSome returns the error of an insert after n rows were inserted. Its outcome is
// unknown only if that of the request that failed is.
func afterSome(err error, n int64) error {
	out := mainstem.Errorf(mainstem.KindOf(err), "omnirest", "after %d rows were inserted: %w", n, err)
	if errors.Is(err, mainstem.ErrUnknownOutcome) {
		out.Outcome = mainstem.Unknown
	}
	return out
}

// missed returns err, but Unavailable if it is a 404 of something before the object server.
func missed(err error) error {
	var (
		e      *mainstem.Error
		status *StatusError
	)
	if !errors.As(err, &e) || !errors.As(err, &status) || status.Status != http.StatusNotFound || status.own {
		return err
	}
	later := *e
	later.Kind = mainstem.KindUnavailable
	return &later
}

// bulkRows is how many rows are sent in one request.
const bulkRows = 1000

// InsertMany inserts rows; columns names what the values of each are for. Mainstem is
// sent up to a thousand rows in one request, which are inserted together; any other
// server one row at a time. It returns how many rows were inserted before the first error.
// NotFound is what the object server itself says of the table or a column: a 404 of a proxy
// before it is Unavailable, as the rows can be inserted when the server is back.
func (c *Client) InsertMany(ctx context.Context, table string, columns []string, rows [][]any) (int64, error) {
	at := 1
	if len(rows) > 1 {
		bulk, err := c.Mainstem(ctx)
		if err != nil {
			return 0, withOutcome(err, mainstem.NotWritten)
		}
		if bulk {
			at = bulkRows
		}
	}
	done := int64(0)
	for len(rows) > 0 {
		n := min(at, len(rows))
		e, err := c.insert(ctx, table, columns, rows[:n])
		if err != nil {
			err = missed(err)
			if done > 0 {
				return done, afterSome(err, done)
			}
			return done, err
		}
		done += e.Affected
		rows = rows[n:]
	}
	return done, nil
}

// InsertRows inserts rows; see InsertMany. The interface has nothing for updating, the
// columns that an INSERT names after UPDATING: they are Unsupported.
func (c *Client) InsertRows(ctx context.Context, table string, columns []string, rows [][]any, updating ...string) error {
	if len(updating) > 0 {
		return mainstem.Refusef(mainstem.KindUnsupported, "omnirest", "the HTTP interface cannot insert with UPDATING %s", strings.Join(updating, ", ")).
			WithHint("use SQL")
	}
	_, err := c.InsertMany(ctx, table, columns, rows)
	return err
}
