package client

import (
	"bytes"
	"context"
	"unicode/utf8"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/omnirest/rowjson"
)

// results does a request and reads the entries of its answer. The answer is copied
// once, without white space, and the rows are pieces of the copy.
func (c *Client) results(ctx context.Context, sql string, clusters []string, m *Merge) ([]Result, error) {
	resp, err := c.ask(ctx, "", sql, clusters, m)
	if err != nil {
		return nil, err
	}
	body, err := c.body(resp)
	_ = resp.Close() // the body is there, or err says why not
	if err != nil {
		return nil, unknown(err)
	}
	if !utf8.Valid(body) {
		body = bytes.ToValidUTF8(body, []byte("\uFFFD")) // now nothing becomes longer in the copy
	}
	r := rowjson.NewReader(bytes.NewReader(body), &c.limits)
	defer r.Release()
	// Rows are never longer in the copy than in the answer, so they overwrite what was read.
	s := scan{r: r, keep: body[:0]}
	if err := s.entries(); err != nil {
		return nil, unknown(err)
	}
	return s.results, nil
}

// scan reads an answer.
type scan struct {
	r       *rowjson.Reader
	keep    []byte
	results []Result
}

func (s *scan) entries() error {
	s.results = make([]Result, 0, 2)
	err := s.r.Array(func() error {
		s.results = append(s.results, Result{})
		e := &s.results[len(s.results)-1]
		return s.r.Object(func(key string) error {
			if key == "rows" {
				return s.rows(e)
			}
			return e.read(s.r, key, nil)
		})
	})
	if err == nil {
		err = s.r.End()
	}
	return err
}

func (s *scan) rows(e *Result) error {
	return s.r.Array(func() (err error) {
		if c, err := s.r.Peek(); err == nil && c != '{' {
			return mainstem.Errorf(mainstem.KindCorrupt, "coordinator client", "a row begins with %q", c).WithOutcome(mainstem.Unknown)
		}
		from := len(s.keep)
		if s.keep, err = s.r.Value(s.keep); err != nil {
			return err
		}
		if e.Rows == nil {
			e.Rows = make([]Row, 0, 10)
		}
		e.Rows = append(e.Rows, rowjson.NewRow(s.keep[from:len(s.keep):len(s.keep)]))
		return nil
	})
}

// read reads what an entry or a line has besides rows. names keeps one copy of each name.
func (e *Result) read(r *rowjson.Reader, key string, names map[string]string) (err error) {
	switch key {
	case "clusterName":
		e.Cluster, err = r.Text()
		if known, ok := names[e.Cluster]; ok {
			e.Cluster = known
		} else if names != nil {
			names[e.Cluster] = e.Cluster
		}
	case "affectedRows":
		e.Affected, err = r.Int()
	case "error":
		e.Err = &Error{}
		return e.Err.read(r)
	default:
		err = r.Skip()
	}
	return err
}

func (e *Error) read(r *rowjson.Reader) error {
	return r.Object(func(key string) (err error) {
		switch key {
		case "error":
			e.Code, err = r.Text()
		case "message":
			e.Message, err = r.Text()
		case "reason":
			e.Reason, err = r.Text()
		default:
			err = r.Skip()
		}
		return err
	})
}
