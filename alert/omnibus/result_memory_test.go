package omnibus

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// A large result is more than the buffers of a connection take.
const (
	largeRows = 3000
	largeText = 3000
)

const largeQuery = "alerts/status?collist=Identifier,ExtendedAttr"

// fill gives the site a table whose result is large.
func (s *site) fill() {
	s.t.Helper()
	rows := make([][]any, largeRows)
	for i := range rows {
		rows[i] = []any{fmt.Sprint("row", i), strings.Repeat("x", largeText)}
	}
	session := s.server.Session(alert.SessionInfo{User: "root"})
	defer func() { _ = session.Close() }()
	if _, err := session.InsertRows(s.t.Context(), "alerts.status", []string{"Identifier", "ExtendedAttr"}, rows); err != nil {
		s.t.Fatal(err)
	}
}

// write is a transaction: what is open is taken into memory.
func (s *site) write() {
	if _, err := s.server.Exec(context.Background(), "update alerts.status set Tally = Tally + 1 where Identifier = 'row0'"); err != nil {
		s.t.Error(err)
	}
}

// slowReader is a client that has begun to read a large result.
type slowReader struct {
	body io.Reader
	done context.CancelFunc
}

// slow returns n clients, each with a connection of its own, that do not read on.
func (s *site) slow(n int) []*slowReader {
	s.t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	all := make([]*slowReader, n)
	for i := range all {
		ctx, cancel := context.WithCancel(s.t.Context())
		s.t.Cleanup(cancel)
		resp, err := transport.RoundTrip(s.request("GET", largeQuery, "").WithContext(ctx))
		if err != nil {
			s.t.Fatal(err)
		}
		body := bufio.NewReader(resp.Body)
		if _, err := body.Peek(1); err != nil || resp.StatusCode != http.StatusOK {
			s.t.Fatal(resp.Status, err)
		}
		all[i] = &slowReader{body, func() {
			cancel()
			_ = resp.Body.Close()
		}}
	}
	return all
}

// finish reads the rest, and reports whether the result was there to its end.
func (r *slowReader) finish(t *testing.T) bool {
	t.Helper()
	defer r.done()
	p, err := io.ReadAll(r.body)
	var got result
	wellFormed := json.Unmarshal(p, &got) == nil
	if wellFormed != (err == nil) || wellFormed && len(got.Rowset.Rows) != largeRows {
		t.Errorf("%v, well-formed: %t, %d rows", err, wellFormed, len(got.Rowset.Rows))
	}
	return wellFormed
}

// results returns what results have of the budget.
func results(memory *budget.Budget) budget.Stats {
	for _, s := range memory.Stats() {
		if s.Name == "alert results" {
			return s
		}
	}
	return budget.Stats{}
}

func givenBack(t *testing.T, memory *budget.Budget) {
	t.Helper()
	testkit.Eventually(t, "all memory is given back", func() bool { return memory.Stats()[0].Used == 0 })
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // what pools keep goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Many clients that read slowly share the budget: results for which there is no memory
// break off, the others are there to their end, and nobody else is held up.
func TestSlowReadersStayWithinTheBudget(t *testing.T) {
	memory := budget.New("process", 32<<20)
	s := serve(t, &Options{Memory: memory, WriteTimeout: 10 * testkit.Patience})
	s.fill()
	before := heap()
	readers := s.slow(16)
	s.write()
	got := results(memory)
	if got.Used == 0 || got.Used > got.Limit || got.Limit != memory.Limit()/2 || got.Refused == 0 {
		t.Errorf("%+v", got)
	}
	if grown := heap() - before; grown > 2*got.Limit {
		t.Errorf("the heap has grown by %d bytes, the limit is %d", grown, got.Limit)
	}
	s.want(http.StatusOK, "GET", "alerts/status?limit=1&collist=Identifier", "")
	whole := 0
	for _, r := range readers {
		if r.finish(t) {
			whole++
		}
	}
	if whole == 0 || whole == len(readers) {
		t.Errorf("%d of %d results are whole", whole, len(readers))
	}
	givenBack(t, memory)
}

// A client that leaves in the middle of a result gives its memory back.
func TestSlowReadersThatLeave(t *testing.T) {
	memory := budget.New("process", 64<<20)
	s := serve(t, &Options{Memory: memory})
	s.fill()
	readers := s.slow(2)
	s.write()
	if results(memory).Used == 0 {
		t.Error("nothing was taken into memory")
	}
	for _, r := range readers {
		r.done()
	}
	givenBack(t, memory)
}

// A client that takes nothing of its result loses it when others wait for the memory.
func TestSlowReadersGiveWay(t *testing.T) {
	memory := budget.New("process", 64<<20)
	s := serve(t, &Options{Memory: memory})
	s.fill()
	reader := s.slow(1)[0]
	s.write()
	if results(memory).Used == 0 {
		t.Error("nothing was taken into memory")
	}
	others := memory.Child("others", 0)
	first, second := others.Hold(), others.Hold()
	first.Take(1)
	if err := second.Acquire(t.Context(), memory.Limit()-1); err != nil {
		t.Fatal(err)
	}
	if got := results(memory); got.Used != 0 || got.Recalled != 1 {
		t.Errorf("%+v", got)
	}
	first.Release()
	second.Release()
	if reader.finish(t) {
		t.Error("the result is whole")
	}
	givenBack(t, memory)
}

// A result that finds no memory before any of it was sent is answered with an error that
// says so.
func TestResultsWithoutMemory(t *testing.T) {
	memory := budget.New("process", 32<<20)
	s := serve(t, &Options{Memory: memory, CompressFrom: 1 << 30}) // all is sent at the end
	s.fill()
	full := memory.Child("alert results", 0).Hold()
	full.Take(memory.Limit())
	ctx, cancel := context.WithCancel(t.Context())
	written := make(chan struct{})
	go func() {
		defer close(written)
		for ctx.Err() == nil {
			s.write()
		}
	}()
	text := ""
	testkit.Eventually(t, "a result is read while a transaction begins", func() bool {
		resp, body := s.do("GET", largeQuery, "")
		text = body
		return resp.StatusCode == http.StatusServiceUnavailable
	})
	cancel()
	<-written
	for _, want := range []string{"bytes of the result", "no memory for", "of alert results: 33554432 of 16777216 bytes", "memory-budget"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %.500s", want, text)
		}
	}
	full.Release()
	s.want(http.StatusOK, "GET", largeQuery, "")
	givenBack(t, memory)
}
