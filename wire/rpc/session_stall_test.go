package rpc_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/internal/session"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/wire/rpc"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

// inBubble serves log within the bubble of the test.
func inBubble(t *testing.T, log mainstem.Log, o *rpc.Options) (_ *rpc.Handler, dial func() net.Conn) {
	t.Helper()
	path, h := rpc.NewHandler(log, o)
	mux := http.NewServeMux()
	mux.Handle(path, h)
	mux.Handle(rpc.SessionPath, h)
	web := &http.Server{Handler: mux}
	rpc.ConfigureServer(web)
	listener := testkit.NewPipes()
	go func() { _ = web.Serve(listener) }()
	t.Cleanup(func() {
		_ = h.Close()
		_ = web.Close()
		time.Sleep(time.Second) // of the bubble: goroutines that wait for calls end
	})
	return h, func() net.Conn {
		client, err := listener.Dial()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
}

// bubble serves log within the bubble of the test, and opens a session.
func bubble(t *testing.T, log mainstem.Log, o *rpc.Options, w session.Windows) *raw {
	t.Helper()
	_, dial := inBubble(t, log, o)
	return openIn(t, dial(), w)
}

// openIn opens a session on a connection.
func openIn(t *testing.T, c net.Conn, w session.Windows) *raw {
	t.Helper()
	r, status := ask(t, c, asks)
	if status != http.StatusSwitchingProtocols {
		t.Fatalf("the status is %d", status)
	}
	r.hello(w)
	return r
}

// A client that takes a large record slowly, but a part of it within every limit, gets all of it.
func TestSlowClientGetsItsRecord(t *testing.T) {
	const limit, size = budget.Patience, 2 << 20
	for name, stall := range map[string]time.Duration{"stall timeout": limit, "others wait for memory": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				process := budget.New("process", 64<<20)
				log := model.New(nil)
				commit(t, log, "k", make([]byte, size))
				r := bubble(t, log, &rpc.Options{Memory: process, StallTimeout: stall}, session.Windows{Call: session.ProgressSize, Session: 2 * size})
				r.write(call(1, session.Get, &pb.GetRequest{Space: "s", Key: []byte("k")}))
				for got := 0; got < size; {
					h, p := r.answer(1)
					if h.Type != session.TypeData {
						t.Fatalf("after %d bytes came a frame of type %d: %q", got, h.Type, p)
					}
					if got == 0 && stall > limit {
						waitFor(t, process.Child("rpc answers", 0))
					}
					had := got / session.ProgressSize
					if got += len(p); had != got/session.ProgressSize {
						time.Sleep(limit - time.Second) // of the bubble
						r.write(session.AppendCredit(nil, 1, session.ProgressSize))
					}
				}
			})
		})
	}
}

// waitFor waits until the test ends, or for more memory than answers have.
func waitFor(t *testing.T, answers *budget.Budget) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	h := answers.Hold()
	go func() {
		defer close(done)
		_ = h.Acquire(ctx, 1<<40)
	}()
	synctest.Wait()
	if answers.Stats()[0].Waiting != 1 {
		t.Fatal("nobody waits for the memory of answers")
	}
	t.Cleanup(func() {
		cancel()
		<-done
		h.Release()
	})
}
