package viewhttp_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/internal/servertest"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/server"
	"github.com/mainstemdev/mainstem/topic"
	viewhttp "github.com/mainstemdev/mainstem/wire/http"
	"github.com/mainstemdev/mainstem/wire/http/viewserver"
)

// handle serves a handler with options of its own, without a server around it.
func handle(t testing.TB, log mainstem.Log, o *viewhttp.Options) (client, *viewhttp.Handler) {
	t.Helper()
	topics, err := topic.Open(log, &topic.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	h := viewhttp.New(log, topics, o)
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		if err := errors.Join(h.Close(), topics.Close()); err != nil {
			t.Error(err)
		}
		s.Close()
	})
	return client{t, s.URL, log, servertest.Client}, h
}

func TestPathsAndMethods(t *testing.T) {
	c := serve(t, nil)
	equal(t, "unknown path", c.do(404, "GET", "/v1/nothing", "").at("kind"), `"not_found"`)
	p := c.do(405, "PATCH", "/v1/kv/app/t/k", "")
	equal(t, "Allow", p.header.Get("Allow"), "GET, HEAD, PUT, POST, DELETE, OPTIONS")
	equal(t, "kind", p.at("kind"), `"unsupported"`)
	equal(t, "Allow", c.do(204, "OPTIONS", "/v1/kv", "").header.Get("Allow"), "GET, HEAD, OPTIONS")
	a := c.get("/v1/kv")
	equal(t, "Cache-Control", a.header.Get("Cache-Control"), "no-store")
	equal(t, "X-Content-Type-Options", a.header.Get("X-Content-Type-Options"), "nosniff")
	c.do(400, "GET", "/v1/kv?%zz", "")
}

func TestTokenOfTheServer(t *testing.T) {
	c := serve(t, func(c *server.Config, _ *viewserver.Component) { c.Token = "secret" })
	p := c.do(401, "GET", "/v1/kv", "")
	equal(t, "kind", p.at("kind"), `"denied"`)
	if p.header.Get("WWW-Authenticate") == "" {
		t.Error("nothing says how to authenticate")
	}
	c.do(401, "PUT", "/v1/kv/app/t/k", "x", "Authorization", "Bearer wrong")
	c.do(401, "GET", "/v1/nothing", "") // also of paths that are not there
	c.do(200, "PUT", "/v1/kv/app/t/k", "x", "Authorization", "Bearer secret")
}

func TestPagesOfOtherOriginsAreKeptOut(t *testing.T) {
	c := serve(t, nil)
	code, _ := servertest.Request(t, servertest.Client, "PUT", c.base+"/v1/kv/app/t/k", "x", http.Header{"Sec-Fetch-Site": {"cross-site"}})
	equal(t, "status", code, http.StatusForbidden)
	c.do(404, "GET", "/v1/kv/app/t/k", "")
}

func TestViewsThatAreOff(t *testing.T) {
	c := serve(t, func(_ *server.Config, v *viewserver.Component) { v.Config.On = false })
	code, _ := servertest.Get(t, nil, c.base+"/v1/kv")
	equal(t, "status", code, http.StatusNotFound)
}

func TestMetricsOfRequests(t *testing.T) {
	c := serve(t, nil)
	c.do(200, "PUT", "/v1/kv/app/t/k", "x")
	c.do(404, "GET", "/v1/what/ever", "")
	servertest.AwaitMetrics(t, c.base,
		`mainstem_views_requests_total{route="/v1/kv/{db}/{table}/{key}",status="200"} 1`,
		`mainstem_views_requests_total{route="unknown",status="404"} 1`,
		`mainstem_views_request_seconds_count{route="/v1/kv/{db}/{table}/{key}"} 1`)
}

func TestIdempotencyKeyMakesAWriteOnce(t *testing.T) {
	c := serve(t, nil)
	const path = "/v1/kv/app/t/k"
	key := []string{"Idempotency-Key", "k1"}
	first := c.do(200, "PUT", path, "a", key...)
	equal(t, "first", first.header.Get("Mainstem-Duplicate"), "")
	c.do(200, "PUT", path, "b")
	again := c.do(200, "PUT", path, "a", key...)
	equal(t, "duplicate", again.header.Get("Mainstem-Duplicate"), "true")
	equal(t, "revision", again.at("revision"), first.at("revision"))
	equal(t, "position", again.at("position"), first.at("position"))
	equal(t, "value", c.get(path).body, "b")

	p := c.do(422, "PUT", path, "c", key...)
	equal(t, "kind", p.at("kind"), `"exists"`)
	c.do(422, "PUT", path, "a", append(key, "Mainstem-TTL", "1m")...)
	c.do(422, "PUT", path, "a", append(key, "Mainstem-Meta-A", "1")...)
	c.do(200, "PUT", path+"2", "c", key...) // another path, another write
	equal(t, "other method", c.do(200, "DELETE", path, "", key...).at("revision"), "3")
	c.do(400, "PUT", path, "a", "Idempotency-Key", "")
	c.do(400, "PUT", path, "a", "Idempotency-Key", strings.Repeat("x", 256))
	c.do(400, "PUT", path, "a", "Idempotency-Key", "a", "Idempotency-Key", "b")

	// A write that failed was not made: it may be sent again.
	c.do(412, "PUT", path+"3", "a", "If-Match", `"1"`, "Idempotency-Key", "k2")
	c.do(200, "PUT", path+"3", "x")
	c.do(200, "PUT", path+"3", "a", "If-Match", `"1"`, "Idempotency-Key", "k2")
	equal(t, "met once", c.do(200, "PUT", path+"3", "a", "If-Match", `"1"`, "Idempotency-Key", "k2").at("revision"), "2")

	sum := c.do(200, "POST", "/v1/kv/app/t/n?op=increment", `{"by":5}`, "Idempotency-Key", "k3")
	c.do(200, "POST", "/v1/kv/app/t/n?op=increment", `{"by":5}`)
	equal(t, "the sum of the first time", c.do(200, "POST", "/v1/kv/app/t/n?op=increment", `{"by":5}`, "Idempotency-Key", "k3").at("value"), sum.at("value"))
}

// TestIdempotentRequestsAtTheSameTime: one of them is made, and of those with another body none.
func TestIdempotentRequestsAtTheSameTime(t *testing.T) {
	c := serve(t, nil)
	const n = 8
	var all sync.WaitGroup
	got := make([]int, n)
	for i := range n {
		all.Go(func() {
			resp := c.request(t.Context(), "POST", "/v1/kv/app/t/n?op=increment", `{"by":`+string('1'+rune(i%2))+`}`, "Idempotency-Key", "k")
			resp.Body.Close()
			got[i] = resp.StatusCode
		})
	}
	all.Wait()
	sum := c.get("/v1/kv/app/t/n").body
	for i, status := range got {
		want := 422
		if string('1'+rune(i%2)) == sum {
			want = 200
		}
		equal(t, "status of a request to add "+string('1'+rune(i%2))+" where the sum is "+sum, status, want)
	}
}

func TestWaitForAPosition(t *testing.T) {
	log := testengines.Memory(t)
	c, _ := handle(t, log, &viewhttp.Options{WaitLimit: 50 * time.Millisecond})
	at := c.do(200, "PUT", "/v1/kv/app/t/k", "x").header.Get("Mainstem-Position")
	c.do(200, "GET", "/v1/kv/app/t/k", "", "Mainstem-Wait-For", at)
	p := c.do(504, "GET", "/v1/kv/app/t/k", "", "Mainstem-Wait-For", "1000")
	equal(t, "kind", p.at("kind"), `"unavailable"`)
	c.do(400, "GET", "/v1/kv/app/t/k", "", "Mainstem-Wait-For", "x")

	patient, _ := handle(t, log, nil)
	var wait sync.WaitGroup
	wait.Go(func() { patient.do(200, "GET", "/v1/kv/app/t/later", "", "Mainstem-Wait-For", "3") })
	c.do(200, "PUT", "/v1/kv/app/t/later", "x")
	c.do(200, "PUT", "/v1/kv/app/t/later", "x")
	wait.Wait()
}

// asked is a log that says when it is asked for its head.
type asked struct {
	mainstem.Log
	head chan struct{}
}

func (a asked) Head(ctx context.Context) (mainstem.Position, error) {
	select {
	case a.head <- struct{}{}:
	default:
	}
	return a.Log.Head(ctx)
}

// TestRequestsThatWaitDoNotHoldUpTheEnd of the handler: they are refused as not written.
func TestRequestsThatWaitDoNotHoldUpTheEnd(t *testing.T) {
	memory := budget.New("test", 1<<20)
	log := asked{testengines.Memory(t), make(chan struct{}, 1)}
	c, h := handle(t, log, &viewhttp.Options{Memory: memory, BodyTimeout: 20 * time.Second, WaitLimit: 20 * time.Second})
	other := memory.Child("http", 0).Hold()
	if !other.Try(1 << 20) {
		t.Fatal("the budget is not empty")
	}
	defer other.Release()
	answers := make(chan *http.Response, 2)
	var all sync.WaitGroup
	all.Go(func() { answers <- c.request(t.Context(), "PUT", "/v1/kv/app/t/k", "x", "Mainstem-Wait-For", "1000") })
	all.Go(func() { answers <- c.request(t.Context(), "PUT", "/v1/kv/app/t/k", "x") })
	<-log.head
	testkit.Eventually(t, "one waits for memory", func() bool {
		return slices.ContainsFunc(memory.Stats(), func(s budget.Stats) bool { return s.Waiting > 0 })
	})
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	all.Wait()
	for range 2 {
		resp := <-answers
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 503 || !strings.Contains(string(body), "the server is stopping") || !strings.Contains(string(body), `"not_written"`) {
			t.Errorf("%d %s, %v", resp.StatusCode, body, err)
		}
	}
}

func TestLargeRequestsAreRefused(t *testing.T) {
	c, _ := handle(t, testengines.Memory(t), &viewhttp.Options{MaxBody: 100, Limits: mainstem.Limits{MaxValue: 50}})
	equal(t, "kind", c.do(413, "PUT", "/v1/kv/app/t/k", strings.Repeat("x", 51)).at("kind"), `"invalid"`)
	c.do(200, "PUT", "/v1/kv/app/t/k", strings.Repeat("x", 50))
	c.do(413, "POST", "/v1/kv/app/t", strings.Repeat(" ", 101))
	// Also those that do not say how long they are.
	r, err := http.NewRequestWithContext(t.Context(), "PUT", c.base+"/v1/kv/app/t/k", io.MultiReader(strings.NewReader(strings.Repeat("x", 200))))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	equal(t, "status", resp.StatusCode, 413)
}

func TestRequestsThatDoNotArrive(t *testing.T) {
	c, _ := handle(t, testengines.Memory(t), &viewhttp.Options{BodyTimeout: 50 * time.Millisecond})
	at, err := url.Parse(c.base)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", at.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "PUT /v1/kv/app/t/k HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	equal(t, "status", resp.StatusCode, http.StatusRequestTimeout)
}

// TestMemoryOfRequests: a request waits for memory that others have, and gets 503 if it stays so.
func TestMemoryOfRequests(t *testing.T) {
	memory := budget.New("test", 1<<20)
	c, _ := handle(t, testengines.Memory(t), &viewhttp.Options{Memory: memory, BodyTimeout: 100 * time.Millisecond})
	other := memory.Child("http", 0).Hold()
	if !other.Try(1 << 20) {
		t.Fatal("the budget is not empty")
	}
	p := c.do(503, "PUT", "/v1/kv/app/t/k", strings.Repeat("x", 1000))
	equal(t, "outcome", p.at("outcome"), `"not_written"`)
	equal(t, "Retry-After", p.header.Get("Retry-After"), "1")
	other.Release()
	c.do(200, "PUT", "/v1/kv/app/t/k", strings.Repeat("x", 1000))
	testkit.Eventually(t, "all memory is back", func() bool { return memory.Free() == 1<<20 })
}

func TestHeartbeatsAndTheEndOfFollowers(t *testing.T) {
	c, h := handle(t, testengines.Memory(t), &viewhttp.Options{Heartbeat: time.Millisecond, MaxStreams: 1})
	f := c.follow("/v1/kv/app/t")
	f.want("synced")
	for range 3 {
		if e, ok := f.next(); !ok || e.data != ":" {
			t.Fatalf("got %+v, want a heartbeat", e)
		}
	}
	p := c.do(503, "GET", "/v1/kv/app/t", "", "Accept", "text/event-stream")
	equal(t, "kind", p.at("kind"), `"unavailable"`)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	for {
		if _, ok := f.next(); !ok {
			break
		}
	}
	c.do(503, "GET", "/v1/kv", "")
}

// TestFollowersGiveTheirPlaceBack when their client has gone.
func TestFollowersGiveTheirPlaceBack(t *testing.T) {
	c, _ := handle(t, testengines.Memory(t), &viewhttp.Options{MaxStreams: 1})
	for range 3 {
		testkit.Eventually(t, "the place is free", func() bool {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			resp := c.request(ctx, "GET", "/v1/kv/app/t", "", "Accept", "text/event-stream")
			defer resp.Body.Close()
			return resp.StatusCode == http.StatusOK
		})
	}
}

// TestClientThatTakesNothingIsCut, so that it holds neither memory nor a place.
func TestClientThatTakesNothingIsCut(t *testing.T) {
	memory := budget.New("test", 64<<20)
	c, _ := handle(t, testengines.Memory(t), &viewhttp.Options{Memory: memory, WriteTimeout: 50 * time.Millisecond})
	for i := range 4 {
		c.do(200, "PUT", "/v1/kv/app/t/"+string('a'+rune(i)), strings.Repeat("x", 8<<20))
	}
	resp := c.request(t.Context(), "GET", "/v1/kv/app/t", "", "Accept", "text/event-stream")
	defer resp.Body.Close()
	testkit.Eventually(t, "all memory is back", func() bool { return memory.Free() == 64<<20 })
}

// TestLargeEventsWaitForMemory: a follower goes on where it was when there is memory again.
func TestLargeEventsWaitForMemory(t *testing.T) {
	memory := budget.New("test", 1<<20)
	c, _ := handle(t, testengines.Memory(t), &viewhttp.Options{Memory: memory})
	f := c.follow("/v1/kv/app/t")
	f.want("synced")
	other := memory.Child("http", 0).Hold()
	if !other.Try(900 << 10) {
		t.Fatal("there is no memory")
	}
	direct := mainstem.NewBatch()
	direct.Ensure("kv/app/t", mainstem.Policy{History: 1})
	direct.Put("kv/app/t", []byte("large"), []byte(strings.Repeat("x", 100<<10)))
	direct.Put("kv/app/t", []byte("small"), []byte("y"))
	if _, err := c.log.Commit(t.Context(), direct); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the follower waits", func() bool {
		for _, s := range memory.Stats() {
			if s.Waiting > 0 {
				return true
			}
		}
		return false
	})
	other.Release()
	equal(t, "key", f.field(f.want("put"), "key"), `"large"`)
	equal(t, "key", f.field(f.want("put"), "key"), `"small"`)
	f.stop()
	testkit.Eventually(t, "all memory is back", func() bool { return memory.Free() == 1<<20 })
}

// TestEventLargerThanTheMemory: it gets all of the memory, also while other followers are open.
func TestEventLargerThanTheMemory(t *testing.T) {
	memory := budget.New("test", 1<<20)
	c, _ := handle(t, testengines.Memory(t), &viewhttp.Options{Memory: memory})
	c.do(200, "PUT", "/v1/kv/app/other/k", "x")
	c.follow("/v1/kv/app/other").want("put")
	f := c.follow("/v1/kv/app/t")
	f.want("synced")
	direct := mainstem.NewBatch()
	direct.Ensure("kv/app/t", mainstem.Policy{History: 1})
	direct.Put("kv/app/t", []byte("large"), []byte(strings.Repeat("x", 400<<10)))
	if _, err := c.log.Commit(t.Context(), direct); err != nil {
		t.Fatal(err)
	}
	came := make(chan sse, 1)
	var reader sync.WaitGroup
	defer reader.Wait()
	defer f.stop()
	reader.Go(func() {
		for e, ok := f.next(); ok; e, ok = f.next() {
			if e.event == "put" {
				came <- e
			}
		}
	})
	testkit.Eventually(t, "the event comes", func() bool { return len(came) == 1 })
	equal(t, "key", f.field(<-came, "key"), `"large"`)
}

// failing is a log whose commits fail.
type failing struct {
	mainstem.Log
	err error
}

func (f failing) Commit(context.Context, *mainstem.Batch) (mainstem.Receipt, error) {
	if f.err == nil {
		panic("a bug")
	}
	return mainstem.Receipt{}, f.err
}

func TestErrorsOfTheLogAreProblems(t *testing.T) {
	log := testengines.Memory(t)
	for _, x := range []struct {
		err           error
		status        int
		kind, outcome string
	}{
		{mainstem.Errorf(mainstem.KindUnavailable, "commit", "no connection").WithOutcome(mainstem.Unknown), 503, "unavailable", "unknown"},
		{mainstem.Refusef(mainstem.KindUnavailable, "commit", "disk full"), 503, "unavailable", "not_written"},
		{mainstem.Errorf(mainstem.KindCorrupt, "commit", "bad checksum"), 500, "corrupt", ""},
		{mainstem.Errorf(mainstem.KindClosed, "commit", "closed"), 503, "closed", ""},
		{errors.New("unheard of"), 500, "internal", ""},
		{nil, 500, "internal", "unknown"}, // a panic: nobody knows
	} {
		c, _ := handle(t, failing{log, x.err}, nil)
		p := c.do(x.status, "PUT", "/v1/kv/app/t/k", "x")
		var got struct{ Kind, Outcome string }
		p.into(&got)
		equal(t, "kind", got.Kind, x.kind)
		equal(t, "outcome", got.Outcome, x.outcome)
	}
}
