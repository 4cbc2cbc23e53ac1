package omnirest

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/omnirest/httpconn"
	"github.com/mainstemdev/mainstem/alert/omnirest/rowjson"
)

// Prefix is the path below which the interface is.
const Prefix = "/objectserver/restapi"

// The defaults of [Options].
const (
	DefaultMaxResult = rowjson.DefaultMaxBytes
	DefaultMaxRow    = rowjson.DefaultMaxValue
	maxException     = 1 << 20 // bytes of an answer that is an error
)

// Options configures [New]. Nil and zero fields mean the defaults.
type Options struct {
	// User and Password are sent with each request; an empty User sends none.
	User, Password string
	// TLS is for https://. Default: the authorities of the system.
	TLS *tls.Config
	// MaxConns bounds the connections; requests beyond wait. Default [httpconn.DefaultMaxConns].
	MaxConns int
	// IdleTimeout is how long a connection is kept unused. Default [httpconn.DefaultIdleTimeout].
	IdleTimeout time.Duration
	// HTTPClient does the requests instead of connections of the client's own: for
	// proxies, and for a transport of one's own. TLS, MaxConns and IdleTimeout are then those of its transport.
	HTTPClient *http.Client
	// Doer does the requests instead, for instance on one connection; the caller closes it.
	Doer httpconn.Doer
	// MaxResult bounds the bytes of an answer. Default [DefaultMaxResult].
	MaxResult int64
	// MaxRow bounds the bytes of a row. Default [DefaultMaxRow].
	MaxRow int
	// Compress asks for large answers in gzip.
	Compress bool
	// Agent is the User-Agent of the requests. Default: none.
	Agent string
}

// Client is a client of one server. Make it with [New].
type Client struct {
	do       httpconn.Doer
	pool     *httpconn.Pool // nil if the connections are somebody else's
	header   []byte         // of all requests
	limits   rowjson.Limits
	mainstem atomic.Int32 // 1: the server is Mainstem, -1: it is not, 0: no answer has said it
}

// New returns a client of the server at baseURL, such as "http://host:8080", without
// connecting. What cannot be is Invalid.
func New(baseURL string, o *Options) (*Client, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.MaxResult < 0 || opts.MaxRow < 0 || opts.MaxConns < 0 || opts.IdleTimeout < 0 {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "omnirest", "a limit in the options is negative: want 0 (the default) or more")
	}
	if strings.Contains(opts.User, ":") {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "omnirest", "the user %q: a name with a colon cannot be sent", opts.User)
	}
	if strings.ContainsAny(opts.Agent, "\r\n") {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "omnirest", "the agent %q has a line end", opts.Agent)
	}
	target, err := httpconn.ParseTarget(strings.TrimRight(baseURL, "/")+Prefix, opts.TLS)
	if err != nil {
		return nil, err
	}
	c := &Client{limits: rowjson.Limits{
		MaxBytes: cmp.Or(opts.MaxResult, DefaultMaxResult), MaxValue: cmp.Or(opts.MaxRow, DefaultMaxRow), TrimNUL: true}}
	c.header = appendHeader(nil, &opts)
	switch {
	case opts.Doer != nil:
		c.do = opts.Doer
	case opts.HTTPClient != nil:
		c.do = &httpconn.Standard{Client: opts.HTTPClient, Target: target}
	default:
		c.pool = httpconn.NewPool(target, &httpconn.PoolOptions{MaxConns: opts.MaxConns, IdleTimeout: opts.IdleTimeout})
		c.do = c.pool
	}
	return c, nil
}

// Target returns the target of the server at baseURL, for connections that are given
// to [Options.Doer].
func Target(baseURL string, config *tls.Config) (*httpconn.Target, error) {
	return httpconn.ParseTarget(strings.TrimRight(baseURL, "/")+Prefix, config)
}

func appendHeader(b []byte, o *Options) []byte {
	b = append(b, acceptJSON...)
	if o.User != "" {
		b = append(b, "Authorization: Basic "...)
		b = base64.StdEncoding.AppendEncode(b, []byte(o.User+":"+o.Password))
		b = append(b, "\r\n"...)
	}
	if o.Agent != "" {
		b = append(append(append(b, "User-Agent: "...), o.Agent...), "\r\n"...)
	}
	if o.Compress {
		b = append(b, "Accept-Encoding: gzip\r\n"...)
	}
	return append(b, "Content-Type: application/json\r\n"...)
}

// Close closes the client's connections. Those given in the options stay open.
// Closing twice is allowed.
func (c *Client) Close() error {
	if c.pool == nil {
		return nil
	}
	return c.pool.Close()
}

// Ping returns nil if the server answers, whatever it thinks of the user.
func (c *Client) Ping(ctx context.Context) error {
	resp, err := c.do.Do(ctx, &httpconn.Request{Method: http.MethodGet, Path: systemPath, Header: c.header})
	if err != nil {
		return err
	}
	if resp.Status >= http.StatusInternalServerError {
		return c.failed(resp, mainstem.NoOutcome)
	}
	return resp.Close()
}

// systemPath is where the information about the server is. IBM's guide does not say
// where that is; a server without it answers, and is not Mainstem.
const systemPath = "/sysinfo"

// Mainstem reports whether the server is Mainstem. It asks until an answer says so or that it is not:
// an error of the server, or of a proxy before it, does not.
func (c *Client) Mainstem(ctx context.Context) (bool, error) {
	if known := c.mainstem.Load(); known != 0 {
		return known > 0, nil
	}
	var product string
	_, err := c.rows(ctx, &httpconn.Request{Method: http.MethodGet, Path: systemPath, Header: c.header}, mainstem.NoOutcome, nil, func(row Row) error {
		product = row.Text("Product")
		return nil
	})
	var refused *StatusError
	switch kind := mainstem.KindOf(err); {
	case err == nil && product == "Mainstem":
		c.mainstem.Store(1)
		return true, nil
	case err == nil:
		c.mainstem.Store(-1)
	case kind == mainstem.KindUnavailable || kind == mainstem.KindCanceled || kind == mainstem.KindDenied:
		return false, err
	case errors.As(err, &refused) && (kind == mainstem.KindNotFound || kind == mainstem.KindUnsupported || kind == mainstem.KindInvalid):
		c.mainstem.Store(-1)
	}
	return false, nil
}
