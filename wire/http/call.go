package viewhttp

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
)

// call is one request and its answer. It belongs to the goroutine of the request.
type call struct {
	h *Handler
	w *statusWriter
	r *http.Request
	// ctx ends with the request, and that of a follower with the handler.
	ctx       context.Context
	route     *route
	operation *operation
	path      map[string]string // parameters of the path, unescaped
	query     url.Values
	principal string
	memory    budget.Hold // of the body, and of an answer that is no stream
}

// statusWriter remembers whether an answer has begun, and its status.
type statusWriter struct {
	http.ResponseWriter
	status int // 0: it has not
}

// WriteHeader notes the status.
func (w *statusWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write begins the answer with 200 if nothing else did.
func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap is for [http.ResponseController].
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func newCall(h *Handler, w http.ResponseWriter, r *http.Request) *call {
	return &call{h: h, w: &statusWriter{ResponseWriter: w}, r: r, ctx: r.Context(), memory: h.memory.Hold()}
}

// status returns that of the answer. Without an answer net/http says 200.
func (c *call) status() int {
	if c.w.status == 0 {
		return http.StatusOK
	}
	return c.w.status
}

// end gives back what the request took.
func (c *call) end() { c.memory.Release() }

// serve finds the route of the request and has it answered.
func (c *call) serve() error {
	header := c.w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	var ok bool
	if c.principal, ok = c.h.o.Principal(c.r); !ok {
		header.Set("WWW-Authenticate", `Bearer realm="mainstem"`)
		return refuse(http.StatusUnauthorized, mainstem.KindDenied, "the request carries no valid bearer token")
	}
	if c.route, c.path = routeOf(c.r.URL.EscapedPath()); c.route == nil {
		return refuse(http.StatusNotFound, mainstem.KindNotFound, "there is no path %.200q: /v1/openapi.yaml lists all", c.r.URL.EscapedPath())
	}
	if c.operation = c.route.operation(c.r.Method); c.operation == nil {
		header.Set("Allow", c.route.allowed())
		if c.r.Method == http.MethodOptions {
			c.w.WriteHeader(http.StatusNoContent)
			return nil
		}
		return refuse(http.StatusMethodNotAllowed, mainstem.KindUnsupported, "%s takes %s, not %.20s", c.route.pattern, c.route.allowed(), c.r.Method)
	}
	if err := c.readQuery(); err != nil {
		return err
	}
	if err := c.checkKey(); err != nil {
		return err
	}
	if err := c.waitFor(); err != nil {
		return err
	}
	return c.operation.serve(c)
}

// readQuery takes the query apart, and refuses parameters that the operation does not know: one
// that is misspelt would have no effect, and nobody would notice.
func (c *call) readQuery() error {
	query, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return invalid("the query cannot be read: %w", err)
	}
	for name, values := range query {
		p := c.operation.parameter(inQuery, name)
		switch {
		case p == nil:
			return invalid("there is no parameter %.60q: %s %s takes %s", name, c.r.Method, c.route.pattern, c.operation.queryNames())
		case len(values) > 1 && !p.many:
			return invalid("the parameter %s is there %d times: want it once", name, len(values))
		}
	}
	c.query = query
	return nil
}

// untilStopped returns the context of the call, which also ends when the handler is closed.
func (c *call) untilStopped() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(c.ctx)
	stop := context.AfterFunc(c.h.stopping, func() { cancel(errStopping) })
	return ctx, func() { stop(); cancel(nil) }
}

// accepts reports whether the client asks for a media type by name.
func (c *call) accepts(media string) bool {
	for _, header := range c.r.Header.Values("Accept") {
		for part := range strings.SplitSeq(header, ",") {
			name, _, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(name), media) {
				return true
			}
		}
	}
	return false
}

// Media types of answers besides application/json.
const (
	mediaJSON    = "application/json"
	mediaProblem = "application/problem+json"
	mediaEvents  = "text/event-stream"
	mediaLines   = "application/x-ndjson"
	mediaBytes   = "application/octet-stream"
)

// fail answers with err as a problem, unless the answer has begun: then the connection is
// broken off, so that nobody takes the part for the whole.
func (c *call) fail(err error) {
	if c.w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	if errors.Is(err, context.Canceled) && c.r.Context().Err() != nil {
		c.w.status = statusClientGone
		return // nobody reads an answer
	}
	c.problem(err)
}

// statusClientGone is what metrics say of a request whose client has gone.
const statusClientGone = 499
