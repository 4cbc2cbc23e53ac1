package rpc_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/wire/rpc"
)

func TestTokenOverPlainHTTP(t *testing.T) {
	s := serve(t, nil, &rpc.Options{Token: "secret"})
	for _, header := range []string{"", "secret", "Bearer", "Bearer ", "Bearer Secret", "Bearer  secret", "Basic secret"} {
		a := s.post(t, "Head", "application/json", []byte("{}"), "Authorization", header)
		if a.status != http.StatusUnauthorized || a.code() != "unauthenticated" || a.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%q: %d %v %s", header, a.status, a.header, a.body)
		}
	}
	for _, header := range []string{"Bearer secret", "bearer secret"} {
		if a := s.post(t, "Head", "application/json", []byte("{}"), "Authorization", header); a.status != http.StatusOK {
			t.Errorf("%q: %d %s", header, a.status, a.body)
		}
	}
}

// broken is a log with bugs.
type broken struct{ mainstem.Log }

func (broken) Commit(context.Context, *mainstem.Batch) (mainstem.Receipt, error) { panic("in commit") }
func (broken) Head(context.Context) (mainstem.Position, error)                   { panic(nil) }
func (broken) Scan(context.Context, string, mainstem.Range) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		yield(mainstem.Record{Space: "s", Key: []byte("k"), Version: 1, Count: 1}, nil)
		panic("in scan")
	}
}
func (broken) Feed(context.Context, mainstem.Filter) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) { yield(mainstem.Record{}, fmt.Errorf("no kind")) }
}

func TestPanicsAreContained(t *testing.T) {
	var log bytes.Buffer
	s := serve(t, broken{model.New(nil)}, &rpc.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	a := s.json(t, "Commit", "{}")
	if a.code() != "internal" || !strings.Contains(string(a.body), "OUTCOME_UNKNOWN") || strings.Contains(string(a.body), "in commit") {
		t.Errorf("commit: %d %s", a.status, a.body)
	}
	if a := s.json(t, "Head", "{}"); a.code() != "internal" || strings.Contains(string(a.body), "OUTCOME_UNKNOWN") {
		t.Errorf("head: %d %s", a.status, a.body)
	}
	a = s.post(t, "Scan", "application/connect+json", []byte(frame(0, "{}")))
	if !strings.Contains(string(a.body), `"code":"internal"`) || !strings.Contains(string(a.body), `"key":"aw=="`) {
		t.Errorf("scan: %q", a.body)
	}
	a = s.post(t, "Feed", "application/connect+json", []byte(frame(0, "{}")))
	if !strings.Contains(string(a.body), "no kind") {
		t.Errorf("feed: %q", a.body)
	}
	if text := log.String(); !strings.Contains(text, "in commit") || !strings.Contains(text, "in scan") || !strings.Contains(text, "handler_test.go") {
		t.Errorf("the log says %q", text)
	}
	if a := s.json(t, "Info", "{}"); a.status != http.StatusOK {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
}

// stream opens a stream and reads its first message, so that it is being served.
func (s *server) stream(t *testing.T, transport http.RoundTripper, method, request string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+service+method, strings.NewReader(frame(0, request)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/connect+json")
	response, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	if _, err := io.ReadFull(response.Body, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	return response
}

func TestStreamsAreLimited(t *testing.T) {
	s := serve(t, nil, &rpc.Options{MaxStreams: 2})
	transport := http2(t)
	first := s.stream(t, transport, "Feed", `{"follow":true}`)
	s.stream(t, transport, "Feed", `{"follow":true}`)
	a := s.post(t, "Scan", "application/connect+json", []byte(frame(0, `{"space":"s"}`)))
	if !strings.Contains(string(a.body), `"code":"unavailable"`) || !strings.Contains(string(a.body), "2 streams") {
		t.Errorf("the third stream: %q", a.body)
	}
	s.alive(t) // calls with one answer are not streams
	_ = first.Body.Close()
	testkit.Eventually(t, "a stream that ended makes room", func() bool {
		a := s.post(t, "Spaces", "application/connect+json", []byte(frame(0, `{}`)))
		return !strings.Contains(string(a.body), "unavailable")
	})
}

// endless is a log whose scan never ends, until its context does.
type endless struct {
	mainstem.Log
	given atomic.Int64 // bytes
	ended atomic.Int64 // scans
}

func (e *endless) Scan(ctx context.Context, space string, _ mainstem.Range) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		defer e.ended.Add(1)
		value := make([]byte, 8<<10)
		for ctx.Err() == nil {
			e.given.Add(int64(len(value)))
			if !yield(mainstem.Record{Space: space, Key: []byte("k"), Version: 1, Count: 1, Value: value}, nil) {
				return
			}
		}
		yield(mainstem.Record{}, &mainstem.Error{Kind: mainstem.KindCanceled, Op: "scan", Err: ctx.Err()})
	}
}

func TestClientThatTakesNothingIsCut(t *testing.T) {
	for name, version2 := range map[string]bool{"http1": false, "http2": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &endless{Log: model.New(nil)}
				_, dial := inBubble(t, log, &rpc.Options{StallTimeout: 100 * time.Millisecond})
				response, err := post(t, dial, version2, "Scan", "application/connect+json", frame(0, `{"space":"s"}`))
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				if _, err := io.ReadFull(response.Body, make([]byte, 5)); err != nil { // and read no further
					t.Fatal(err)
				}
				time.Sleep(time.Second) // of the bubble
				if log.ended.Load() != 1 {
					t.Error("the scan does not end")
				}
				if given := log.given.Load(); given > 64<<20 {
					t.Errorf("%d bytes were given to a client that takes nothing", given)
				}
				if _, err := io.Copy(io.Discard, response.Body); err == nil {
					t.Error("the client does not see that its stream was cut")
				}
				after, err := post(t, dial, version2, "Head", "application/json", "{}")
				if err != nil {
					t.Fatal(err)
				}
				defer after.Body.Close()
				if after.StatusCode != http.StatusOK {
					t.Errorf("afterwards the server answers %s", after.Status)
				}
			})
		})
	}
}

func TestClientThatGoesAwayEndsItsCall(t *testing.T) {
	for name, transport := range map[string]http.RoundTripper{"http1": http.DefaultTransport, "http2": http2(t)} {
		t.Run(name, func(t *testing.T) {
			log := &endless{Log: model.New(nil)}
			s := serve(t, log, nil)
			_ = s.stream(t, transport, "Scan", `{"space":"s"}`).Body.Close()
			testkit.Eventually(t, "the scan ends", func() bool { return log.ended.Load() == 1 })
		})
	}
}

func TestRequestMustArriveInTime(t *testing.T) {
	s := serve(t, nil, &rpc.Options{BodyTimeout: 50 * time.Millisecond})
	c := s.dial(t)
	_, err := io.WriteString(c, "POST "+service+"Head HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(c) // the connection is of no more use: it ends
	if !strings.Contains(string(answer), "did not arrive within 50ms") {
		t.Errorf("the answer is %q", answer)
	}

	body, slow := io.Pipe()
	defer slow.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+service+"Head", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if a := s.do(t, http2(t), r); !strings.Contains(string(a.body), "did not arrive within 50ms") {
		t.Errorf("over HTTP/2: %d %s", a.status, a.body)
	}
}

// gated is a log whose commits wait.
type gated struct {
	mainstem.Log
	entered, leave chan struct{}
}

func gate(log mainstem.Log) *gated {
	return &gated{log, make(chan struct{}), make(chan struct{})}
}

func (g *gated) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	g.entered <- struct{}{}
	<-g.leave
	return g.Log.Commit(ctx, b)
}

func TestBytesOfAllRequestsAreLimited(t *testing.T) {
	g := gate(model.New(nil))
	s := serve(t, g, &rpc.Options{MaxPending: 1000, BodyTimeout: 50 * time.Millisecond})
	request := `{"ensures":[{"space":"s"}],"writes":[{"space":"s","key":"aw==","value":"` + strings.Repeat("A", 600) + `"}]}`
	done := make(chan answer)
	go func() {
		defer close(done) // json may end the goroutine
		done <- s.json(t, "Commit", request)
	}()
	<-g.entered
	a := s.json(t, "Commit", request)
	if a.code() != "unavailable" || !strings.Contains(string(a.body), "of 2000 bytes are in use (waited 50ms)") || !strings.Contains(string(a.body), "OUTCOME_NOT_WRITTEN") {
		t.Errorf("with another one: %d %s", a.status, a.body)
	}
	close(g.leave)
	if a := <-done; a.status != http.StatusOK {
		t.Errorf("the first: %d %s", a.status, a.body)
	}
	go func() { <-g.entered }()
	if a := s.json(t, "Commit", request); a.status != http.StatusOK {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
}

func TestCloseEndsStreamsAndWaitsForCommits(t *testing.T) {
	g := gate(model.New(nil))
	s := serve(t, g, nil)
	follower := s.stream(t, http2(t), "Feed", `{"follow":true}`)
	committed := make(chan answer)
	go func() {
		defer close(committed) // json may end the goroutine
		committed <- s.json(t, "Commit", `{"ensures":[{"space":"s"}]}`)
	}()
	<-g.entered

	closed := make(chan struct{})
	go func() { defer close(closed); _ = s.handler.Close() }()
	rest, err := io.ReadAll(follower.Body)
	if err != nil || !strings.Contains(string(rest), `"code":"unavailable"`) || !strings.Contains(string(rest), "stopping") {
		t.Errorf("the follower ends with %q, %v", rest, err)
	}
	a := s.json(t, "Commit", `{}`)
	if a.status != http.StatusServiceUnavailable || !strings.Contains(string(a.body), "OUTCOME_NOT_WRITTEN") {
		t.Errorf("a new commit: %d %s", a.status, a.body)
	}
	select {
	case <-closed:
		t.Error("Close did not wait for the commit")
	default:
	}
	close(g.leave)
	if a := <-committed; a.status != http.StatusOK {
		t.Errorf("the running commit: %d %s", a.status, a.body)
	}
	<-closed
	if err := s.handler.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}
