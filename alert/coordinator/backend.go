package coordinator

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/omnirest"
	"github.com/mainstemdev/mainstem/alert/omnirest/httpconn"
)

// Credential is a name and a password, as a client gave them.
type Credential struct{ User, Password string }

// credentialKey stands for a credential in a pool: a keyed hash of all of it, so that
// connections are never found by the name alone, and the pool holds no password.
type credentialKey [sha256.Size]byte

// keyOf returns the key of a credential; two are the same only if both parts are.
func keyOf(secret []byte, c Credential) credentialKey {
	h := hmac.New(sha256.New, secret)
	b := binary.AppendUvarint(make([]byte, 0, 64+len(c.User)+len(c.Password)), uint64(len(c.User)))
	_, _ = h.Write(append(append(b, c.User...), c.Password...)) // never fails
	var key credentialKey
	h.Sum(key[:0])
	return key
}

// Backend is one object server. Its methods may be called from many goroutines.
type Backend interface {
	// Connect opens a connection for a credential. A wrong one is Denied, here or from
	// the connection's first Query; a server that cannot be reached Unavailable or Closed.
	Connect(ctx context.Context, c Credential) (Conn, error)
	// Ping returns nil if the server is there.
	Ping(ctx context.Context) error
}

// Conn is a connection for one credential. It is used by one goroutine at a time; Close
// may come from another and ends what is waiting, where that is possible.
type Conn interface {
	// Query runs statements and calls row with each row of the last one's result, a JSON
	// object that is lent until row returns. It returns the rows changed or selected. The
	// Outcome of an error says whether the server may have carried out anything.
	Query(ctx context.Context, sql string, row func(json []byte) error) (affected int64, err error)
	// Alive reports whether another Query has a chance, without waiting.
	Alive() bool
	Close() error
}

// HTTPOptions configures [NewHTTPBackend]. Nil and zero fields mean the defaults.
type HTTPOptions struct {
	TLS       *tls.Config
	Label     string // User-Agent
	MaxResult int64
	MaxRow    int
	Timeout   time.Duration // for connecting; default [DefaultDialTimeout]
}

// httpBackend is an object server's HTTP interface.
type httpBackend struct {
	url    string
	target *httpconn.Target
	o      HTTPOptions
}

// NewHTTPBackend returns the object server whose HTTP interface is at address:
// host:port, http://host:port or https://host:port.
func NewHTTPBackend(address string, o *HTTPOptions) (Backend, error) {
	b := &httpBackend{url: address}
	if !strings.Contains(address, "://") {
		b.url = "http://" + address
	}
	if o != nil {
		b.o = *o
	}
	fill(&b.o.Timeout, DefaultDialTimeout)
	var err error
	b.target, err = omnirest.Target(b.url, b.o.TLS)
	return b, err
}

// Connect implements [Backend].
func (b *httpBackend) Connect(ctx context.Context, c Credential) (Conn, error) {
	return b.connect(ctx, c)
}

func (b *httpBackend) connect(ctx context.Context, c Credential) (*httpConn, error) {
	conn := &httpConn{}
	dialed := doerFunc(func(ctx context.Context, r *httpconn.Request) (*httpconn.Response, error) {
		return conn.conn.Do(ctx, r)
	})
	client, err := omnirest.New(b.url, &omnirest.Options{User: c.User, Password: c.Password, TLS: b.o.TLS, Doer: dialed, MaxResult: b.o.MaxResult, MaxRow: b.o.MaxRow, Agent: b.o.Label})
	if err != nil {
		return nil, err
	}
	conn.client = client
	dial, cancel := context.WithTimeout(ctx, b.o.Timeout)
	defer cancel()
	if conn.conn, err = b.target.Dial(dial); err != nil {
		if ctx.Err() == nil && dial.Err() != nil {
			return nil, mainstem.Refusef(mainstem.KindUnavailable, "coordinator", "%s: no connection within %v", b.url, b.o.Timeout)
		}
		return nil, err
	}
	return conn, nil
}

// Ping implements [Backend].
func (b *httpBackend) Ping(ctx context.Context) error {
	conn, err := b.connect(ctx, Credential{})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // it was used for this
	return conn.client.Ping(ctx)
}

type doerFunc func(context.Context, *httpconn.Request) (*httpconn.Response, error)

// Do implements [httpconn.Doer].
func (f doerFunc) Do(ctx context.Context, r *httpconn.Request) (*httpconn.Response, error) {
	return f(ctx, r)
}

// httpConn is one connection to an HTTP interface.
type httpConn struct {
	conn   *httpconn.Conn
	client *omnirest.Client
}

// Query implements [Conn].
func (c *httpConn) Query(ctx context.Context, sql string, row func([]byte) error) (int64, error) {
	return c.client.RawSQL(ctx, sql, func(r omnirest.Row) error { return row(r.Raw()) })
}

// Alive implements [Conn].
func (c *httpConn) Alive() bool { return c.conn.Alive() }

// Close implements [Conn].
func (c *httpConn) Close() error { return c.conn.Close() }
