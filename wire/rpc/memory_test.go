package rpc_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"
	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/wire/rpc"
	mainstemv1 "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
	"github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1/mainstemv1connect"
)

// large is the size of the values of these tests, few how many there are.
const (
	large = 4 << 20
	few   = 8
)

// largeValues returns a log in memory with a few large values under keys k0, k1 and so
// on of space s, and versions of key k.
func largeValues(t *testing.T) mainstem.Log {
	t.Helper()
	log, err := pebblelog.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := range few {
		b := mainstem.NewBatch()
		b.Ensure("s", mainstem.Policy{})
		b.Put("s", fmt.Appendf(nil, "k%d", i), valueOf(i))
		b.Put("s", []byte("k"), valueOf(i))
		if _, err := log.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	return log
}

func valueOf(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, large) }

// heap returns the bytes that are in use after a garbage collection.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what pools keep goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// lazy opens streams that nobody reads from, each on a connection of its own.
func (s *server) lazy(t *testing.T, n int, method, request string) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	transport := &http.Transport{DisableKeepAlives: true}
	for range n {
		body := fmt.Sprintf("\x00%s%s", lengthOf(request), request)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+service+method, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/connect+json")
		go func() {
			response, err := transport.RoundTrip(r)
			if err != nil {
				return // it left before it was served
			}
			<-ctx.Done()
			_ = response.Body.Close()
		}()
	}
	return func() {
		cancel()
		transport.CloseIdleConnections()
	}
}

func lengthOf(s string) []byte {
	n := len(s)
	return []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
}

func statsOf(b *budget.Budget, name string) budget.Stats {
	for _, s := range b.Stats() {
		if s.Name == name {
			return s
		}
	}
	return budget.Stats{}
}

// Followers and readers that take nothing hold no more memory than the budget, and
// nothing after they have left.
func TestClientsThatDoNotReadAreBounded(t *testing.T) {
	log := largeValues(t)
	const (
		streams = 60
		limit   = 16 * 3 * large / 4 // four large records
	)
	for _, tt := range []struct{ method, request string }{
		{"Feed", `{"follow":true}`},
		{"Feed", `{"spaces":["s"],"follow":true}`},
		{"Read", `{"space":"s","key":"aw=="}`},
		{"Read", `{"space":"s","key":"aw==","reverse":true}`},
		{"Scan", `{"space":"s"}`},
	} {
		if testing.Short() && !strings.Contains(tt.request, "follow") {
			continue
		}
		t.Run(tt.method, func(t *testing.T) {
			memory := budget.New("process", limit+streams<<20)
			s := serve(t, log, &rpc.Options{Memory: memory, MaxAnswers: limit})
			before := heap()
			leave := s.lazy(t, streams, tt.method, tt.request)
			testkit.Eventually(t, "the budget is used up", func() bool {
				a := statsOf(memory, "rpc answers")
				return a.Used > limit*3/4 && a.Waiting > 0
			})
			if a := statsOf(memory, "rpc answers"); a.Used > limit {
				t.Errorf("%d bytes are in use, the limit is %d", a.Used, limit)
			}
			// Beside the budget: small records, and what the sockets of the test's client hold.
			testkit.Eventually(t, "the heap is within twice the limit", func() bool { return heap()-before < 2*limit })
			leave()
			testkit.Eventually(t, "everything is given back", func() bool {
				all := memory.Stats()[0]
				return all.Used == 0 && all.Waiting == 0
			})
			testkit.Eventually(t, "the heap is as before", func() bool { return heap()-before < 4*large })
			s.alive(t)
		})
	}
}

// What waits for memory gets all of its records in order, once.
func TestStreamsGoOnWhereTheyWere(t *testing.T) {
	log := largeValues(t)
	const limit = 3 * large // one record
	memory := budget.New("process", 1<<30)
	s := serve(t, log, &rpc.Options{Memory: memory, MaxAnswers: limit})
	client := mainstemv1connect.NewLogServiceClient(&http.Client{Transport: http2(t)}, s.URL)
	taken := memory.Child("rpc answers", 0).Hold()
	taken.Take(limit)

	results := make(chan error)
	for name, read := range map[string]func() (string, error){
		"feed": func() (string, error) {
			stream, err := client.Feed(t.Context(), &mainstemv1.FeedRequest{Limit: 2 * few})
			return collect(stream, err, 0)
		},
		"follow": func() (string, error) {
			stream, err := client.Feed(t.Context(), &mainstemv1.FeedRequest{Follow: true})
			return collect(stream, err, 2*few)
		},
		"read": func() (string, error) {
			stream, err := client.Read(t.Context(), &mainstemv1.ReadRequest{Space: "s", Key: []byte("k")})
			return collect(stream, err, 0)
		},
		"last": func() (string, error) {
			stream, err := client.Read(t.Context(), &mainstemv1.ReadRequest{Space: "s", Key: []byte("k"), Reverse: true, Limit: 3})
			return collect(stream, err, 0)
		},
		"backwards": func() (string, error) {
			stream, err := client.Read(t.Context(), &mainstemv1.ReadRequest{Space: "s", Key: []byte("k"), Reverse: true})
			return collect(stream, err, 0)
		},
		"get": func() (string, error) {
			r, err := client.Get(t.Context(), &mainstemv1.GetRequest{Space: "s", Key: []byte("k")})
			if err != nil {
				return "", err
			}
			return string(r.Record.Value[:1]), nil
		},
	} {
		want := map[string]string{
			"feed": "aabbccddeeffgghh", "follow": "aabbccddeeffgghh", "read": "abcdefgh", "last": "hgf", "backwards": "hgfedcba", "get": "h",
		}[name]
		go func() {
			got, err := read()
			if err == nil && got != want {
				err = fmt.Errorf("%s: got %s, want %s", name, got, want)
			}
			results <- err
		}()
	}
	testkit.Eventually(t, "all wait", func() bool { return statsOf(memory, "rpc answers").Waiting == 6 })
	taken.Release()
	for range 6 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	testkit.Eventually(t, "everything is given back", func() bool { return memory.Stats()[0].Used == 0 })
}

// collect returns the first bytes of the values of a stream, up to most if that is not 0.
func collect(stream *connect.ServerStreamForClient[mainstemv1.Records], err error, most int) (string, error) {
	if err != nil {
		return "", err
	}
	var got strings.Builder
	for (most == 0 || got.Len() < most) && stream.Receive() {
		for _, r := range stream.Msg().Records {
			got.Write(r.Value[:1])
		}
	}
	if err := stream.Err(); err != nil {
		return got.String(), err
	}
	_ = stream.Close()
	return got.String(), nil
}

// A call that has a deadline is Unavailable, or late, when that ends before there is memory.
func TestWaitForMemoryEndsWithTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := model.New(nil)
		commit(t, log, "k", valueOf(0))
		memory := budget.New("process", 1<<30)
		_, dial := inBubble(t, log, &rpc.Options{Memory: memory, MaxAnswers: 3 * large})
		taken := memory.Child("rpc answers", 0).Hold()
		taken.Take(3 * large)
		defer taken.Release()
		get := func(key string) answer {
			response, err := post(t, dial, false, "Get", "application/json", `{"space":"s","key":"`+key+`"}`, "Connect-Timeout-Ms", "1000")
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			return answer{response.StatusCode, response.Header, body}
		}
		a := get("aw==")
		if code := a.code(); code != "unavailable" && code != "deadline_exceeded" || !strings.Contains(string(a.body), "rpc answers") {
			t.Errorf("%d %s", a.status, a.body)
		}
		if refused := statsOf(memory, "rpc answers").Refused; refused != 1 {
			t.Errorf("%d waits ended without memory", refused)
		}
		if a := get("bm9uZQ=="); a.code() != "not_found" {
			t.Errorf("what needs no memory: %d %s", a.status, a.body)
		}
	})
}

// A follower that takes nothing leaves its memory to those who have waited, long before the
// time that it may stall for.
func TestStalledStreamsAreCutForOthers(t *testing.T) {
	memory := budget.New("process", 1<<30)
	s := serve(t, largeValues(t), &rpc.Options{Memory: memory, MaxAnswers: 3 * large})
	defer s.lazy(t, 1, "Feed", `{"follow":true}`)()
	testkit.Eventually(t, "the budget is used up", func() bool { return statsOf(memory, "rpc answers").Waiting == 1 })
	a := s.post(t, "Get", "application/json", []byte(`{"space":"s","key":"aw=="}`))
	if a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	if got := statsOf(memory, "rpc answers"); got.Recalled == 0 {
		t.Errorf("%+v", got)
	}
}
