package omnibus

import (
	"context"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/internal/budget"
)

// Handler serves the tables of one server over HTTP. Make it with [New]. All
// methods may be called from many goroutines.
type Handler struct {
	server  *alert.Server
	o       Options
	metrics *metrics
	memory  *budget.Budget // of bodies; nil: without a limit
	slots   chan struct{}  // one for each request that is served
	feeds   chan struct{}  // one for each feed that is open
	nonce   uint64         // of ETags that depend on the server, see exchange.unchanged

	sessions sessions

	maxPending int           // see maxPending
	memoryWait time.Duration // see memoryWait
	stopping   chan struct{} // closed by Close
	mu         struct {
		sync.Mutex
		closed  bool
		running int
		idle    chan struct{} // closed when closed and nothing runs; nil before Close
	}
}

// maxSessions bounds the sessions that are kept open between requests, one for
// each [Identity]; when it is reached, they are closed.
const maxSessions = 1024

type sessions struct {
	sync.Mutex
	open map[Identity]*alert.Session
}

// close closes all sessions. The lock is held.
func (s *sessions) close() {
	for _, session := range s.open {
		_ = session.Close() // it only forgets it
	}
	clear(s.open)
}

// New returns a handler that serves server. The server stays the caller's, who
// closes the handler first.
func New(server *alert.Server, o *Options) (*Handler, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	h := &Handler{server: server, o: o.withDefaults(), nonce: rand.Uint64()}
	h.metrics = newMetrics(server.Name())
	if h.o.Memory != nil {
		h.memory = h.o.Memory.Child("omnibus requests", 0)
	}
	h.slots = make(chan struct{}, h.o.MaxRequests)
	h.feeds = make(chan struct{}, h.o.MaxSubscribers)
	h.sessions.open = map[Identity]*alert.Session{}
	h.maxPending, h.memoryWait, h.stopping = maxPending, memoryWait, make(chan struct{})
	return h, nil
}

// Close refuses new requests, ends the feeds, and waits for the requests that are
// being served. Call it before http.Server.Shutdown, which waits for feeds for
// ever, and before the server of the tables is closed. Closing twice is allowed.
func (h *Handler) Close() error {
	h.mu.Lock()
	if !h.mu.closed {
		h.mu.closed = true
		close(h.stopping)
		h.mu.idle = make(chan struct{})
		if h.mu.running == 0 {
			close(h.mu.idle)
		}
	}
	idle := h.mu.idle
	h.mu.Unlock()
	<-idle
	h.sessions.Lock()
	defer h.sessions.Unlock()
	h.sessions.close()
	return nil
}

func (h *Handler) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.closed {
		return false
	}
	h.mu.running++
	return true
}

func (h *Handler) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.running--
	if h.mu.closed && h.mu.running == 0 {
		close(h.mu.idle)
	}
}

// exchange is one request and its answer.
type exchange struct {
	h      *Handler
	w      http.ResponseWriter
	r      *http.Request
	ctx    context.Context
	route  route
	who    Identity
	out    output
	memory budget.Hold // for the body
	set    rowset
}

var exchanges sync.Pool

// ServeHTTP serves one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	x, ok := exchanges.Get().(*exchange)
	if !ok {
		x = new(exchange)
	}
	buf := newBuffer()
	*x = exchange{h: h, w: w, r: r, ctx: r.Context(), memory: h.memory.Hold(), set: rowset{keys: x.set.keys[:0], ends: x.set.ends[:0], boolean: x.set.boolean[:0]}}
	x.out = output{w: w, status: http.StatusOK, buf: buf, compressFrom: h.o.CompressFrom, writeTimeout: h.o.WriteTimeout}
	if x.out.compressFrom >= 0 && !acceptsGzip(r.Header["Accept-Encoding"]) {
		x.out.compressFrom = -1
	}
	header := w.Header()
	header["Server"], header["Cache-Control"], header["Vary"] = headerServer, headerNoCache, headerVary
	h.metrics.inFlight.Inc()
	defer func() {
		h.metrics.inFlight.Dec()
		h.metrics.served(x.route.kind, r.Method, x.out.status, time.Since(began), x.out.bytes, x.set.rows)
		release(x.out.buf)
		x.memory.Release()
		x.h, x.w, x.r, x.ctx, x.out, x.route = nil, nil, nil, nil, output{}, route{}
		exchanges.Put(x)
	}()
	if !h.begin() {
		x.fail(unavailable("the server is stopping"))
		return
	}
	defer h.end()
	if err := x.serve(); err != nil {
		x.fail(err)
	}
}

// serve answers the request, or returns why not. A panic is an error of this
// request alone.
func (x *exchange) serve() (err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		x.h.o.Logger.Error("omnibus: a request panicked", "path", x.r.URL.Path, "panic", p, "stack", string(debug.Stack()))
		err = failed(http.StatusInternalServerError, mainstem.KindInternal, "the server failed: a bug, see its log")
	}()
	if x.who, err = x.h.authenticate(x.r); err != nil {
		return err
	}
	if x.route, err = parseRoute(x.r.URL.EscapedPath()); err != nil {
		return err
	}
	if err := x.method(); err != nil {
		return err
	}
	if x.route.kind == collectionRoute && x.r.Method == http.MethodGet && acceptsEvents(x.r.Header["Accept"]) {
		return x.feed()
	}
	if !acceptsJSON(x.r.Header["Accept"]) {
		return failed(http.StatusNotAcceptable, mainstem.KindInvalid, "the client accepts %.100q: there is only application/json", x.r.Header.Get("Accept"))
	}
	if err := x.admit(); err != nil {
		return err
	}
	defer func() { <-x.h.slots }()
	ctx, cancel := context.WithTimeout(x.ctx, x.h.o.Timeout)
	defer cancel()
	x.ctx = ctx
	if err := x.answer(); err != nil {
		return err
	}
	return x.out.finish()
}

// admit waits for a place among the requests that are served.
func (x *exchange) admit() error {
	select {
	case x.h.slots <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(x.h.o.QueueTimeout)
	defer timer.Stop()
	select {
	case x.h.slots <- struct{}{}:
		return nil
	case <-x.ctx.Done():
		return unavailable("the client went while it waited: %w", context.Cause(x.ctx))
	case <-x.h.stopping:
		return unavailable("the server is stopping")
	case <-timer.C:
		x.w.Header().Set("Retry-After", "1")
		return unavailable("%d requests are being served, and none ended in %v: try later", cap(x.h.slots), x.h.o.QueueTimeout)
	}
}

// method checks the method, and that the user may use it.
func (x *exchange) method() error {
	allowed := x.route.kind.methods()
	need, ok := allowed[x.r.Method]
	if !ok {
		x.w.Header().Set("Allow", allowed.String())
		return failed(http.StatusMethodNotAllowed, mainstem.KindUnsupported, "%.20q has no meaning there: only %s", x.r.Method, allowed)
	}
	if x.who.Role < need {
		return denied("%s needs the role %s: the user has the role %s", x.r.Method, need, x.who.Role)
	}
	return nil
}

func (x *exchange) answer() error {
	switch x.route.kind {
	case factoryRoute:
		return x.factory()
	case systemRoute:
		return x.system()
	}
	switch x.r.Method {
	case http.MethodPost:
		return x.insert()
	case http.MethodPatch:
		return x.update()
	case http.MethodDelete:
		return x.delete()
	}
	return x.get()
}

// abort breaks the connection off, so that the client does not take what it has
// for all. Only a panic with this value tells net/http so.
func (x *exchange) abort() { panic(http.ErrAbortHandler) }

// fail answers with an error. If some of the answer is out already, it breaks off.
func (x *exchange) fail(err error) {
	x.out.status = statusFor(err)
	if x.out.status >= http.StatusInternalServerError && x.r.Context().Err() == nil {
		x.h.o.Logger.Warn("omnibus: a request failed", "method", x.r.Method, "path", x.r.URL.Path, "user", x.who.User, "status", x.out.status, "error", err)
	}
	if x.out.sent {
		x.abort()
	}
	header := x.w.Header()
	header.Del("Location")
	header.Del("ETag")
	header["Content-Type"] = headerJSON
	if x.out.status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", `Basic realm="`+x.h.o.Realm+`", charset="UTF-8"`)
	}
	*x.out.buf = appendException((*x.out.buf)[:0], x.out.status, mainstem.KindOf(err).String(), outcomeFor(err), err.Error())
	x.out.compressFrom = -1
	_ = x.out.finish() // nobody is left to tell
}
