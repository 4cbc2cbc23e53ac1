package rpc_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/internal/session"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/wire/rpc"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

// keyed opens a session of a client that shows a key, and returns the server's.
func (s *server) keyed(t testing.TB, key session.Key, headers ...string) (*raw, session.Key) {
	t.Helper()
	r, _ := s.upgrade(t, append(headers, asks)...)
	r.write(session.AppendHello(nil, session.Hello{Version: 1, Windows: wide, Keyed: true, Key: key}))
	_, p, err := r.frame()
	if err != nil {
		t.Fatal(err)
	}
	hello, err := session.ParseHello(p)
	if err != nil || !hello.Keyed || hello.Key == (session.Key{}) {
		t.Fatalf("the hello is %+v, %v", hello, err)
	}
	return r, hello.Key
}

// again is a frame with a commit that another session carried.
func again(number uint64, in *pb.CommitRequest) []byte {
	b, err := proto.Marshal(in)
	if err != nil {
		panic(err)
	}
	return session.AppendFrame(nil, session.TypeCall, whole, number, session.AppendCall(nil, session.Call{Method: session.Commit, Again: true, Size: uint32(len(b))}), b)
}

func (r *raw) receipt(call uint64) *pb.CommitResponse {
	r.t.Helper()
	h, p := r.answer(call)
	out := new(pb.CommitResponse)
	if err := proto.Unmarshal(p, out); err != nil || h.Type != session.TypeData {
		r.t.Fatalf("call %d got a frame of type %d, %v", call, h.Type, err)
	}
	return out
}

// TestCommitThatIsSentAgainWaitsForTheFirst: the client takes its connection for lost, while the
// server has begun the commit and knows of nothing.
func TestCommitThatIsSentAgainWaitsForTheFirst(t *testing.T) {
	behind := model.New(nil)
	g := gate(behind)
	s := serve(t, g, nil)
	first, key := s.keyed(t, session.Key{})
	first.write(call(7, session.Commit, commitOf([]byte("x"))))
	<-g.entered
	second, same := s.keyed(t, key)
	if same != key {
		t.Fatal("the server does not know the client")
	}
	second.write(again(7, commitOf([]byte("x"))))
	third, _ := s.keyed(t, key) // which takes the second for lost
	third.write(again(7, commitOf([]byte("x"))))
	third.write(again(8, commitOf([]byte("y")))) // it never came
	first.wantClosed()
	close(g.leave)
	if r := third.receipt(7); r.First != 1 || r.Duplicate {
		t.Errorf("receipt %+v", r)
	}
	<-g.entered
	if r := third.receipt(8); r.First != 2 {
		t.Errorf("receipt %+v", r)
	}
}

func TestServerRemembersTheNewestCommits(t *testing.T) {
	const commits = 1100
	s := serve(t, nil, nil)
	r, key := s.keyed(t, session.Key{})
	for n := range uint64(commits) {
		r.write(call(n+1, session.Commit, commitOf([]byte("x"))))
		r.receipt(n + 1)
	}
	_ = r.c.Close()
	r, same := s.keyed(t, key)
	if same != key {
		t.Fatal("the server does not know the client")
	}
	for _, n := range []uint64{commits, 1000, commits - 1023} {
		r.write(again(n, commitOf([]byte("x"))))
		if got := r.receipt(n); got.First != n {
			t.Errorf("the receipt of commit %d is %+v", n, got)
		}
	}
	r.write(again(1, commitOf([]byte("x"))))
	r.wantError(1, mainstem.KindUnavailable, mainstem.Unknown)
	r.write(again(commits+1, commitOf([]byte("x")))) // it never came
	if got := r.receipt(commits + 1); got.First != commits+1 {
		t.Errorf("the receipt is %+v", got)
	}
	if _, other := s.keyed(t, session.Key{1, 2, 3}); other == key || other == (session.Key{1, 2, 3}) {
		t.Error("a key that the server did not choose has outcomes")
	}
}

// TestRefusalOfCommitThatIsSentAgainIsUnknown: it says nothing about the first try.
func TestRefusalOfCommitThatIsSentAgainIsUnknown(t *testing.T) {
	s := serve(t, nil, &rpc.Options{Token: "old"})
	s.handler.SetTokenGrace(time.Hour) // the session does not end before the test
	r, key := s.keyed(t, session.Key{}, "Authorization: Bearer old")
	r.write(call(1, session.Commit, commitOf([]byte("x"))))
	r.receipt(1)
	_ = r.c.Close()
	r, _ = s.keyed(t, key, "Authorization: Bearer old")
	s.handler.SetToken("new")
	r.write(call(2, session.Commit, commitOf([]byte("x"))))
	r.wantError(2, mainstem.KindUnavailable, mainstem.NotWritten)
	r.write(again(1, commitOf([]byte("x"))))
	r.wantError(1, mainstem.KindUnavailable, mainstem.Unknown)
}

// TestLostClientsTakeNoMemoryFromSessions: they are forgotten before a session is refused.
func TestLostClientsTakeNoMemoryFromSessions(t *testing.T) {
	process := budget.New("process", 1<<30)
	s := serve(t, nil, &rpc.Options{MaxSessions: 1, Memory: process})
	var last session.Key
	for range 3 {
		r, key := s.keyed(t, last)
		if key == last {
			t.Error("the client is remembered although there is no memory")
		}
		last = key
		r.write(call(1, session.Commit, commitOf([]byte("x"))))
		r.receipt(1)
		_ = r.c.Close()
		testkit.Eventually(t, "the session has ended", func() bool { return s.handler.SessionStats().Open == 0 })
	}
	if err := s.handler.Close(); err != nil {
		t.Fatal(err)
	}
	if free := process.Free(); free != process.Limit() {
		t.Errorf("%d bytes are not given back", process.Limit()-free)
	}
}
