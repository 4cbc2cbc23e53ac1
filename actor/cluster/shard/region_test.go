package shard_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster/shard"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/lease"
)

// sole opens a region of one actor on a node of b. fresh makes the function of the actor.
func sole(t *testing.T, p *peer, fresh func() actor.Func[Count]) *shard.Region[Count] {
	t.Helper()
	r, err := shard.Sole(p.cluster(), p.keeper, "sole", func(*lease.Lease) actor.Actor[Count] { return fresh() }, &shard.Options{Entities: &actor.Options{Grace: -1}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// After a Close that was canceled the shard goes to another node as soon as its actor has ended.
func TestCanceledCloseReleasesTheLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := model.New(nil)
		defer log.Close()
		b := newSwitchboard(t, log, "a", "b")
		let := make(chan struct{})
		slow := func() actor.Func[Count] {
			return func(*actor.Context[Count], Count) error { <-let; return nil }
		}
		ra := sole(t, b.nodes["a"], slow)
		<-time.After(time.Second)
		rb := sole(t, b.nodes["b"], slow)
		if err := ra.Ref().Send(t.Context(), Count{Key: "k"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := ra.Close(ctx); !errors.Is(err, mainstem.ErrCanceled) {
			t.Errorf("Close: %v, want Canceled", err)
		}
		<-time.After(time.Minute)
		if n, _, _ := rb.Owner(0); n != "a" {
			t.Errorf("while the actor runs, the owner is %q, want a", n)
		}
		close(let)
		<-time.After(time.Minute)
		if n, _, _ := rb.Owner(0); n != "b" {
			t.Errorf("after the end of the actor, the owner is %q, want b", n)
		}
		if nodes := rb.Nodes(); len(nodes) != 1 {
			t.Errorf("%v take shards, want b", nodes)
		}
		if err := rb.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A panic of fresh is a failed start: the next try follows.
func TestPanicOfFreshIsAFailedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := model.New(nil)
		defer log.Close()
		b := newSwitchboard(t, log, "a")
		calls, handled := 0, 0
		r := sole(t, b.nodes["a"], func() actor.Func[Count] {
			if calls++; calls == 1 {
				panic("the first actor")
			}
			return func(*actor.Context[Count], Count) error { handled++; return nil }
		})
		if err := r.Ref().Send(t.Context(), Count{Key: "k"}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if calls != 2 || handled != 1 {
			t.Errorf("%d calls of fresh, %d messages handled: want 2 and 1", calls, handled)
		}
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A message for which the function for keys panics is a dead letter, and keeps no slot.
func TestPanicOfKeyIsADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := model.New(nil)
		defer log.Close()
		b := newSwitchboard(t, log, "a")
		handled := 0
		key := func(m Count) string {
			if m.Key == "" {
				panic("no key")
			}
			return m.Key
		}
		fresh := func(shard.Entity) actor.Actor[Count] {
			return actor.Func[Count](func(*actor.Context[Count], Count) error { handled++; return nil })
		}
		r, err := shard.Open(b.nodes["a"].cluster(), b.nodes["a"].keeper, "keys", key, fresh, &shard.Options{Buffer: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range []string{"", "", "k"} {
			if err := r.Ref().Send(t.Context(), Count{Key: k}); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if n := b.nodes["a"].DeadLetters(); n != 2 || handled != 1 {
			t.Errorf("%d dead letters, %d messages handled: want 2 and 1", n, handled)
		}
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
