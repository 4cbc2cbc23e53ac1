package viewhttp_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/topic"
	viewhttp "github.com/mainstemdev/mainstem/wire/http"
)

// late is a reader that has its bytes once the channel is closed.
type late struct {
	begin <-chan struct{}
	io.Reader
}

func (l late) Read(p []byte) (int, error) {
	<-l.begin
	return l.Reader.Read(p)
}

// A request that waits for memory has its whole time to arrive.
func TestWaitForMemoryIsNoTimeToArrive(t *testing.T) {
	const part = 100 << 10
	for _, version2 := range []bool{false, true} {
		for _, size := range []int64{2 * part, -1} {
			t.Run(fmt.Sprintf("HTTP/2 %t, size %d", version2, size), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					log := model.New(nil)
					topics, err := topic.Open(log, &topic.Options{Every: -1})
					if err != nil {
						t.Fatal(err)
					}
					memory := budget.New("test", 1<<20)
					h := viewhttp.New(log, topics, &viewhttp.Options{Memory: memory, BodyTimeout: time.Minute})
					p := new(http.Protocols)
					p.SetHTTP1(!version2)
					p.SetUnencryptedHTTP2(version2)
					web := &http.Server{Handler: h, Protocols: p}
					listener := testkit.NewPipes()
					go func() { _ = web.Serve(listener) }()
					dial := func(context.Context, string, string) (net.Conn, error) { return listener.Dial() }
					transport := &http.Transport{Protocols: p, DialContext: dial}
					defer func() {
						transport.CloseIdleConnections()
						_, _, _ = h.Close(), web.Close(), topics.Close()
						time.Sleep(time.Minute) // of the bubble: the body is read to its end
					}()

					other := memory.Child("http", 0).Hold()
					if !other.Try(1 << 20) {
						t.Fatal("the budget is not empty")
					}
					defer time.AfterFunc(50*time.Second, other.Release).Stop()
					half := strings.Repeat("x", part)
					begin := make(chan struct{})
					defer time.AfterFunc(90*time.Second, func() { close(begin) }).Stop()
					body := io.MultiReader(strings.NewReader(half), late{begin, strings.NewReader(half)})
					r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://localhost/v1/kv/app/t/k", body)
					if err != nil {
						t.Fatal(err)
					}
					r.ContentLength = size
					response, err := transport.RoundTrip(r)
					if err != nil {
						t.Fatal(err)
					}
					defer response.Body.Close()
					answer, _ := io.ReadAll(response.Body)
					if response.StatusCode != http.StatusOK {
						t.Errorf("%s: %s", response.Status, answer)
					}
				})
			})
		}
	}
}
