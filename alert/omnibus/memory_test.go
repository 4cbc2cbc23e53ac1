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
