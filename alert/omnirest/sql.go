package omnirest

import (
	"context"
	"net/http"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/omnirest/httpconn"
	"github.com/mainstemdev/mainstem/alert/omnirest/rowjson"
)

// SQL runs a statement and returns its whole result.
func (c *Client) SQL(ctx context.Context, text string) (*Result, error) {
	var k keeper
	res, err := c.EachSQL(ctx, text, k.keep)
	if err != nil {
		return nil, err
	}
	res.Rows = k.rows
	return res, nil
}

// EachSQL runs a statement and calls do with each row of its result as it comes; an
// error of do ends it. The result that it returns has no rows.
func (c *Client) EachSQL(ctx context.Context, text string, do func(Row) error) (*Result, error) {
	res := &Result{}
	if _, err := c.rows(ctx, c.factory(text), writes(text), res, do); err != nil {
		return nil, err
	}
	return res, nil
}

// RawSQL runs a statement, calls do with each row, and returns how many were changed
// or selected: it is quicker than EachSQL by what it does not read.
func (c *Client) RawSQL(ctx context.Context, text string, do func(Row) error) (affected int64, err error) {
	return c.rows(ctx, c.factory(text), writes(text), nil, do)
}

func (c *Client) factory(text string) *httpconn.Request {
	body := append(make([]byte, 0, len(text)+len(text)/8+16), `{"sqlcmd":`...)
	body = append(rowjson.AppendString(body, text), '}')
	return &httpconn.Request{Method: http.MethodPost, Path: "/sql/factory", Header: c.header, Body: body}
}

// writes returns the outcome that an error of the server has: none for a query,
// Unknown if several statements may have been begun.
func writes(text string) mainstem.Outcome {
	word, _, _ := strings.Cut(strings.TrimLeft(text, " \t\r\n"), " ")
	switch several := strings.ContainsAny(strings.TrimRight(text, "; \t\r\n"), ";\n"); {
	case several:
		return mainstem.Unknown
	case strings.EqualFold(word, "select") || strings.EqualFold(word, "describe"):
		return mainstem.NoOutcome
	}
	return mainstem.NotWritten
}
