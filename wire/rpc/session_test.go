package rpc_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/internal/message"
	"github.com/mainstemdev/mainstem/internal/session"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/wire/rpc"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

const whole = session.First | session.Last | session.End

// raw is a client that speaks frames, and does what it should not.
type raw struct {
	t  testing.TB
	c  net.Conn
	in *bufio.Reader
}

// upgrade asks for a session with some headers and returns the status.
func (s *server) upgrade(t testing.TB, headers ...string) (*raw, int) {
	t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return ask(t, c, headers...)
}

// ask asks for a session on a connection.
func ask(t testing.TB, c net.Conn, headers ...string) (*raw, int) {
	t.Helper()
	request := "GET " + rpc.SessionPath + " HTTP/1.1\r\nHost: localhost\r\n" + strings.Join(headers, "\r\n")
	if len(headers) > 0 {
		request += "\r\n"
	}
	if _, err := io.WriteString(c, request+"\r\n"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &raw{t, c, in}, response.StatusCode
}

const asks = "Connection: keep-alive, Upgrade\r\nUpgrade: " + session.Protocol

// session opens a session whose client has these windows.
func (s *server) session(t testing.TB, w session.Windows, headers ...string) *raw {
	t.Helper()
	r, status := s.upgrade(t, append(headers, asks)...)
	if status != http.StatusSwitchingProtocols {
		t.Fatalf("the status is %d", status)
	}
	r.hello(w)
	return r
}

// hello says what windows the client has.
func (r *raw) hello(w session.Windows) {
	r.t.Helper()
	r.write(session.AppendHello(nil, session.Hello{Version: 1, Windows: w}))
	if h, _, err := r.frame(); err != nil || h.Type != session.TypeHello {
		r.t.Fatalf("got a frame of type %d, %v", h.Type, err)
	}
}

var wide = session.Windows{Call: 1 << 20, Session: 1 << 24}

func (r *raw) write(b []byte) {
	r.t.Helper()
	if _, err := r.c.Write(b); err != nil {
		r.t.Fatal(err)
	}
}

// frame returns the next frame that is no Ping, which asks for a sign of life.
func (r *raw) frame() (session.Header, []byte, error) {
	for {
		h, p, err := r.next()
		if err != nil || h.Type != session.TypePing {
			return h, p, err
		}
	}
}

func (r *raw) next() (session.Header, []byte, error) {
	b := make([]byte, session.HeaderSize)
	if _, err := io.ReadFull(r.in, b); err != nil {
		return session.Header{}, nil, err
	}
	h, err := session.ParseHeader(b)
	if err != nil {
		return h, nil, err
	}
	p := make([]byte, h.Size)
	_, err = io.ReadFull(r.in, p)
	return h, p, err
}

// answer returns the next frame of a call.
func (r *raw) answer(call uint64) (session.Header, []byte) {
	r.t.Helper()
	for {
		h, p, err := r.frame()
		if err != nil {
			r.t.Fatal(err)
		}
		if h.Call == call {
			return h, p
		}
	}
}

// wantError reads the error that ends a call.
func (r *raw) wantError(call uint64, kind mainstem.Kind, outcome mainstem.Outcome) {
	r.t.Helper()
	h, p := r.answer(call)
	if h.Type != session.TypeError {
		r.t.Fatalf("call %d got a frame of type %d", call, h.Type)
	}
	e, err := message.ParseError(p)
	if err != nil || e.Kind != kind || e.Outcome != outcome {
		r.t.Fatalf("call %d failed with %v, %q (%v); want %v, %q", call, e, e.Outcome, err, kind, outcome)
	}
}

// wantClosed waits until the server has closed the connection.
func (r *raw) wantClosed() {
	r.t.Helper()
	_ = r.c.SetReadDeadline(time.Now().Add(30 * time.Second)) // less than until the server finds it silent
	if _, err := io.Copy(io.Discard, r.in); errors.Is(err, os.ErrDeadlineExceeded) {
		r.t.Error("the server does not close the connection")
	}
}

// call is a frame with a whole request.
func call(number uint64, m session.Method, in proto.Message) []byte {
	b, err := proto.Marshal(in)
	if err != nil {
		panic(err)
	}
	return session.AppendFrame(nil, session.TypeCall, whole, number, session.AppendCall(nil, session.Call{Method: m, Size: uint32(len(b))}), b)
}

func commitOf(value []byte) *pb.CommitRequest {
	return &pb.CommitRequest{Ensures: []*pb.Ensure{{Space: "s"}}, Writes: []*pb.Write{{Space: "s", Key: []byte("k"), Value: value}}}
}

func TestUpgradeIsRefused(t *testing.T) {
	s := serve(t, nil, &rpc.Options{Token: "secret"})
	for name, c := range map[string]struct {
		headers []string
		want    int
	}{
		"no token":       {[]string{asks}, http.StatusUnauthorized},
		"wrong token":    {[]string{asks, "Authorization: Bearer x"}, http.StatusUnauthorized},
		"no upgrade":     {[]string{"Authorization: Bearer secret"}, http.StatusUpgradeRequired},
		"other protocol": {[]string{"Authorization: Bearer secret", "Connection: Upgrade", "Upgrade: websocket"}, http.StatusUpgradeRequired},
		"in order":       {[]string{"Authorization: Bearer secret", asks}, http.StatusSwitchingProtocols},
	} {
		if _, status := s.upgrade(t, c.headers...); status != c.want {
			t.Errorf("%s: the status is %d, want %d", name, status, c.want)
		}
	}
}

func TestSessionsHaveLimits(t *testing.T) {
	s := serve(t, nil, &rpc.Options{MaxSessions: 1})
	first := s.session(t, wide)
	if _, status := s.upgrade(t, asks); status != http.StatusServiceUnavailable {
		t.Errorf("the second session has the status %d", status)
	}
	_ = first.c.Close()
	testkit.Eventually(t, "the memory of the first is given back", func() bool {
		_, status := s.upgrade(t, asks)
		return status == http.StatusSwitchingProtocols
	})
}

// Frames that no client sends end the session, and nothing else.
func TestWrongFramesEndTheSession(t *testing.T) {
	process := budget.New("process", 64<<20)
	s := serve(t, nil, &rpc.Options{Memory: process, Logger: slog.New(slog.DiscardHandler)})
	head := func(size uint32) []byte {
		return session.AppendCall(nil, session.Call{Method: session.Commit, Size: size})
	}
	large := func(number uint64) []byte {
		return session.AppendFrame(nil, session.TypeCall, session.First, number, head(1<<20), make([]byte, 60<<10))
	}
	for name, b := range map[string][]byte{
		"a second hello":          session.AppendHello(nil, session.Hello{Version: 1, Windows: wide}),
		"a frame of the server":   session.AppendFrame(nil, session.TypeGoAway, 0, 0),
		"an unknown type":         session.AppendFrame(nil, 99, 0, 0),
		"a size beyond the limit": {255, 255, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"a call without a head":   session.AppendFrame(nil, session.TypeCall, whole, 1, []byte("x")),
		"a call that is longer":   session.AppendFrame(nil, session.TypeCall, whole, 1, head(1), []byte("xx")),
		"a number twice":          append(large(1), large(1)...),
		"a piece beyond the end":  append(large(1), session.AppendFrame(nil, session.TypeData, session.Last|session.End, 1, []byte("x"))...),
		"a short credit":          session.AppendFrame(nil, session.TypeCredit, 0, 0, []byte{1}),
	} {
		r := s.session(t, wide)
		if _, err := r.c.Write(b); err != nil {
			t.Fatal(err)
		}
		r.wantClosed()
		if t.Failed() {
			t.Fatal(name)
		}
	}
	r := s.session(t, wide)
	r.write(call(1, session.Head, &pb.HeadRequest{}))
	if h, _ := r.answer(1); h.Type != session.TypeData {
		t.Errorf("another session got a frame of type %d", h.Type)
	}
	_ = r.c.Close()
	testkit.Eventually(t, "all memory is given back", func() bool { return process.Stats()[0].Used == 0 })
}

func TestRequestsOfSessionsHaveLimits(t *testing.T) {
	s := serve(t, nil, &rpc.Options{MaxRequest: 100, MaxCommit: 1 << 10, MaxParts: 3})
	r := s.session(t, wide)
	r.write(call(1, session.Commit, commitOf(make([]byte, 2<<10))))
	r.wantError(1, mainstem.KindInvalid, mainstem.NotWritten)
	r.write(call(2, session.GetMany, &pb.GetManyRequest{Space: strings.Repeat("x", 200)}))
	r.wantError(2, mainstem.KindInvalid, mainstem.NoOutcome)
	r.write(session.AppendFrame(nil, session.TypeCall, whole, 3, session.AppendCall(nil, session.Call{Method: 77})))
	r.wantError(3, mainstem.KindUnsupported, mainstem.NoOutcome)
	r.write(session.AppendFrame(nil, session.TypeCall, whole, 4, session.AppendCall(nil, session.Call{Method: session.Get, Size: 1}), []byte{0xff}))
	r.wantError(4, mainstem.KindInvalid, mainstem.NoOutcome)
	r.write(session.AppendFrame(nil, session.TypeCall, whole, 5, session.AppendCall(nil, session.Call{Method: session.Commit, Size: 1}), []byte{0xff}))
	r.wantError(5, mainstem.KindInvalid, mainstem.NotWritten)
	r.write(session.AppendFrame(nil, session.TypeCall, session.First, 6, session.AppendCall(nil, session.Call{Method: session.Commit, Size: 1 << 30}), []byte("x")))
	r.wantError(6, mainstem.KindInvalid, mainstem.NotWritten)
	r.write(session.AppendFrame(nil, session.TypeData, 0, 6, make([]byte, 1000))) // was on its way: dropped
	r.write(call(7, session.Commit, commitOf(nil)))
	if h, _ := r.answer(7); h.Type != session.TypeData {
		t.Errorf("the session does not go on: a frame of type %d", h.Type)
	}
}

// A request that does not arrive, and one that gets no memory, are refused.
func TestRequestsOfSessionsThatWait(t *testing.T) {
	s := serve(t, nil, &rpc.Options{BodyTimeout: 50 * time.Millisecond, MaxPending: 256 << 10})
	r := s.session(t, wide)
	head := session.AppendCall(nil, session.Call{Method: session.Commit, Size: 200 << 10})
	r.write(session.AppendFrame(nil, session.TypeCall, session.First, 1, head, []byte("x")))
	r.write(session.AppendFrame(nil, session.TypeCall, session.First, 2, head, []byte("x")))
	seen := map[uint64]bool{}
	for len(seen) < 2 {
		h, p, err := r.frame()
		if err != nil {
			t.Fatal(err)
		}
		if h.Type != session.TypeError {
			continue // credit
		}
		if e, err := message.ParseError(p); err != nil || e.Kind != mainstem.KindUnavailable || e.Outcome != mainstem.NotWritten {
			t.Errorf("call %d: %v, %v", h.Call, e, err)
		}
		seen[h.Call] = true
	}
	r.write(call(3, session.Commit, commitOf(nil)))
	if h, _ := r.answer(3); h.Type != session.TypeData {
		t.Errorf("the session does not go on: a frame of type %d", h.Type)
	}
}

// slow is a log whose gets wait until they are let go, or their contexts end.
type slow struct {
	mainstem.Log
	entered chan struct{}
	leave   chan struct{}
}

func (s *slow) Get(ctx context.Context, space string, key []byte) (mainstem.Record, error) {
	s.entered <- struct{}{}
	select {
	case <-s.leave:
		return s.Log.Get(ctx, space, key)
	case <-ctx.Done():
		return mainstem.Record{}, mainstem.Ended(ctx, "get", time.Time{}, "")
	}
}

// The reader serves a get itself. If that waits, another goroutine reads: calls are
// answered, and a cancellation arrives.
func TestSlowCallDoesNotStopItsSession(t *testing.T) {
	log := &slow{model.New(nil), make(chan struct{}), make(chan struct{})}
	s := serve(t, log, nil)
	r := s.session(t, wide)
	const calls = 5
	for i := uint64(1); i <= calls; i++ {
		r.write(call(i, session.Get, &pb.GetRequest{Space: "s", Key: []byte("k")}))
		<-log.entered
	}
	r.write(call(9, session.Head, &pb.HeadRequest{}))
	if h, _ := r.answer(9); h.Type != session.TypeData {
		t.Fatalf("got a frame of type %d", h.Type)
	}
	r.write(session.AppendFrame(nil, session.TypeCancel, 0, 3))
	r.wantError(3, mainstem.KindCanceled, mainstem.Unknown)
	close(log.leave)
	for range calls - 1 {
		if h, _, err := r.frame(); err != nil || h.Type != session.TypeError { // there is no such space
			t.Errorf("got a frame of type %d, %v", h.Type, err)
		}
	}
}

// An answer that the client's window does not cover gives the reader away before it waits for
// credit, which only a reader learns of.
func TestLargeAnswerDoesNotKeepTheReader(t *testing.T) {
	s := serve(t, model.New(nil), nil)
	s.handler.NeverWatch()
	r := s.session(t, session.Windows{Call: 8 << 10, Session: 1 << 20})
	value := bytes.Repeat([]byte("v"), 50<<10)
	r.write(call(1, session.Commit, commitOf(value)))
	for h, _ := r.answer(1); h.Type == session.TypeCredit; h, _ = r.answer(1) {
	}
	r.write(call(2, session.Get, &pb.GetRequest{Space: "s", Key: []byte("k")}))
	_ = r.c.SetReadDeadline(time.Now().Add(30 * time.Second)) // by far more than the answer takes
	var answer session.Parts
	for full := false; !full; {
		h, p := r.answer(2)
		var cost int
		var err error
		if full, cost, err = answer.Add(h.Flags, p); err != nil || h.Type != session.TypeData {
			t.Fatalf("got a frame of type %d, %v", h.Type, err)
		}
		if !full {
			r.write(session.AppendCredit(nil, 2, cost))
		}
	}
	if !bytes.Contains(answer.Body, value) {
		t.Errorf("the answer of %d bytes does not have the value", len(answer.Body))
	}
}

// A call loses its turn as reader under the lock of the session, which counts it then: it may end
// at that moment, and a session that counts it too late ends twice.
func TestTurnIsTakenUnderTheLock(t *testing.T) {
	log := &slow{model.New(nil), make(chan struct{}), make(chan struct{})}
	s := serve(t, log, nil)
	r := s.session(t, wide)
	number := uint64(0)
	testkit.Eventually(t, "a call is served by the reader while the session is locked", func() bool {
		number++
		r.write(call(number, session.Get, &pb.GetRequest{Space: "s", Key: []byte("k")}))
		<-log.entered
		serving, lost := s.handler.KeepsTurn()
		if lost {
			t.Error("the call has lost its turn to nobody")
		}
		log.leave <- struct{}{}
		if h, _ := r.answer(number); h.Type != session.TypeError { // there is no such space
			t.Errorf("got a frame of type %d", h.Type)
		}
		return serving
	})
}

// A deadline that passes on the server ends a call there.
func TestDeadlineTravelsInSessions(t *testing.T) {
	log := &slow{model.New(nil), make(chan struct{}, 1), make(chan struct{})}
	r := serve(t, log, nil).session(t, wide)
	b := message.AppendGetRequest(nil, "s", []byte("k"), nil)
	head := session.AppendCall(nil, session.Call{Method: session.Get, Size: uint32(len(b)), Timeout: 20_000})
	r.write(session.AppendFrame(nil, session.TypeCall, whole, 1, head, b))
	r.wantError(1, mainstem.KindCanceled, mainstem.NoOutcome)
}

// When the client is gone its calls end.
func TestGoneClientEndsCalls(t *testing.T) {
	log := &slow{model.New(nil), make(chan struct{}), make(chan struct{})}
	process := budget.New("process", 1<<30)
	r := serve(t, log, &rpc.Options{Memory: process}).session(t, wide)
	r.write(call(1, session.Get, &pb.GetRequest{Space: "s", Key: []byte("k")}))
	<-log.entered
	_ = r.c.Close()
	testkit.Eventually(t, "the session has ended", func() bool { return process.Stats()[0].Used == 0 })
}

// A client that gives no credit loses its stream, and not its session.
func TestStalledStreamIsCut(t *testing.T) {
	log := model.New(nil)
	s := serve(t, log, &rpc.Options{StallTimeout: 50 * time.Millisecond})
	r := s.session(t, session.Windows{Call: 8 << 10, Session: 1 << 20})
	r.write(call(1, session.Commit, commitOf(make([]byte, 50<<10))))
	for h, _ := r.answer(1); h.Type == session.TypeCredit; h, _ = r.answer(1) {
	}
	r.write(call(2, session.Scan, &pb.ScanRequest{Space: "s"}))
	for {
		h, p := r.answer(2)
		if h.Type != session.TypeError {
			continue
		}
		if e, err := message.ParseError(p); err != nil || e.Kind != mainstem.KindUnavailable {
			t.Errorf("the stream ended with %v, %v", e, err)
		}
		break
	}
	r.write(call(3, session.Head, &pb.HeadRequest{}))
	if h, _ := r.answer(3); h.Type != session.TypeData {
		t.Errorf("got a frame of type %d", h.Type)
	}
}

// Close tells clients, refuses new calls, and lets running ones end.
func TestSessionsDrain(t *testing.T) {
	log := &slow{model.New(nil), make(chan struct{}), make(chan struct{})}
	s := serve(t, log, nil)
	r := s.session(t, wide)
	r.write(call(1, session.Get, &pb.GetRequest{Space: "s", Key: []byte("k")}))
	<-log.entered
	closed := make(chan error, 1)
	go func() { closed <- s.handler.Close() }()
	h, p, err := r.frame()
	if err != nil || h.Type != session.TypeGoAway || len(p) == 0 {
		t.Fatalf("got a frame of type %d, %q, %v", h.Type, p, err)
	}
	r.write(call(2, session.Commit, commitOf(nil)))
	r.wantError(2, mainstem.KindUnavailable, mainstem.NotWritten)
	close(log.leave)
	r.wantError(1, mainstem.KindNotFound, mainstem.NoOutcome)
	_ = r.c.Close()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, status := s.upgrade(t, asks); status != http.StatusServiceUnavailable {
		t.Errorf("after Close the status is %d", status)
	}
}

// A changed token ends the sessions of the old one, but not one that has presented the new.
func TestChangedTokenEndsSessions(t *testing.T) {
	s := serve(t, nil, &rpc.Options{Token: "old"})
	s.handler.SetTokenGrace(time.Hour) // the session does not end before the test
	const old = "Authorization: Bearer old"
	left, renewed := s.session(t, wide, old), s.session(t, wide, old)
	renewed.write(session.AppendFrame(nil, session.TypeToken, 0, 0, []byte("new")))
	renewed.write(call(1, session.Head, &pb.HeadRequest{}))
	renewed.answer(1)
	s.handler.SetToken("new")
	if h, _, err := left.frame(); err != nil || h.Type != session.TypeGoAway {
		t.Errorf("got a frame of type %d, %v", h.Type, err)
	}
	left.write(call(1, session.Get, &pb.GetRequest{Space: "s", Key: []byte("k")}))
	left.wantError(1, mainstem.KindUnavailable, mainstem.NoOutcome)
	s.handler.SetTokenGrace(time.Millisecond)
	s.handler.SetToken("new")
	left.wantClosed()
	renewed.write(call(2, session.Head, &pb.HeadRequest{}))
	if h, _ := renewed.answer(2); h.Type != session.TypeData {
		t.Errorf("got a frame of type %d", h.Type)
	}
	if _, status := s.upgrade(t, asks, old); status != http.StatusUnauthorized {
		t.Errorf("the old token has the status %d", status)
	}
}

// A session whose token changes while it is upgraded ends like those that were there before.
func TestTokenChangesDuringTheUpgrade(t *testing.T) {
	_, h := rpc.NewHandler(model.New(nil), &rpc.Options{Token: "old"})
	s := &server{httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(changesToken{w, h}, r)
	})), h}
	t.Cleanup(func() { _ = h.Close(); s.Close() })
	r, status := s.upgrade(t, asks, "Authorization: Bearer old")
	if status != http.StatusSwitchingProtocols {
		t.Fatalf("the status is %d", status)
	}
	r.write(session.AppendHello(nil, session.Hello{Version: session.Version, Windows: wide}))
	r.wantClosed()
}

type changesToken struct {
	http.ResponseWriter
	h *rpc.Handler
}

func (w changesToken) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.h.SetToken("new")
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// A get that panics fails alone.
func TestPanicFailsOneCall(t *testing.T) {
	s := serve(t, panics{model.New(nil)}, &rpc.Options{Logger: slog.New(slog.DiscardHandler)})
	r := s.session(t, wide)
	r.write(call(1, session.Get, &pb.GetRequest{Space: "s", Key: []byte("k")}))
	r.wantError(1, mainstem.KindInternal, mainstem.NoOutcome)
	r.write(call(2, session.Head, &pb.HeadRequest{}))
	if h, _ := r.answer(2); h.Type != session.TypeData {
		t.Errorf("got a frame of type %d", h.Type)
	}
}

type panics struct{ mainstem.Log }

func (panics) Get(context.Context, string, []byte) (mainstem.Record, error) { panic("get") }

func TestSessionStats(t *testing.T) {
	s := serve(t, nil, nil)
	r := s.session(t, wide)
	r.write(call(1, session.Head, &pb.HeadRequest{}))
	r.answer(1)
	if st := s.handler.SessionStats(); st.Open != 1 || st.Opened != 1 || st.Calls["Head"] != 1 || st.BytesIn == 0 || st.BytesOut == 0 {
		t.Errorf("%+v", st)
	}
	_ = r.c.Close()
	testkit.Eventually(t, "the session is closed", func() bool { return s.handler.SessionStats().Open == 0 })
	if st := s.handler.SessionStats(); st.Opened != 1 || st.BytesIn == 0 {
		t.Errorf("%+v", st)
	}
}

// Whatever a client sends, the server answers or ends the session, gives all memory back,
// and does not panic.
func FuzzSession(f *testing.F) {
	f.Add(call(1, session.Head, &pb.HeadRequest{}))
	f.Add(append(call(1, session.Commit, commitOf([]byte("v"))), call(2, session.Scan, &pb.ScanRequest{Space: "s"})...))
	f.Add(append(call(1, session.Feed, &pb.FeedRequest{Follow: true}), session.AppendFrame(nil, session.TypeCancel, 0, 1)...))
	f.Add(session.AppendFrame(nil, session.TypeCall, session.First, 1, session.AppendCall(nil, session.Call{Method: session.Commit, Size: 1 << 17}), make([]byte, 100)))
	f.Add(session.AppendCredit(session.AppendFrame(nil, session.TypePing, 0, 0), 0, 1<<30))
	process := budget.New("process", 256<<20)
	lines := new(testkit.Lines)
	s := serve(f, nil, &rpc.Options{Memory: process, Logger: lines.Logger()})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := s.session(t, wide)
		_, _ = r.c.Write(data)
		if err := r.c.(*net.TCPConn).CloseWrite(); err == nil {
			r.wantClosed()
		}
		if lines.Count("panicked") > 0 {
			t.Fatal(fmt.Sprint(lines))
		}
		testkit.Eventually(t, "all memory is given back", func() bool { return process.Stats()[0].Used == 0 })
	})
}
