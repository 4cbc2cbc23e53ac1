package actor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// afterPost calls then after each post.
type afterPost struct {
	ops
	then func()
}

func (a afterPost) post(p Priority, x *extra) bool {
	defer a.then()
	return a.ops.post(p, x)
}

// The answer of an actor that has ended since is returned.
func TestInspectStateOfAnActorThatHasAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := Open("test", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		for range 32 { // which of two ready channels a select takes is random
			r, err := Spawn(n, Func[int](func(*Context[int], int) error { return nil }), nil)
			if err != nil {
				t.Fatal(err)
			}
			c := r.core()
			c.ops = afterPost{c.ops, func() {
				synctest.Wait() // until the actor has answered
				r.Kill()
				synctest.Wait()
			}}
			if _, err := n.InspectState(t.Context(), r.Address()); err != nil {
				t.Fatalf("InspectState of an actor that has answered: %v", err)
			}
		}
	})
}

// An actor that ends just after InspectState has posted its call does not leave it waiting.
func TestInspectStateOfAnActorThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := Open("test", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		hold := make(chan struct{})
		r, err := Spawn(n, Func[int](func(*Context[int], int) error { <-hold; return nil }), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Send(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // until the actor holds the message: a call of InspectState would be taken before it
		c := r.core()
		c.ops = afterPost{c.ops, func() {
			r.Kill()
			close(hold)
			synctest.Wait()
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := n.InspectState(ctx, r.Address()); !errors.Is(err, ErrStopped) {
			t.Errorf("InspectState: %v, want that the actor has stopped", err)
		}
	})
}
