package omnibus

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// wide is a request to sql/factory whose body has n bytes and more.
func wide(n int) string {
	return `{"pad":"` + strings.Repeat("x", n) + `","sqlcmd":"select top 1 Identifier from alerts.status"}`
}

// A body takes memory from the budget: without it the client is told to try later, and
// afterwards nothing is held.
func TestBodiesDrawFromTheBudget(t *testing.T) {
	memory := budget.New("process", 1<<20)
	s := serve(t, &Options{Memory: memory})
	s.handler.memoryWait = time.Second
	full := memory.Child("omnibus requests", 0).Hold()
	full.Take(1 << 20)
	s.want(http.StatusOK, "POST", "sql/factory", wide(100)) // small ones are not counted
	if text := s.want(http.StatusServiceUnavailable, "POST", "sql/factory", wide(100_000)); !strings.Contains(text, "no memory for") {
		t.Errorf("%s", text)
	}
	full.Release()
	testkit.Eventually(t, "it is served", func() bool {
		resp, _ := s.do("POST", "sql/factory", wide(100_000))
		return resp.StatusCode == http.StatusOK
	})
	testkit.Eventually(t, "all memory is given back", func() bool { return memory.Stats()[0].Used == 0 })
}

// Rows that lack most of the columns of others are small in a body, and large when decoded.
func TestRowsDrawFromTheBudget(t *testing.T) {
	memory := budget.New("process", 1<<20)
	s := serve(t, &Options{Memory: memory})
	s.handler.memoryWait = time.Millisecond
	table, _ := s.server.Table("alerts.status")
	body := func(rows int) string {
		first := `{"Identifier":"first"`
		for i := range table.Columns {
			if c := &table.Columns[i]; !c.PrimaryKey && c.Type != typeIncr {
				first += `,"` + c.Name + `":null`
			}
		}
		return `{"rowset":{"rows":[` + first + "}" + strings.Repeat(`,{"Identifier":"other"}`, rows) + `]}}`
	}
	large := body(500)
	if len(large) > freeBody {
		t.Fatalf("the body has %d bytes", len(large))
	}
	s.want(http.StatusRequestEntityTooLarge, "POST", collection, large)
	full := memory.Child("omnibus requests", 0).Hold()
	full.Take(1 << 20)
	if text := s.want(http.StatusServiceUnavailable, "POST", collection, body(50)); !strings.Contains(text, "no memory for") {
		t.Errorf("%s", text)
	}
	full.Release()
	s.want(http.StatusCreated, "POST", collection, body(50))
	testkit.Eventually(t, "all memory is given back", func() bool { return memory.Stats()[0].Used == 0 })
}

// TestUnknownColumn is refused where it comes first: what follows is not read.
func TestUnknownColumn(t *testing.T) {
	body := `{"rowset":{"rows":[{"Identifier":"a","Nothing":1},`
	_, err := decodeRows([]byte(body), &statusTable, 10, func(int) error { return nil })
	if err == nil || !strings.Contains(err.Error(), `no column "Nothing"`) {
		t.Errorf("%v", err)
	}
}

// A client that stops in the middle of a body loses the memory when others wait for it.
func TestBodiesThatStop(t *testing.T) {
	memory := budget.New("process", 1<<20)
	s := serve(t, &Options{Memory: memory})
	s.handler.memoryWait = testkit.Patience
	body, rest := io.Pipe()
	defer rest.Close()
	r := s.request("POST", "sql/factory", "-")
	r.Body, r.ContentLength = body, -1
	stopped := make(chan int, 1)
	go func() {
		resp, err := s.client.Do(r)
		if err != nil {
			stopped <- 0 // the connection was closed before the client read the answer
			return
		}
		_ = resp.Body.Close()
		stopped <- resp.StatusCode
	}()
	if _, err := rest.Write([]byte(wide(300_000)[:300_000])); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the memory is taken", func() bool { return memory.Stats()[0].Used > 1<<20 })
	s.want(http.StatusOK, "POST", "sql/factory", wide(100_000))
	rest.Close()
	if status := <-stopped; status != 0 && status != http.StatusServiceUnavailable {
		t.Errorf("status %d", status)
	}
	testkit.Eventually(t, "all memory is given back", func() bool { return memory.Stats()[0].Used == 0 })
}
