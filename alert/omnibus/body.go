package omnibus

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
)

var unzips sync.Pool

// body reads the body of the request into a buffer, which the caller releases.
func (x *exchange) body() (*[]byte, error) {
	if err := x.contentType(); err != nil {
		return nil, err
	}
	var src io.Reader = http.MaxBytesReader(x.w, x.r.Body, int64(x.h.o.MaxBody))
	encoding := strings.ToLower(strings.TrimSpace(x.r.Header.Get("Content-Encoding")))
	switch encoding {
	case "", "identity":
	case "gzip":
		z, ok := unzips.Get().(*gzip.Reader)
		if !ok {
			z = new(gzip.Reader)
		}
		defer unzips.Put(z)
		if err := z.Reset(src); err != nil {
			return nil, x.unreadable(err)
		}
		src = io.LimitReader(z, int64(x.h.o.MaxBody)+1)
	default:
		return nil, failed(http.StatusUnsupportedMediaType, mainstem.KindUnsupported, "a body in %.40q: want gzip or none", encoding)
	}
	buf := newBuffer()
	if n := x.r.ContentLength; n > 0 && encoding != "gzip" && n <= int64(x.h.o.MaxBody) && n < keepTo {
		*buf = slices.Grow(*buf, int(n)+1)
	}
	err := x.readAll(buf, src)
	if err != nil {
		release(buf)
		return nil, x.unreadable(err)
	}
	return buf, nil
}

func (x *exchange) contentType() error {
	text := x.r.Header.Get("Content-Type")
	if text == "" && !needContentType {
		return nil
	}
	if text == "application/json" {
		return nil
	}
	name, _, err := mime.ParseMediaType(text)
	if err != nil || name != "application/json" && name != "text/json" {
		return failed(http.StatusUnsupportedMediaType, mainstem.KindUnsupported, "a body of Content-Type %.100q: want application/json", text)
	}
	return nil
}

var errTooLarge = errors.New("the body is too large")

// readAll appends a body to buf.
func (x *exchange) readAll(buf *[]byte, src io.Reader) error {
	b := *buf
	defer func() { *buf = b }()
	defer x.memory.OnRecall(nil, nil)
	for {
		size := cap(b)
		if len(b) == size {
			size = min(2*size, x.h.o.MaxBody+1)
		}
		if err := x.room(min(size, len(b)+bodyChunk)); err != nil {
			return err
		}
		if len(b) == cap(b) {
			b = append(make([]byte, 0, size), b...)
		}
		n, err := x.receive(src, b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case len(b) > x.h.o.MaxBody:
			return errTooLarge
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

func (x *exchange) unreadable(err error) error {
	if mainstem.KindOf(err) == mainstem.KindUnavailable {
		return err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return unavailable("the client stopped in the middle of the body, and others waited for the memory: try later")
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) || errors.Is(err, errTooLarge) {
		return tooLarge("the body has more than %d bytes: send less at a time", x.h.o.MaxBody)
	}
	return badRequest("reading the body: %w", err)
}

// statement returns what a request to sql/factory wants to have run.
func (x *exchange) statement() (string, error) {
	buf, err := x.body()
	if err != nil {
		return "", err
	}
	defer release(buf)
	text, err := decodeStatement(*buf)
	switch {
	case err != nil:
		return "", err
	case len(text) > x.h.o.MaxStatement:
		return "", tooLarge("sqlcmd has %d bytes: the limit is %d", len(text), x.h.o.MaxStatement)
	}
	return text, nil
}

// decodeStatement reads {"sqlcmd": "…"}.
func decodeStatement(body []byte) (string, error) {
	p := newParser(body)
	var text string
	found := false
	err := p.object(func(key string) error {
		if key != "sqlcmd" {
			return p.skip()
		}
		if found {
			return p.errorf("sqlcmd is there twice")
		}
		found = true
		var err error
		text, err = p.string()
		return err
	})
	if err == nil {
		err = p.end()
	}
	switch {
	case err != nil:
		return "", err
	case !found:
		return "", badRequest(`the body has no "sqlcmd": want {"sqlcmd": "select …"}`)
	}
	return text, nil
}

// given is the rows of a body. Cells that a row does not have are nil.
type given struct {
	table   *alert.TableInfo
	columns []string
	index   map[string]int
	rows    [][]any
	limit   int
	room    func(cells int) error // takes memory for so many cells in all
}

// column returns the index of the column called name.
func (g *given) column(name string) (int, error) {
	if i, ok := g.index[name]; ok {
		return i, nil
	}
	if _, err := findColumn(g.table, name); err != nil {
		return 0, err
	}
	g.index[name] = len(g.columns)
	g.columns = append(g.columns, name)
	return len(g.columns) - 1, nil
}

// decodeRows reads {"rowset": {"coldesc": […], "rows": [{…}]}} for a table. The columns are those
// of the rows; coldesc, whose types the server knows better, must be well-formed. Every row gets
// a cell for each column of the others, so a small body may need much memory: room takes it.
func decodeRows(body []byte, t *alert.TableInfo, limit int, room func(cells int) error) (*given, error) {
	p := newParser(body)
	g := &given{table: t, index: map[string]int{}, limit: limit, room: room}
	found := false
	err := p.object(func(key string) error {
		if key != "rowset" {
			return p.skip()
		}
		if found {
			return p.errorf("rowset is there twice")
		}
		found = true
		return p.object(func(key string) error {
			switch key {
			case "coldesc":
				return p.array(p.skipObject)
			case "rows":
				return p.array(func() error { return g.row(p) })
			}
			return p.skip()
		})
	})
	if err == nil {
		err = p.end()
	}
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, badRequest(`the body has no "rowset": want {"rowset": {"coldesc": […], "rows": [{…}]}}`)
	case len(g.rows) == 0:
		return nil, badRequest(`the rowset has no "rows": give at least one`)
	}
	if err := room(len(g.rows) * len(g.columns)); err != nil {
		return nil, err
	}
	for i, row := range g.rows {
		for len(row) < len(g.columns) {
			row = append(row, nil)
		}
		g.rows[i] = row
	}
	return g, nil
}

// row reads one row.
func (g *given) row(p *parser) error {
	if len(g.rows) == g.limit {
		return tooLarge("the body has more than %d rows: send less at a time", g.limit)
	}
	if err := g.room((len(g.rows) + 1) * len(g.columns)); err != nil {
		return err
	}
	row := make([]any, len(g.columns))
	err := p.object(func(name string) error {
		i, err := g.column(name)
		switch {
		case err != nil:
			return err
		case i == len(row):
			row = append(row, nil)
		case row[i] != nil:
			return p.errorf("the column %.40q is there twice", name)
		}
		v, err := p.value()
		row[i] = v
		return err
	})
	if err == nil && len(row) == 0 {
		err = p.errorf("the row has no columns")
	}
	g.rows = append(g.rows, row)
	return err
}
