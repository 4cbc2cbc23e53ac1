package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/omnibus"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// users are the names, passwords and roles of the tests.
type users map[Credential]omnibus.Role

var people = users{{"root", "secret"}: omnibus.Admin, {"other", "secret"}: omnibus.Admin, {"reader", "r"}: omnibus.Reader}

func (u users) Authenticate(_ context.Context, name, password string) (omnibus.Identity, error) {
	role, ok := u[Credential{name, password}]
	if !ok {
		return omnibus.Identity{}, &mainstem.Error{Kind: mainstem.KindDenied}
	}
	return omnibus.Identity{User: name, Role: role}, nil
}

func (u users) in(ctx context.Context, c Credential) (alert.SessionInfo, error) {
	id, err := u.Authenticate(ctx, c.User, c.Password)
	return alert.SessionInfo{User: id.User, ReadOnly: id.Role == omnibus.Reader}, err
}

// table opens an object server.
func table(t testing.TB, name string) *alert.Server {
	t.Helper()
	s, err := alert.Open(context.Background(), testengines.Memory(t), &alert.Options{Name: name, Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// site is the HTTP interface of an object server, which can be killed and started again.
type site struct {
	t       testing.TB
	table   *alert.Server
	handler *omnibus.Handler
	addr    string
	web     *http.Server
	done    chan struct{}
}

func newSite(t testing.TB, s *alert.Server) *site {
	t.Helper()
	h, err := omnibus.New(s, &omnibus.Options{Users: people})
	if err != nil {
		t.Fatal(err)
	}
	x := &site{t: t, table: s, handler: h, addr: testport.Address(t)}
	x.start()
	t.Cleanup(func() {
		x.kill()
		_ = h.Close()
	})
	return x
}

func (x *site) start() {
	l, err := net.Listen("tcp", x.addr)
	if err != nil {
		x.t.Fatal(err)
	}
	x.web, x.done = &http.Server{Handler: x.handler}, make(chan struct{})
	go func() {
		defer close(x.done)
		_ = x.web.Serve(l)
	}()
}

// kill ends the server with all of its connections.
func (x *site) kill() {
	_ = x.web.Close()
	<-x.done
}

// patient are the timeouts of tests that do not wait for one.
func patient(c *Config) *Config {
	o := &c.OMNIbus
	o.HealthTimeout, o.QueryTimeout, o.WaitTimeout, o.DialTimeout = testkit.Patience, testkit.Patience, testkit.Patience, testkit.Patience
	return c
}

// quick are intervals for tests, with timeouts that none of them waits for.
func quick(clusters map[string][]string) *Config {
	c := &Config{}
	c.OMNIbus.Clusters = clusters
	c.OMNIbus.HealthInterval = 20 * time.Millisecond
	c.OMNIbus.FailBackDelay = time.Hour
	c.OMNIbus.BreakerDelay = 50 * time.Millisecond
	return patient(c)
}

// front is a coordinator behind HTTP.
type front struct {
	t   testing.TB
	c   *Coordinator
	web *httptest.Server
}

func newFront(t testing.TB, config *Config, o *Options) *front {
	t.Helper()
	c, err := Open(config, o)
	if err != nil {
		t.Fatal(err)
	}
	f := &front{t: t, c: c, web: httptest.NewServer(c.Handler())}
	t.Cleanup(func() {
		f.web.Close()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// answered is an entry of an answer.
type answered struct {
	ClusterName  string
	Rows         []map[string]any
	AffectedRows int64
	Error        *struct{ Error, Message, Reason string }
}

func (a *answered) code() string {
	if a.Error == nil {
		return ""
	}
	return a.Error.Error
}

// post sends a body to /rawSQL; header has names and values in turn.
func (f *front) post(user, password, body string, header ...string) (*http.Response, string) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.web.URL+"/rawSQL", strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.SetBasicAuth(user, password)
	req.Header.Set("X-Request-Id", "id-1")
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := f.web.Client().Do(req)
	if err != nil {
		f.t.Error(err)
		return &http.Response{}, ""
	}
	defer func() { _ = resp.Body.Close() }()
	p, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Error(err)
	}
	return resp, string(p)
}

// as runs a statement and returns the entries by cluster.
func (f *front) as(user, password, sql string, clusters ...string) map[string]answered {
	f.t.Helper()
	body, err := json.Marshal(map[string]any{"sql": sql, "clusters": clusters})
	if err != nil {
		f.t.Fatal(err)
	}
	resp, text := f.post(user, password, string(body))
	if resp.StatusCode != http.StatusOK {
		f.t.Errorf("%s: %s %s", sql, resp.Status, text)
	}
	var list []answered
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		f.t.Errorf("%s: %v in %s", sql, err, text)
	}
	out := map[string]answered{}
	for _, a := range list {
		out[a.ClusterName] = a
	}
	return out
}

func (f *front) sql(sql string, clusters ...string) map[string]answered {
	f.t.Helper()
	return f.as("root", "secret", sql, clusters...)
}

// fake is an object server that does what a test says.
type fake struct {
	name string
	mu   sync.Mutex
	down error // of Connect and Ping
	// query is what a connection does; nil: it answers with its server and user.
	query   func(ctx context.Context, c *fakeConn, sql string, row func([]byte) error) (int64, error)
	wrong   func(Credential) error
	conns   []*fakeConn
	open    int
	most    int
	queries []string
}

type fakeConn struct {
	s      *fake
	cred   Credential
	mu     sync.Mutex
	dead   bool // Alive is false
	closed bool
	used   int
}

func (s *fake) Connect(_ context.Context, c Credential) (Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return nil, s.down
	}
	if s.wrong != nil {
		if err := s.wrong(c); err != nil {
			return nil, err
		}
	}
	conn := &fakeConn{s: s, cred: c}
	s.conns = append(s.conns, conn)
	s.open++
	s.most = max(s.most, s.open)
	return conn, nil
}

func (s *fake) Ping(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

func (s *fake) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *fake) get(f func() int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f()
}

func (c *fakeConn) Query(ctx context.Context, sql string, row func([]byte) error) (int64, error) {
	c.s.mu.Lock()
	do := c.s.query
	c.s.queries = append(c.s.queries, sql)
	c.s.mu.Unlock()
	c.mu.Lock()
	c.used++
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return 0, errors.New("a closed connection was used")
	}
	if do != nil {
		return do(ctx, c, sql, row)
	}
	return 1, row(fmt.Appendf(nil, `{"Server":%q,"User":%q,"Password":%q}`, c.s.name, c.cred.User, c.cred.Password))
}

func (c *fakeConn) Alive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.dead && !c.closed
}

func (c *fakeConn) Close() error {
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	c.mu.Unlock()
	if !closed {
		c.s.set(func() { c.s.open-- })
	}
	return nil
}

// refusing is what a server that is down answers a dial with, and cut what a
// connection returns that is lost after the statement was sent.
var (
	refusing = &mainstem.Error{Kind: mainstem.KindUnavailable, Outcome: mainstem.NotWritten, Err: errors.New("connection refused")}
	cut      = &mainstem.Error{Kind: mainstem.KindUnavailable, Outcome: mainstem.Unknown, Err: io.ErrUnexpectedEOF}
)
