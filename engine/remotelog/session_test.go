package remotelog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/remotelog"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/session"
	"github.com/mainstemdev/mainstem/wire/rpc"
)

func transportOf(t *testing.T, log *remotelog.Log) remotelog.Transport {
	t.Helper()
	info, err := log.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.Transport
}

// Where sessions are refused a Log that may choose uses RPC, and one that may not says so
// before anything is written.
func TestRefusedSessionFallsBack(t *testing.T) {
	path, h := rpc.NewHandler(model.New(nil), nil)
	mux := http.NewServeMux()
	mux.Handle(path, h)
	var status atomic.Int64
	mux.HandleFunc(rpc.SessionPath, func(w http.ResponseWriter, _ *http.Request) {
		if status.Load() == 0 { // a proxy that breaks such connections
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = c.Close()
			}
			return
		}
		w.WriteHeader(int(status.Load()))
	})
	s := httptest.NewUnstartedServer(mux)
	rpc.ConfigureServer(s.Config)
	s.Start()
	defer s.Close()
	defer h.Close()
	for code, c := range map[int]struct {
		auto, forced mainstem.Kind
	}{
		0:                              {mainstem.KindInternal, mainstem.KindUnavailable},
		http.StatusOK:                  {mainstem.KindInternal, mainstem.KindUnsupported},
		http.StatusNotFound:            {mainstem.KindInternal, mainstem.KindUnsupported},
		http.StatusUpgradeRequired:     {mainstem.KindInternal, mainstem.KindUnsupported},
		http.StatusForbidden:           {mainstem.KindDenied, mainstem.KindDenied},
		http.StatusServiceUnavailable:  {mainstem.KindUnavailable, mainstem.KindUnavailable},
		http.StatusInternalServerError: {mainstem.KindInternal, mainstem.KindUnavailable},
	} {
		status.Store(int64(code))
		auto := open(t, s.URL, nil)
		_, err := auto.Commit(t.Context(), put("", "k", "v"))
		if c.auto != mainstem.KindInternal {
			wantError(t, err, c.auto, mainstem.NotWritten)
		} else if err != nil || transportOf(t, auto) != remotelog.RPC {
			t.Errorf("%d: %v", code, err)
		}
		_, err = open(t, s.URL, &remotelog.Options{Transport: remotelog.Sessions}).Commit(t.Context(), put("", "k", "v"))
		wantError(t, err, c.forced, mainstem.NotWritten)
	}
}

func TestTransportThatIsUsed(t *testing.T) {
	s := serve(t, model.New(nil), nil)
	for name, c := range map[string]struct {
		o    *remotelog.Options
		want remotelog.Transport
	}{
		"default": {nil, remotelog.Sessions}, "forced": {&remotelog.Options{Transport: remotelog.Sessions}, remotelog.Sessions},
		"rpc": {&remotelog.Options{Transport: remotelog.RPC}, remotelog.RPC}, "json": {&remotelog.Options{JSON: true}, remotelog.RPC},
		"grpc": {&remotelog.Options{Protocol: remotelog.GRPC}, remotelog.RPC}, "http1": {&remotelog.Options{HTTP1: true}, remotelog.RPC},
	} {
		if got := transportOf(t, open(t, s.URL, c.o)); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	_, err := remotelog.Open(s.URL, &remotelog.Options{Transport: remotelog.Sessions, JSON: true})
	wantError(t, err, mainstem.KindInvalid, mainstem.NoOutcome)
	_, err = remotelog.Open(s.URL, &remotelog.Options{Transport: 9})
	wantError(t, err, mainstem.KindInvalid, mainstem.NoOutcome)
}

func TestSessionWithTLS(t *testing.T) {
	url, trust, http2 := serveTLS(t, logWith(t, 1), "secret")
	log := open(t, url, &remotelog.Options{TLS: trust, Token: "secret"})
	if r, err := log.Get(t.Context(), "s", []byte("k")); err != nil || string(r.Value) != "v" {
		t.Errorf("got %q, %v", r.Value, err)
	}
	if got := transportOf(t, log); got != remotelog.Sessions || http2() != 0 {
		t.Errorf("the transport is %v, %d calls came over HTTP/2", got, http2())
	}
	large := bytes.Repeat([]byte("x"), 3<<20)
	if _, err := log.Commit(t.Context(), put("", "large", string(large))); err != nil {
		t.Fatal(err)
	}
	if r, err := log.Get(t.Context(), "s", []byte("large")); err != nil || !bytes.Equal(r.Value, large) {
		t.Errorf("got %d bytes, %v", len(r.Value), err)
	}
}

// Large requests and answers travel in pieces, many at a time.
func TestLargeValuesTravelInSessions(t *testing.T) {
	log := open(t, serve(t, model.New(nil), nil).URL, nil)
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			key, value := fmt.Appendf(nil, "%d", i), bytes.Repeat([]byte{byte(i)}, []int{0, 5 << 10, 64 << 10, 300 << 10, 5 << 20}[i%5])
			if _, err := log.Commit(t.Context(), put("", string(key), string(value))); err != nil {
				t.Error(err)
			}
			if r, err := log.Get(t.Context(), "s", key); err != nil || !bytes.Equal(r.Value, value) {
				t.Errorf("%d bytes arrived, want %d; %v", len(r.Value), len(value), err)
			}
			for r, err := range log.Scan(t.Context(), "s", mainstem.Range{Prefix: key}) {
				if err != nil || !bytes.Equal(r.Value, value) {
					t.Errorf("the scan gave %d bytes, want %d; %v", len(r.Value), len(value), err)
				}
			}
		})
	}
	callers.Wait()
}

// Streams that are left give their credit back: many times what a session has.
func TestLeftStreamsGiveCreditBack(t *testing.T) {
	behind := model.New(nil)
	b := mainstem.NewBatch()
	b.Ensure("s", mainstem.Policy{})
	for i := range 16 {
		b.Put("s", fmt.Appendf(nil, "%d", i), make([]byte, 60<<10))
	}
	if _, err := behind.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	log := open(t, serve(t, behind, nil).URL, &remotelog.Options{Transport: remotelog.Sessions})
	for range 300 {
		for _, err := range log.Scan(t.Context(), "s", mainstem.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	if n := count(t, log); n != 16 {
		t.Errorf("%d records, want 16", n)
	}
}

func count(t *testing.T, log mainstem.Log) int {
	t.Helper()
	n := 0
	for _, err := range log.Scan(t.Context(), "s", mainstem.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// A loop body may use the same session, many levels deep, and loops that stand still hold
// up nobody.
func TestCallsWithinStreams(t *testing.T) {
	behind := model.New(nil)
	b := mainstem.NewBatch()
	b.Ensure("s", mainstem.Policy{})
	for i := range 20 {
		b.Put("s", fmt.Appendf(nil, "%d", i), make([]byte, 60<<10))
	}
	if _, err := behind.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	log := open(t, serve(t, behind, nil).URL, &remotelog.Options{Transport: remotelog.Sessions})
	var nested func(depth int)
	nested = func(depth int) {
		if depth == 0 {
			if n := count(t, log); n != 20 {
				t.Errorf("%d records, want 20", n)
			}
			return
		}
		for _, err := range log.Scan(t.Context(), "s", mainstem.Range{}) {
			if err != nil {
				t.Error(err)
				return
			}
			nested(depth - 1)
			return
		}
	}
	nested(300) // each has a window of bytes that nobody takes: more than the session's credit
}

// A server that stops gracefully leaves no commit behind whose outcome is not known.
func TestStoppingServerLeavesNoUnknownOutcome(t *testing.T) {
	behind := model.New(nil)
	s := &restartable{t: t}
	s.start(behind)
	log := open(t, "http://"+s.address, &remotelog.Options{Transport: remotelog.Sessions})
	head(t, log)
	var committed atomic.Int64
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				_, err := log.Commit(context.Background(), put("", "k", "v"))
				if err == nil {
					committed.Add(1)
				} else if e := (*mainstem.Error)(nil); !errors.As(err, &e) || e.Outcome != mainstem.NotWritten {
					t.Errorf("a commit failed with %v", err)
					return
				}
			}
		})
	}
	for i := range 5 {
		for before := committed.Load(); committed.Load() < before+20 && !t.Failed(); {
			head(t, behind)
		}
		s.stop()
		if i < 4 {
			s.start(behind)
		}
	}
	close(stop)
	writers.Wait()
	if got := head(t, behind); int64(got) != committed.Load() {
		t.Errorf("%d batches are in the log, %d were acknowledged", got, committed.Load())
	}
}

// A server that breaks the protocol makes calls fail, and not hang.
func TestServerThatBreaksTheProtocol(t *testing.T) {
	hello := session.AppendHello(nil, session.Hello{Version: 1, Windows: session.Windows{Call: 1 << 16, Session: 1 << 17}, Calls: 9})
	for name, answer := range map[string][]byte{
		"nothing":            {},
		"no hello":           session.AppendFrame(nil, session.TypePong, 0, 0),
		"garbage":            bytes.Repeat([]byte{0xff}, 100),
		"an unasked answer":  append(bytes.Clone(hello), session.AppendFrame(nil, session.TypeData, session.First|session.Last|session.End, 77, []byte("x"))...),
		"a call":             append(bytes.Clone(hello), session.AppendFrame(nil, session.TypeCall, 0, 1)...),
		"an unreadable one":  append(bytes.Clone(hello), session.AppendFrame(nil, session.TypeData, session.First|session.Last|session.End, 1, []byte{0xff})...),
		"an empty error":     append(bytes.Clone(hello), session.AppendFrame(nil, session.TypeError, 0, 1)...),
		"a piece of nothing": append(bytes.Clone(hello), session.AppendFrame(nil, session.TypeData, session.Last, 1, []byte("x"))...),
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				c, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: mainstem-log/1\r\n\r\n"))
				serveBytes(c, answer)
			}))
			defer s.Close()
			log := open(t, s.URL, &remotelog.Options{Transport: remotelog.Sessions, Retries: -1})
			_, err := log.Get(t.Context(), "s", []byte("k"))
			if kind := mainstem.KindOf(err); kind != mainstem.KindInternal && kind != mainstem.KindUnavailable {
				t.Errorf("the get failed with %v", err)
			}
		})
	}
}

// serveBytes sends an answer to the client's hello in two parts: the hello, and when the
// request has come the rest.
func serveBytes(c net.Conn, answer []byte) {
	defer c.Close()
	b := make([]byte, 1<<10)
	for _, part := range [][]byte{answer[:min(28, len(answer))], answer[min(28, len(answer)):]} {
		if len(part) == 0 {
			return
		}
		if _, err := c.Read(b); err != nil {
			return
		}
		if _, err := c.Write(part); err != nil {
			return
		}
	}
}

// A token that is changed on both sides, in either order, disturbs nobody.
func TestTokenChanges(t *testing.T) {
	s := serve(t, logWith(t, 1), &rpc.Options{Token: "one"})
	log := open(t, s.URL, &remotelog.Options{Token: "one"})
	get := func() error {
		_, err := log.Get(t.Context(), "s", []byte("k"))
		return err
	}
	if err := get(); err != nil {
		t.Fatal(err)
	}
	log.SetToken("two")
	if err := get(); err != nil {
		t.Errorf("the client has the new token: %v", err)
	}
	s.handler.SetToken("two")
	if err := get(); err != nil {
		t.Errorf("both have the new token: %v", err)
	}
	if st := s.handler.SessionStats(); st.Opened != 1 {
		t.Errorf("%d sessions were opened, want one", st.Opened)
	}
	s.handler.SetToken("three")
	log.SetToken("three")
	for range 3 {
		if err := get(); err != nil && mainstem.KindOf(err) != mainstem.KindUnavailable {
			t.Errorf("both have the third token: %v", err)
		}
	}
	if err := get(); err != nil {
		t.Errorf("both have the third token: %v", err)
	}
}
