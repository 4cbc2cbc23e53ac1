package rpc_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/session"
	"github.com/mainstemdev/mainstem/wire/rpc"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

// post sends a request on a connection of its own.
func post(t *testing.T, dial func() net.Conn, version2 bool, method, contentType, body string, header ...string) (*http.Response, error) {
	p := new(http.Protocols)
	p.SetHTTP1(!version2)
	p.SetUnencryptedHTTP2(version2)
	transport := &http.Transport{Protocols: p, DialContext: func(context.Context, string, string) (net.Conn, error) { return dial(), nil }}
	t.Cleanup(transport.CloseIdleConnections)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+service+method, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", contentType)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return transport.RoundTrip(r)
}

// A commit that the log executes for longer than a client is waited for is answered.
func TestCloseWaitsForTheLog(t *testing.T) {
	overHTTP := func(version2 bool) func(*testing.T, func() net.Conn) func() {
		return func(t *testing.T, dial func() net.Conn) func() {
			answered := make(chan string, 1)
			go func() {
				response, err := post(t, dial, version2, "Commit", "application/json", `{"ensures":[{"space":"s"}]}`)
				if err != nil {
					answered <- err.Error()
					return
				}
				defer response.Body.Close()
				if _, err := io.Copy(io.Discard, response.Body); err != nil {
					answered <- err.Error()
					return
				}
				answered <- response.Status
			}()
			return func() {
				if got := <-answered; got != "200 OK" {
					t.Errorf("the commit got %q", got)
				}
			}
		}
	}
	for name, commit := range map[string]func(*testing.T, func() net.Conn) (check func()){
		"HTTP/1.1": overHTTP(false),
		"HTTP/2":   overHTTP(true),
		"session": func(t *testing.T, dial func() net.Conn) func() {
			r := openIn(t, dial(), wide)
			r.write(call(1, session.Commit, commitOf(nil)))
			return func() {
				if got := r.receipt(1); got.First != 1 {
					t.Errorf("the receipt is %+v", got)
				}
				_ = r.c.Close()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := gate(model.New(nil))
				h, dial := inBubble(t, g, nil)
				check := commit(t, dial)
				<-g.entered
				closed := make(chan struct{})
				go func() { defer close(closed); _ = h.Close() }()
				time.Sleep(10 * time.Second) // of the bubble
				select {
				case <-closed:
					t.Error("Close did not wait for the commit")
				default:
				}
				close(g.leave)
				check()
				<-closed
			})
		})
	}
}

func TestCloseDoesNotWaitForClients(t *testing.T) {
	takesNothing := func(version2 bool) func(*testing.T, func() net.Conn) {
		return func(t *testing.T, dial func() net.Conn) {
			response, err := post(t, dial, version2, "Scan", "application/connect+json", frame(0, `{"space":"s"}`))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = response.Body.Close() })
		}
	}
	for name, begin := range map[string]func(*testing.T, func() net.Conn){
		"HTTP/1.1 stream": takesNothing(false),
		"HTTP/2 stream":   takesNothing(true),
		"request": func(t *testing.T, dial func() net.Conn) {
			const head = " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
			if _, err := io.WriteString(dial(), "POST "+service+"Head"+head); err != nil { // and sends nothing more
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &endless{Log: model.New(nil)}
				h, dial := inBubble(t, log, &rpc.Options{StallTimeout: time.Hour, BodyTimeout: time.Hour})
				begin(t, dial)
				synctest.Wait()
				began := time.Now()
				if err := h.Close(); err != nil {
					t.Error(err)
				}
				if d := time.Since(began); d != time.Second {
					t.Errorf("Close takes %v", d)
				}
				if name != "request" && log.ended.Load() != 1 {
					t.Error("the scan still runs")
				}
			})
		})
	}
}

// A session ends without what its client does not do.
func TestCloseCutsSessions(t *testing.T) {
	head := session.AppendCall(nil, session.Call{Method: session.Commit, Size: 1 << 20})
	for name, begin := range map[string]func(r *raw){
		"idle": func(*raw) {},
		"a request that does not arrive": func(r *raw) {
			r.write(session.AppendFrame(nil, session.TypeCall, session.First, 1, head, []byte("x")))
		},
		"an answer that is not taken": func(r *raw) {
			r.write(call(1, session.Get, &pb.GetRequest{Space: "s", Key: []byte("k")}))
		},
		"a stream that is not taken": func(r *raw) {
			r.write(call(1, session.Scan, &pb.ScanRequest{Space: "s"}))
		},
		"a follower": func(r *raw) {
			r.write(call(1, session.Feed, &pb.FeedRequest{Follow: true, After: 1}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := model.New(nil)
				commit(t, log, "k", make([]byte, 1<<20))
				h, dial := inBubble(t, log, &rpc.Options{StallTimeout: time.Hour, BodyTimeout: time.Hour})
				begin(openIn(t, dial(), session.Windows{Call: 8 << 10, Session: 1 << 20}))
				synctest.Wait()
				began := time.Now()
				if err := h.Close(); err != nil {
					t.Error(err)
				}
				if d := time.Since(began); d > 2*time.Second {
					t.Errorf("Close takes %v", d)
				}
			})
		})
	}
}
