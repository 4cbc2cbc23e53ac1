package rpc_test

import (
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/internal/message"
	"github.com/mainstemdev/mainstem/internal/session"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/wire/rpc"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

// full takes all memory for requests of a server whose Options.Memory is process.
func full(process *budget.Budget) *budget.Hold {
	h := process.Child("rpc requests", 0).Hold()
	h.Take(1 << 40)
	return &h
}

// refused reads frames until so many calls were refused as not written. No call may get another
// answer.
func (r *raw) refused(want int) {
	r.t.Helper()
	_ = r.c.SetReadDeadline(time.Now().Add(30 * time.Second)) // by far more than the answers take
	for n := 0; n < want; {
		h, p, err := r.frame()
		if err != nil {
			r.t.Fatalf("%d calls of %d were refused: %v", n, want, err)
		}
		if h.Type == session.TypeCredit {
			continue
		}
		if e, err := message.ParseError(p); h.Type != session.TypeError || err != nil || e.Kind != mainstem.KindUnavailable || e.Outcome != mainstem.NotWritten {
			r.t.Fatalf("call %d got a frame of type %d: %v, %v", h.Call, h.Type, e, err)
		}
		n++
	}
	_ = r.c.SetReadDeadline(time.Time{})
}

// Requests of which only the beginning has come wait for memory, too: few of them may.
func TestFewRequestsOfASessionWaitForMemory(t *testing.T) {
	process := budget.New("process", 64<<20)
	s := serve(t, nil, &rpc.Options{Memory: process})
	r := s.session(t, wide)
	taken := full(process)
	defer taken.Release()
	head := session.AppendCall(nil, session.Call{Method: session.Commit, Size: 1 << 20})
	for number := uint64(1); number <= 100; number++ {
		r.write(session.AppendFrame(nil, session.TypeCall, session.First, number, head))
	}
	r.refused(100 - 16)
	for number := uint64(1); number <= 16; number++ {
		r.write(session.AppendFrame(nil, session.TypeCancel, 0, number))
		r.wantError(number, mainstem.KindCanceled, mainstem.Unknown)
	}
	taken.Release()
	r.write(call(101, session.Commit, commitOf(nil)))
	if h, _ := r.answer(101); h.Type != session.TypeData {
		t.Errorf("the session does not go on: a frame of type %d", h.Type)
	}
}

// Of the first pieces that need no credit of the session, a session keeps as many as its credit.
func TestFirstPiecesOfASessionAreLimited(t *testing.T) {
	for name, first := range map[string]int{"in the frame of the call": session.PieceSize, "after it": 0} {
		t.Run(name, func(t *testing.T) {
			process := budget.New("process", 64<<20)
			s := serve(t, nil, &rpc.Options{Memory: process})
			r := s.session(t, wide)
			taken := full(process)
			defer taken.Release()
			head := session.AppendCall(nil, session.Call{Method: session.Commit, Size: 60 << 10})
			for number := uint64(1); number <= 12; number++ {
				r.write(session.AppendFrame(nil, session.TypeCall, session.First, number, head, make([]byte, first)))
			}
			for number := uint64(1); number <= 12 && first == 0; number++ {
				r.write(session.AppendFrame(nil, session.TypeData, 0, number, make([]byte, session.PieceSize)))
			}
			r.refused(12 - 8)
			r.write(call(13, session.Head, &pb.HeadRequest{}))
			if h, _ := r.answer(13); h.Type != session.TypeData {
				t.Errorf("the session does not go on: a frame of type %d", h.Type)
			}
		})
	}
}

// A call that is canceled at the moment when it gets its memory gives it back at once.
func TestCanceledRequestGivesItsMemoryBack(t *testing.T) {
	process := budget.New("process", 64<<20)
	s := serve(t, nil, &rpc.Options{Memory: process, BodyTimeout: time.Hour})
	r := s.session(t, wide)
	taken := full(process)
	defer taken.Release()
	requests := process.Child("rpc requests", 0)
	head := session.AppendCall(nil, session.Call{Method: session.Commit, Size: 1 << 20})
	r.write(session.AppendFrame(nil, session.TypeCall, session.First, 1, head, []byte("x")))
	testkit.Eventually(t, "the request waits", func() bool { return requests.Stats()[0].Waiting == 1 })
	s.handler.CancelAfter(1, func() {
		taken.Release()
		testkit.Eventually(t, "the request has its memory", func() bool { return requests.Stats()[0].Used == 2<<20 })
	})
	_ = r.c.SetReadDeadline(time.Now().Add(30 * time.Second)) // by far more than the answer takes
	r.wantError(1, mainstem.KindCanceled, mainstem.Unknown)
	testkit.Eventually(t, "the memory is given back", func() bool { return requests.Stats()[0].Used == 0 })
}
