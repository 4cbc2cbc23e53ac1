package rpc_test

import (
	"testing"

	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/session"
	"github.com/mainstemdev/mainstem/internal/testkit"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

// Goroutines that have served calls wait for others, at most so many, and end when none comes,
// also of a handler that nobody closes.
func TestWorkersWaitAndEnd(t *testing.T) {
	log := model.New(nil)
	commit(t, log, "k", nil)
	s := serve(t, log, nil)
	r := s.session(t, wide)
	number := uint64(0)
	for range 3 {
		testkit.Eventually(t, "a goroutine waits for the next call", func() bool {
			number++
			r.write(call(number, session.Space, &pb.SpaceRequest{Name: "s"}))
			r.answer(number)
			return s.handler.IdleWorkers() > 0
		})
		testkit.Eventually(t, "no goroutine waits", func() bool { return s.handler.IdleWorkers() == 0 })
	}
	const many = 500
	for i := range uint64(many) {
		r.write(call(number+1+i, session.Space, &pb.SpaceRequest{Name: "s"}))
	}
	for range many {
		if h, _, err := r.frame(); err != nil || h.Type != session.TypeData {
			t.Fatalf("got a frame of type %d, %v", h.Type, err)
		}
		if n := s.handler.IdleWorkers(); n > 32 {
			t.Fatalf("%d goroutines wait", n)
		}
	}
	testkit.Eventually(t, "no goroutine waits", func() bool { return s.handler.IdleWorkers() == 0 })
}
