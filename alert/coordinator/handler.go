package coordinator

import (
	"context"
	_ "embed"
	"errors"
	"io"
	"mime"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/omnirest/rowjson"
)

// requestID is the header that every request must have, and every answer has.
const requestID = "X-Request-Id"

// maxRequestID bounds the bytes of a request's ID.
const maxRequestID = 256

var (
	contentJSON  = []string{"application/json; charset=utf-8"}
	contentLines = []string{"application/x-ndjson"}
	contentYAML  = []string{"application/yaml"}
)

//go:embed openapi.yml
var openAPI []byte

// Handler returns the handler of the API: POST /rawSQL, GET /clusterNames, GET
// /openapi.yml, GET /healthz and GET /readyz.
func (c *Coordinator) Handler() http.Handler { return http.HandlerFunc(c.serveHTTP) }

// refusal is a request that is answered with an error.
type refusal struct {
	status int
	problem
}

func refuse(code Code, message, reason string) *refusal {
	return &refusal{statuses[code], problem{code, message, reason}}
}

type endpoint struct {
	method string
	serve  func(c *Coordinator, w http.ResponseWriter, r *http.Request) *refusal
}

var endpoints = map[string]endpoint{
	"/rawSQL":       {http.MethodPost, (*Coordinator).rawSQL},
	"/clusterNames": {http.MethodGet, (*Coordinator).clusterNames},
	"/openapi.yml":  {http.MethodGet, (*Coordinator).openAPI},
	"/healthz":      {http.MethodGet, (*Coordinator).healthz},
	"/readyz":       {http.MethodGet, (*Coordinator).readyz},
}

func (c *Coordinator) serveHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	seen := &recorder{ResponseWriter: w}
	path := r.URL.Path
	e, ok := endpoints[path]
	if !ok {
		path = "other"
	}
	defer func() {
		status := strconv.Itoa(max(seen.status, http.StatusOK))
		c.metrics.requests.WithLabelValues(path, status).Inc()
		c.logger.Debug("coordinator: request", "id", r.Header.Get(requestID), "method", r.Method, "path", r.URL.Path, "status", status, "remote", r.RemoteAddr, "took", time.Since(began))
	}()
	if id := r.Header.Get(requestID); id != "" && len(id) <= maxRequestID {
		w.Header()[requestID] = []string{id}
	}
	var no *refusal
	switch {
	case !ok:
		no = &refusal{http.StatusNotFound, problem{CodeNotFound, "there is no such path", "want /rawSQL, /clusterNames or /openapi.yml"}}
	case r.Method != e.method:
		w.Header().Set("Allow", e.method)
		no = &refusal{http.StatusMethodNotAllowed, problem{CodeOperation, "the path has another method", "want " + e.method}}
	default:
		no = c.guard(e, seen, r)
	}
	if no != nil {
		no.write(seen)
	}
}

// guard serves a request; a panic is an error of it alone.
func (c *Coordinator) guard(e endpoint, w *recorder, r *http.Request) (no *refusal) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(p)
		}
		c.logger.Error("coordinator: a request panicked", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
		if w.status != 0 {
			panic(http.ErrAbortHandler) // so that the client does not take it for all
		}
		no = refuse(CodeUnknown, "the coordinator failed", "a bug, see its log")
	}()
	return e.serve(c, w, r)
}

// write answers with an error.
func (no *refusal) write(w http.ResponseWriter) {
	header := w.Header()
	header["Content-Type"] = contentJSON
	if no.status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", `Basic realm="omnibus", charset="UTF-8"`)
	}
	b := append(no.append(nil), '\n')
	header["Content-Length"] = []string{strconv.Itoa(len(b))}
	w.WriteHeader(no.status)
	_, _ = w.Write(b) // nobody is left to tell
}

// recorder notes the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *recorder) Write(p []byte) (int, error) {
	w.status = max(w.status, http.StatusOK)
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func checkID(r *http.Request) *refusal {
	switch id := r.Header.Get(requestID); {
	case id == "":
		return refuse(CodeValidation, "the request is not valid", "the header "+requestID+" is missing")
	case len(id) > maxRequestID:
		return refuse(CodeValidation, "the request is not valid", "the header "+requestID+" has more than "+strconv.Itoa(maxRequestID)+" bytes")
	}
	return nil
}

func (c *Coordinator) clusterNames(w http.ResponseWriter, r *http.Request) *refusal {
	if no := checkID(r); no != nil {
		return no
	}
	w.Header()["Content-Type"] = contentJSON
	_, _ = w.Write(c.names) // nobody is left to tell
	return nil
}

func (c *Coordinator) appendNames(b []byte) []byte {
	b = append(b, '[')
	for i, cl := range c.clusters {
		if i > 0 {
			b = append(b, ',')
		}
		b = rowjson.AppendString(b, cl.name)
	}
	return append(b, ']')
}

func (c *Coordinator) openAPI(w http.ResponseWriter, _ *http.Request) *refusal {
	w.Header()["Content-Type"] = contentYAML
	_, _ = w.Write(openAPI) // nobody is left to tell
	return nil
}

func (c *Coordinator) healthz(w http.ResponseWriter, _ *http.Request) *refusal {
	w.Header()["Content-Type"] = contentJSON
	_, _ = io.WriteString(w, `{"status":"ok"}`) // nobody is left to tell
	return nil
}

func (c *Coordinator) readyz(w http.ResponseWriter, _ *http.Request) *refusal {
	if err := c.Ready(); err != nil {
		return refuse(CodeUnavailable, "not ready", err.Error())
	}
	w.Header()["Content-Type"] = contentJSON
	_, _ = io.WriteString(w, `{"status":"ready"}`) // nobody is left to tell
	return nil
}

// rawSQL asks clusters.
func (c *Coordinator) rawSQL(w http.ResponseWriter, r *http.Request) *refusal {
	if no := checkID(r); no != nil {
		return no
	}
	cred, no := credentialOf(r)
	if no != nil {
		return no
	}
	body, no := c.body(w, r)
	if no != nil {
		return no
	}
	if no := c.admit(r.Context()); no != nil {
		return no
	}
	defer func() { <-c.slots }()
	x := &run{c: c, cred: cred, key: keyOf(c.secret, cred), sql: *body.SQL}
	x.reply = reply{w: w, control: http.NewResponseController(w), timeout: c.config.HTTP.Timeout, turn: make(chan struct{}, 1)}
	x.ctx, x.cancel = context.WithCancelCause(r.Context())
	if !c.begin(x) {
		x.cancel(nil)
		return refuse(CodeUnavailable, "the coordinator is stopping", "")
	}
	defer c.end(x)
	defer func() { _ = x.reply.control.SetWriteDeadline(time.Time{}) }() // the connection goes on
	x.serve(body, strings.Contains(r.Header.Get("Accept"), contentLines[0]))
	return nil
}

func credentialOf(r *http.Request) (Credential, *refusal) {
	if r.Header.Get("Authorization") == "" {
		return Credential{}, &refusal{http.StatusUnauthorized, problem{CodePrivileges, "authorization is required", "the header Authorization is missing"}}
	}
	user, password, ok := r.BasicAuth()
	if !ok || user == "" || password == "" {
		return Credential{}, refuse(CodePrivileges, "authorization is required", "want a name and a password by HTTP Basic")
	}
	return Credential{user, password}, nil
}

func (c *Coordinator) body(w http.ResponseWriter, r *http.Request) (*rawSQL, *refusal) {
	notValid := func(reason string) (*rawSQL, *refusal) {
		return nil, refuse(CodeValidation, "the request is not valid", reason)
	}
	kind := r.Header.Get("Content-Type")
	if kind != "application/json" {
		name, _, err := mime.ParseMediaType(kind)
		if err != nil || name != "application/json" {
			return notValid("the Content-Type is " + strconv.Quote(kind[:min(len(kind), 100)]) + ": want application/json")
		}
	}
	limit := int64(c.config.HTTP.MaxBody)
	if r.ContentLength > limit {
		return notValid("the body has more than " + strconv.FormatInt(limit, 10) + " bytes")
	}
	control := http.NewResponseController(w)
	// Without a body net/http waits for the end of the connection already, and a deadline would be one:
	// this request and all others of the connection would be canceled.
	if r.ContentLength != 0 {
		_ = control.SetReadDeadline(time.Now().Add(c.config.HTTP.Timeout)) // some connections have none
	}
	p, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	_ = control.SetReadDeadline(time.Time{})
	if err != nil {
		return notValid("reading the body: " + err.Error())
	}
	body, err := parse(p)
	if err != nil {
		var e *mainstem.Error
		if errors.As(err, &e) && e.Err != nil {
			err = e.Err
		}
		return notValid(err.Error())
	}
	return body, nil
}

// admit waits for a place among the requests that are served.
func (c *Coordinator) admit(ctx context.Context) *refusal {
	select {
	case c.slots <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(c.config.OMNIbus.WaitTimeout)
	defer timer.Stop()
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return refuse(CodeUnavailable, "too many requests", strconv.Itoa(cap(c.slots))+" requests are being served, and none ended in "+c.config.OMNIbus.WaitTimeout.String())
}
