// Package client is a client of the alert coordinator: it sends a statement to many
// clusters of object servers and reads what each of them answers.
//
// # Words
//
// A [Client] is for one coordinator and one user. [Client.RawSQL] runs a statement on
// the clusters that it names, or on all; a [Result] is what one of them answered, its rows
// or its error. [Client.Each] gives rows to a function as they come, and holds none.
//
//	c, err := client.New("http://127.0.0.1:5000", &client.Options{User: "root", Password: secret})
//	results, err := c.RawSQL(ctx, "select Node, Severity from alerts.status where Severity > 3")
//	for _, r := range results {
//		for _, row := range r.Rows { fmt.Println(r.Cluster, row.Text("Node"), row.Int("Severity")) }
//	}
//
// # Guarantees
//
// That a cluster failed is in its result, and the others' are whole. Rows are the bytes
// of the answer: nothing is decoded before it is asked for. No request is sent twice, but
// for one that certainly was not sent.
//
// # Errors
//
// Of the request: *mainstem.Error with an [*Error] as its cause if the coordinator answered:
// Denied, Invalid, Unavailable; Unavailable with an unknown outcome if its answer was
// lost. Of a cluster: [*Error].
//
// # Concurrency and ownership
//
// A Client may be used by many goroutines. Results belong to the caller; the rows of one
// answer share memory. Rows given to a function are lent until it returns.
//
// # Limits
//
// [Options] bounds the bytes of an answer and of a row, and the connections.
//
// # Testing
//
// The tests run against package coordinator, and with answers that make no sense.
//
//snippet:var secret string
package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/omnirest/httpconn"
	"github.com/mainstemdev/mainstem/alert/omnirest/rowjson"
)

// The defaults of [Options].
const (
	DefaultMaxResult = 1 << 30
	DefaultMaxRow    = rowjson.DefaultMaxValue
)

// Row is a row as the cluster sent it.
type Row = rowjson.Row

// Options configures [New]. Nil and zero fields mean the defaults.
type Options struct {
	User, Password string
	// TLS is for https://. Default: the authorities of the system.
	TLS *tls.Config
	// MaxConns bounds the connections; requests beyond wait. Default [httpconn.DefaultMaxConns].
	MaxConns int
	// IdleTimeout is how long a connection is kept unused. Default [httpconn.DefaultIdleTimeout].
	IdleTimeout time.Duration
	// HTTPClient does the requests instead of connections of the client's own.
	HTTPClient *http.Client
	// MaxResult bounds the bytes of an answer. Default [DefaultMaxResult].
	MaxResult int64
	// MaxRow bounds the bytes of a row. Default [DefaultMaxRow].
	MaxRow int
	// RequestID returns the X-Request-Id of a request. Default: a random text and a number.
	RequestID func() string
}

// Client is a client of one coordinator. Make it with [New].
type Client struct {
	do     httpconn.Doer
	pool   *httpconn.Pool // nil if the connections are somebody else's
	header []byte         // of all requests
	limits rowjson.Limits
	id     func() string
	prefix string
	count  atomic.Uint64
}

// New returns a client of the coordinator at baseURL, without connecting.
func New(baseURL string, o *Options) (*Client, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.MaxResult < 0 || opts.MaxRow < 0 || opts.MaxConns < 0 || opts.IdleTimeout < 0 {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "coordinator client", "a limit in the options is negative: want 0 (the default) or more")
	}
	if strings.Contains(opts.User, ":") {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "coordinator client", "the user %q: a name with a colon cannot be sent", opts.User)
	}
	target, err := httpconn.ParseTarget(baseURL, opts.TLS)
	if err != nil {
		return nil, err
	}
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, &mainstem.Error{Kind: mainstem.KindInternal, Op: "coordinator client", Err: err}
	}
	c := &Client{
		id: opts.RequestID, prefix: hex.EncodeToString(random[:]) + "-",
		limits: rowjson.Limits{MaxBytes: cmp.Or(opts.MaxResult, DefaultMaxResult), MaxValue: cmp.Or(opts.MaxRow, DefaultMaxRow)},
	}
	if opts.User != "" {
		c.header = append(c.header, "Authorization: Basic "...)
		c.header = base64.StdEncoding.AppendEncode(c.header, []byte(opts.User+":"+opts.Password))
		c.header = append(c.header, "\r\n"...)
	}
	if opts.HTTPClient != nil {
		c.do = &httpconn.Standard{Client: opts.HTTPClient, Target: target}
		return c, nil
	}
	c.pool = httpconn.NewPool(target, &httpconn.PoolOptions{MaxConns: opts.MaxConns, IdleTimeout: opts.IdleTimeout})
	c.do = c.pool
	return c, nil
}

// Close closes the client's connections. Closing twice is allowed.
func (c *Client) Close() error {
	if c.pool == nil {
		return nil
	}
	return c.pool.Close()
}

// Error is an error as the coordinator says it, of a request or of one cluster.
type Error struct {
	Code    string // "ERR_UNAVAILABLE" and the like
	Message string
	Reason  string // more about it, or ""
	Status  int    // of HTTP; 0 for the error of a cluster
}

// Error returns the code, the message and the reason.
func (e *Error) Error() string {
	s := e.Code + ": " + e.Message
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

// Result is what one cluster answered.
type Result struct {
	Cluster  string // "*" for merged rows
	Rows     []Row  // nil where they are given to a function
	Affected int64  // rows that were changed, or selected
	Err      *Error // nil if the cluster did what it was asked
}

// Merge asks for the rows of all clusters as one result.
type Merge struct {
	OrderBy       []string // columns, each with asc or desc
	Limit         int      // rows; 0: all
	ClusterColumn string   // adds a column with the name of the cluster
}

// RawSQL runs a statement on the named clusters, or on all, and returns their whole
// answers, in any order. Unknown names are ignored.
func (c *Client) RawSQL(ctx context.Context, sql string, clusters ...string) ([]Result, error) {
	return c.results(ctx, sql, clusters, nil)
}

// Merged runs a statement and returns the rows of all clusters as one result, and the
// results of the clusters that failed.
func (c *Client) Merged(ctx context.Context, m Merge, sql string, clusters ...string) (Result, []Result, error) {
	results, err := c.results(ctx, sql, clusters, &m)
	if err != nil {
		return Result{}, nil, err
	}
	if len(results) == 0 || results[0].Cluster != "*" {
		return Result{}, nil, mainstem.Errorf(mainstem.KindCorrupt, "coordinator client", "the answer has no merged rows").WithOutcome(mainstem.Unknown)
	}
	return results[0], results[1:], nil
}

// message is the memory for a request.
type message struct{ header, body []byte }

var messages = sync.Pool{New: func() any { return new(message) }}

// keepMessage is the most that is kept of the memory for a request.
const keepMessage = 64 << 10

func (m *message) free() {
	if cap(m.body) <= keepMessage {
		messages.Put(m)
	}
}

func appendBody(b []byte, sql string, clusters []string, m *Merge) []byte {
	b = append(b, `{"sql":`...)
	b = rowjson.AppendString(b, sql)
	if len(clusters) > 0 {
		b = appendStrings(append(b, `,"clusters":`...), clusters)
	}
	if m != nil {
		b = append(b, `,"merge":{"limit":`...)
		b = strconv.AppendInt(b, int64(m.Limit), 10)
		b = rowjson.AppendString(append(b, `,"clusterColumn":`...), m.ClusterColumn)
		b = appendStrings(append(b, `,"orderBy":`...), m.OrderBy)
		b = append(b, '}')
	}
	return append(b, '}')
}

func appendStrings(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = rowjson.AppendString(b, s)
	}
	return append(b, ']')
}

// ask sends a statement and returns the answer if that is not an error.
func (c *Client) ask(ctx context.Context, accept, sql string, clusters []string, merge *Merge) (*httpconn.Response, error) {
	m, ok := messages.Get().(*message)
	if !ok {
		m = new(message)
	}
	defer m.free()
	m.body = appendBody(m.body[:0], sql, clusters, merge)
	return c.request(ctx, http.MethodPost, "/rawSQL", accept, m)
}

// request sends a request and returns its answer if that is not an error.
func (c *Client) request(ctx context.Context, method, path, accept string, m *message) (*httpconn.Response, error) {
	header := append(m.header[:0], c.header...)
	header = append(header, "X-Request-Id: "...)
	if c.id != nil {
		id := c.id()
		if id == "" || strings.ContainsAny(id, "\r\n") {
			return nil, mainstem.Refusef(mainstem.KindInvalid, "coordinator client", "the request ID %q: want a text without line ends", id)
		}
		header = append(header, id...)
	} else {
		header = strconv.AppendUint(append(header, c.prefix...), c.count.Add(1), 10)
	}
	if accept != "" {
		header = append(append(header, "\r\nAccept: "...), accept...)
	}
	if m.body != nil {
		header = append(header, "\r\nContent-Type: application/json"...)
	}
	header = append(header, "\r\n"...)
	m.header = header
	resp, err := c.do.Do(ctx, &httpconn.Request{Method: method, Path: path, Header: header, Body: m.body})
	if err != nil {
		return nil, err
	}
	if resp.Status != http.StatusOK {
		return nil, failed(resp)
	}
	return resp, nil
}

const maxError = 64 << 10 // bytes of an answer that is an error

// failed makes an answer an error.
func failed(resp *httpconn.Response) error {
	defer func() { _ = resp.Close() }() // the answer says enough
	e := &Error{Status: resp.Status}
	r := rowjson.NewReader(resp.Body, &rowjson.Limits{MaxBytes: maxError})
	if err := e.read(r); err != nil || e.Code == "" {
		e.Code, e.Message = "ERR_UNKNOWN", fmt.Sprintf("the server answered %d %s", resp.Status, http.StatusText(resp.Status))
	}
	kind := mainstem.KindInternal
	switch {
	case resp.Status == http.StatusUnauthorized || resp.Status == http.StatusForbidden:
		kind = mainstem.KindDenied
	case resp.Status == http.StatusServiceUnavailable || resp.Status == http.StatusBadGateway || resp.Status == http.StatusGatewayTimeout:
		kind = mainstem.KindUnavailable
	case resp.Status == http.StatusNotFound:
		kind = mainstem.KindNotFound
	case resp.Status >= 400 && resp.Status < 500:
		kind = mainstem.KindInvalid
	}
	o := mainstem.NotWritten
	if resp.Status >= http.StatusInternalServerError && e.Code == "ERR_UNKNOWN" {
		o = mainstem.Unknown
	}
	return &mainstem.Error{Kind: kind, Op: "coordinator client", Outcome: o, Err: e}
}

// ClusterNames returns the names of the clusters, in any order.
func (c *Client) ClusterNames(ctx context.Context) ([]string, error) {
	resp, err := c.request(ctx, http.MethodGet, "/clusterNames", "", &message{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Close() }() // an answer cut short is an error of reading
	r := rowjson.NewReader(resp.Body, &c.limits)
	names := []string{}
	err = r.Array(func() error {
		name, err := r.Text()
		names = append(names, name)
		return err
	})
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return nil, err
	}
	return names, nil
}

// Each runs a statement on the named clusters, or on all, and calls do with each row as
// it comes: the rows of each cluster in order, those of several in between. An error of do
// ends it. The results that it returns have no rows.
func (c *Client) Each(ctx context.Context, do func(cluster string, row Row) error, sql string, clusters ...string) ([]Result, error) {
	resp, err := c.ask(ctx, "application/x-ndjson", sql, clusters, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Close() }() // an answer cut short is an error of reading
	var results []Result
	r := rowjson.NewReader(resp.Body, &c.limits)
	names := map[string]string{}
	var raw []byte
	for {
		if _, err := r.Peek(); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) && resp.Ended() {
				return results, nil // between two lines
			}
			return results, unknown(err)
		}
		var line Result
		done, row := false, false
		err := r.Object(func(key string) (err error) {
			switch key {
			case "row":
				raw, err = r.Value(raw[:0])
				row = true
				return err
			case "affectedRows":
				done = true
			}
			return line.read(r, key, names)
		})
		switch {
		case err != nil:
			return results, unknown(err)
		case done:
			results = append(results, line)
		case row:
			if err := do(line.Cluster, rowjson.NewRow(raw)); err != nil {
				return results, err
			}
		}
	}
}

// unknown says that it is not known what the clusters did: their answer was lost.
func unknown(err error) error {
	var e *mainstem.Error
	if !errors.As(err, &e) || e.Outcome == mainstem.Unknown {
		return err
	}
	return e.WithOutcome(mainstem.Unknown)
}

// body reads an answer whole, within the limit.
func (c *Client) body(resp *httpconn.Response) ([]byte, error) {
	tooLong := func() error {
		return mainstem.Refusef(mainstem.KindInvalid, "coordinator client", "the answer has more than %d bytes: ask for less, or raise Options.MaxResult", c.limits.MaxBytes)
	}
	if resp.Length > c.limits.MaxBytes {
		return nil, tooLong()
	}
	if resp.Length >= 0 {
		p := make([]byte, resp.Length)
		_, err := io.ReadFull(resp.Body, p)
		return p, err
	}
	p, err := io.ReadAll(io.LimitReader(resp.Body, c.limits.MaxBytes+1))
	if err == nil && int64(len(p)) > c.limits.MaxBytes {
		err = tooLong()
	}
	return p, err
}
