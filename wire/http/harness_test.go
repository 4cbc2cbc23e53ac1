package viewhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/servertest"
	"github.com/mainstemdev/mainstem/server"
	"github.com/mainstemdev/mainstem/wire/http/viewserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client sends requests to a real server over HTTP.
type client struct {
	t    testing.TB
	base string
	log  mainstem.Log
	http *http.Client
}

// serve starts a server in memory with the views, as change wants it.
func serve(t testing.TB, change func(c *server.Config, v *viewserver.Component)) client {
	t.Helper()
	v := viewserver.New()
	c := servertest.Config(v)
	if change != nil {
		change(&c, v)
	}
	n := servertest.Start(t, c)
	return client{t, n.URL(), n.Log(), servertest.Client}
}

// answer is what came back.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	body   string
}

// request says what a request has besides method, path and body: pairs of names and values.
func (c client) request(ctx context.Context, method, path, body string, headers ...string) *http.Response {
	c.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	resp, err := c.http.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp
}

// do sends a request and reads the whole answer, which must have the status.
func (c client) do(status int, method, path, body string, headers ...string) answer {
	c.t.Helper()
	resp := c.request(c.t.Context(), method, path, body, headers...)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	a := answer{c.t, resp.StatusCode, resp.Header, string(data)}
	if a.status != status {
		c.t.Fatalf("%s %s: status %d, want %d: %s", method, path, a.status, status, a.body)
	}
	if a.status >= 400 && method != http.MethodHead && a.header.Get("Content-Type") != "application/problem+json" {
		c.t.Errorf("%s %s: an error of type %q: %s", method, path, a.header.Get("Content-Type"), a.body)
	}
	if !c.documented(method, path, a.status) {
		c.t.Errorf("%s %s: the status %d is not in /v1/openapi.yaml", method, path, a.status)
	}
	return a
}

func (c client) get(path string, headers ...string) answer {
	c.t.Helper()
	return c.do(http.StatusOK, http.MethodGet, path, "", headers...)
}

// into reads the body as JSON.
func (a answer) into(v any) {
	a.t.Helper()
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		a.t.Fatalf("%v in %s", err, a.body)
	}
}

// at returns what stands in the body under names, as JSON.
func (a answer) at(names ...string) string {
	a.t.Helper()
	var v any
	a.into(&v)
	for _, name := range names {
		m, ok := v.(map[string]any)
		if !ok {
			a.t.Fatalf("there is no %v in %s", names, a.body)
		}
		v = m[name]
	}
	text, err := json.Marshal(v)
	if err != nil {
		a.t.Fatal(err)
	}
	return string(text)
}

// is reports an answer whose body is not the JSON wanted.
func (a answer) is(want string) {
	a.t.Helper()
	var got, expected bytes.Buffer
	if err := json.Compact(&got, []byte(a.body)); err != nil {
		a.t.Fatalf("%v in %s", err, a.body)
	}
	if err := json.Compact(&expected, []byte(want)); err != nil {
		a.t.Fatal(err)
	}
	if got.String() != expected.String() {
		a.t.Errorf("got %s\nwant %s", got.String(), expected.String())
	}
}

// equal reports a difference.
func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// sse is one server-sent event.
type sse struct{ id, event, data string }

// follower reads the events of a stream.
type follower struct {
	t      testing.TB
	resp   *http.Response
	lines  *bufio.Scanner
	cancel context.CancelFunc
}

// follow opens a stream of events. It ends with the test, or by stop.
func (c client) follow(path string, headers ...string) *follower {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	resp := c.request(ctx, http.MethodGet, path, "", append([]string{"Accept", "text/event-stream"}, headers...)...)
	f := &follower{c.t, resp, bufio.NewScanner(resp.Body), cancel}
	f.lines.Buffer(nil, 64<<20)
	c.t.Cleanup(f.stop)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		data, _ := io.ReadAll(resp.Body)
		c.t.Fatalf("follow %s: %d %s: %s", path, resp.StatusCode, resp.Header.Get("Content-Type"), data)
	}
	return f
}

func (f *follower) stop() {
	f.cancel()
	_ = f.resp.Body.Close()
}

// next returns the next event, and false at the end of the stream. Comments are events that
// have nothing but the data ":".
func (f *follower) next() (e sse, ok bool) {
	f.t.Helper()
	for f.lines.Scan() {
		line := f.lines.Text()
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			return e, true
		case name == "":
			e.data = ":"
		case name == "id":
			e.id = value
		case name == "event":
			e.event = value
		case name == "data":
			e.data = value
		}
	}
	return sse{}, false
}

// want reads the next event, which must be of this type, and returns it.
func (f *follower) want(event string) sse {
	f.t.Helper()
	e, ok := f.next()
	for ok && e.data == ":" {
		e, ok = f.next()
	}
	if !ok {
		f.t.Fatalf("the stream ended, want an event %s: %v", event, f.lines.Err())
	}
	if e.event != event {
		f.t.Fatalf("got the event %+v, want %s", e, event)
	}
	return e
}

// field returns what stands in the data of an event under a name, as JSON.
func (f *follower) field(e sse, names ...string) string {
	f.t.Helper()
	return answer{t: f.t, body: e.data}.at(names...)
}

func base64Of(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// keysOf returns the keys of a page of a table, with the cursor after them.
func keysOf(t testing.TB, a answer) string {
	t.Helper()
	type named struct {
		Key   *string
		Key64 []byte
	}
	var page struct {
		Entries []named
		Next    *string
		Next64  []byte
	}
	a.into(&page)
	var out []string
	for _, e := range append(page.Entries, named{page.Next, page.Next64}) {
		switch {
		case e.Key != nil:
			out = append(out, *e.Key)
		case e.Key64 != nil:
			out = append(out, string(e.Key64))
		}
	}
	if n := len(out); n > len(page.Entries) {
		out[n-1] = "…" + out[n-1]
	}
	return strings.Join(out, " ")
}
