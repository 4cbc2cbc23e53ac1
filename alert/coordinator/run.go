package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/mainstemdev/mainstem"
)

// rawSQL is the body of a request. Keys that are not known are ignored, as they always
// were.
type rawSQL struct {
	SQL      *string    `json:"sql"`
	Clusters []string   `json:"clusters"`
	Merge    *mergeSpec `json:"merge"`
}

// parse reads a body.
func parse(body []byte) (*rawSQL, error) {
	var r rawSQL
	if sql, ok := onlySQL(body); ok {
		r.SQL = &sql
		return &r, nil
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "coordinator", "the body: %w", err)
	}
	if r.SQL == nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "coordinator", `the body has no "sql"`)
	}
	if r.Merge != nil {
		return &r, r.Merge.validate()
	}
	return &r, nil
}

// onlySQL reads a body that holds nothing but statements, in ASCII and without
// escapes, as nearly all do, without decoding it in general.
func onlySQL(body []byte) (sql string, ok bool) {
	const head, tail = `{"sql":"`, `"}`
	p := bytes.TrimRight(body, " \t\r\n")
	if len(p) < len(head)+len(tail) || string(p[:len(head)]) != head || string(p[len(p)-len(tail):]) != tail {
		return "", false
	}
	p = p[len(head) : len(p)-len(tail)]
	for _, c := range p {
		if c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return "", false
		}
	}
	return string(p), true
}

// run is a request that is being served.
type run struct {
	c      *Coordinator
	ctx    context.Context
	cancel context.CancelCauseFunc
	cred   Credential
	key    credentialKey
	sql    string
	reply  reply
}

// chosen returns the clusters that a request names, or all; unknown names choose none.
func (c *Coordinator) chosen(names []string) []*cluster {
	if len(names) == 0 {
		return c.clusters
	}
	var out []*cluster
	seen := map[string]bool{}
	for _, name := range names {
		if cl, ok := c.byName[name]; ok && !seen[name] {
			seen[name] = true
			out = append(out, cl)
		}
	}
	return out
}

// begin notes a request, unless the coordinator is closed.
func (c *Coordinator) begin(r *run) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return false
	}
	c.mu.running[r] = struct{}{}
	return true
}

func (c *Coordinator) end(r *run) {
	r.cancel(nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.running, r)
	if c.mu.closed && len(c.mu.running) == 0 {
		close(c.mu.idle)
	}
}

// fanOut asks the clusters at the same time, the last one on this goroutine.
func (r *run) fanOut(clusters []*cluster, f form) []*entry {
	entries := make([]*entry, len(clusters))
	var others sync.WaitGroup
	for i, cl := range clusters {
		e := &entry{cluster: cl.name, form: f, reply: &r.reply, limits: &r.c.config.OMNIbus}
		entries[i] = e
		if i < len(clusters)-1 {
			others.Go(func() { r.ask(cl, e) })
		} else {
			r.ask(cl, e)
		}
	}
	others.Wait()
	return entries
}

// ask asks one cluster, within its time.
func (r *run) ask(cl *cluster, e *entry) {
	began := time.Now()
	ctx, cancel := context.WithCancelCause(r.ctx)
	defer cancel(nil)
	e.ctx = ctx
	e.timer = time.AfterFunc(cl.o.QueryTimeout, func() {
		cancel(&mainstem.Error{Kind: mainstem.KindCanceled, Op: "coordinator", Err: context.DeadlineExceeded, Hint: "no answer within omnibus.query_timeout, " + cl.o.QueryTimeout.String()})
	})
	defer e.timer.Stop()
	e.begin()
	e.err = cl.query(ctx, r.key, r.cred, r.sql, e)
	code := Code("")
	if e.err != nil {
		code = problemOf(e.err).code
		r.c.logger.Debug("coordinator: a cluster failed", "cluster", cl.name, "code", code, "error", e.err)
	}
	rows := e.rows
	e.pause()
	e.ctx = r.ctx // the cluster is done: only the client is waited for
	e.finish()
	cl.metrics.observe(time.Since(began), rows, code)
}

// serve answers the request.
func (r *run) serve(body *rawSQL, lines bool) {
	clusters := r.c.chosen(body.Clusters)
	f := arrayForm
	switch {
	case body.Merge != nil:
		f = mergeForm
	case lines:
		f = linesForm
	}
	header := r.reply.w.Header()
	header["Content-Type"] = contentJSON
	if f == linesForm {
		header["Content-Type"] = contentLines
	}
	entries := r.fanOut(clusters, f)
	defer func() {
		for _, e := range entries {
			e.free()
		}
	}()
	switch f {
	case linesForm:
		return
	case mergeForm:
		r.whole(body.Merge.merge(nil, entries))
	case arrayForm:
		r.join(entries)
	}
}

// join writes the entries that are not written yet, and the end.
func (r *run) join(entries []*entry) {
	size := 2
	for _, e := range entries {
		size += len(e.buf) + 1
	}
	out := &entry{}
	if p, ok := entryBuffers.Get().(*[]byte); ok {
		out.buf = (*p)[:0]
	}
	defer out.free()
	sign := byte('[')
	if r.reply.begun {
		sign = ','
	}
	for _, e := range entries {
		if len(e.buf) == 0 {
			continue // it was written
		}
		out.buf = append(append(out.buf, sign), e.buf...)
		sign = ','
	}
	if sign == '[' {
		out.buf = append(out.buf, '[')
	}
	out.buf = append(out.buf, ']')
	if r.reply.begun {
		_ = r.reply.write(out.buf) // nobody is left to tell
		return
	}
	r.whole(out.buf)
}

// buffered is what the HTTP server takes without waiting for the client.
const buffered = 2 << 10

// whole writes an answer of which nothing was written yet.
func (r *run) whole(b []byte) {
	r.reply.w.Header()["Content-Length"] = []string{strconv.Itoa(len(b))}
	r.reply.w.WriteHeader(http.StatusOK)
	if len(b) > buffered {
		_ = r.reply.control.SetWriteDeadline(time.Now().Add(r.reply.timeout)) // some writers have none
	}
	_, _ = r.reply.w.Write(b) // nobody is left to tell
}
