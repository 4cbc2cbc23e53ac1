package actortest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem/actor"
)

// The time limits of assertions.
const (
	Patience        = 30 * time.Second   // in real time
	VirtualPatience = 7 * 24 * time.Hour // in virtual time: inside of [Run] and testing/synctest
)

// patience returns the time limit of an assertion of the calling test.
func patience() time.Duration {
	if time.Now().Before(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)) {
		return VirtualPatience // the clock of testing/synctest begins in the year 2000
	}
	return Patience
}

// Node opens a node named "test" for a test. When the test ends, the node is stopped; actors that
// do not stop within [Patience] fail the test.
func Node(t testing.TB) *actor.Node {
	t.Helper()
	n, err := actor.Open("test", nil)
	if err != nil {
		t.Fatalf("open a node: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := patient(t)
		defer cancel()
		if err := n.Stop(ctx); err != nil {
			t.Errorf("stop the node: %v", err)
		}
	})
	return n
}

// patient returns a context that ends after patience, and not at the end of the test.
func patient(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), patience())
}

// Run runs f in virtual time (see testing/synctest), with a node that is stopped at its end.
func Run(t *testing.T, f func(t *testing.T, node *actor.Node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, Node(t)) })
}

// Advance waits for d of virtual time and then until all other goroutines of the test wait, and so
// until all actors are idle or blocked. It is for tests in [Run] or testing/synctest only.
func Advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// Spawn spawns an actor and fails the test if that fails.
func Spawn[M any](t testing.TB, s actor.Spawner, a actor.Actor[M], o *actor.Options) actor.Ref[M] {
	t.Helper()
	r, err := actor.Spawn(s, a, o)
	if err != nil {
		t.Fatalf("spawn a %T: %v", a, err)
	}
	return r
}

// Send sends messages to an actor, in order, and fails the test if one cannot be sent.
func Send[M any](t testing.TB, to actor.Ref[M], ms ...M) {
	t.Helper()
	for _, m := range ms {
		ctx, cancel := patient(t)
		err := to.Send(ctx, m)
		cancel()
		if err != nil {
			t.Fatalf("send %+v: %v", m, err)
		}
	}
}

// Ask asks an actor, as [actor.Ask] does, and fails the test after an error.
func Ask[R, M any](t testing.TB, to actor.Ref[M], ask func(actor.Reply[R]) M) R {
	t.Helper()
	ctx, cancel := patient(t)
	defer cancel()
	v, err := actor.Ask(ctx, to, ask)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return v
}

// ExpectEnd waits until an incarnation of an actor has ended and fails the test if its exit reason
// is not want, in the sense of errors.Is. If it had ended before the call, its reason is not known
// any more, and any is accepted; to be sure, [Watch] the actor from its start.
func ExpectEnd(t testing.TB, ref actor.AnyRef, want error) {
	t.Helper()
	ctx, cancel := patient(t)
	defer cancel()
	reason, err := actor.Wait(ctx, ref)
	switch {
	case err != nil:
		t.Fatalf("%v", err)
	case !errors.Is(reason, want) && reason != actor.Missing:
		t.Fatalf("%s ended for the reason %q, want %q", ref, reason, want)
	}
}
