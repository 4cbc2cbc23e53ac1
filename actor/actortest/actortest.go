package actortest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem/actor"
)

// How long assertions wait for what must come.
const (
	Patience        = 30 * time.Second   // in real time
	VirtualPatience = 7 * 24 * time.Hour // inside of [Run] and of testing/synctest, where waiting costs nothing
)

// patience returns how long to wait here.
func patience() time.Duration {
	if time.Now().Before(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)) {
		return VirtualPatience // the clock of testing/synctest begins in the year 2000
	}
	return Patience
}

// Node opens a node for a test. When the test ends, it is stopped; actors that do not
// stop within [Patience] fail the test.
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

// patient returns a context as long as the patience, which the end of the test does not end.
func patient(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), patience())
}

// Run runs a test in virtual time, with a node that is stopped at its end.
func Run(t *testing.T, f func(t *testing.T, node *actor.Node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, Node(t)) })
}

// Advance lets d of virtual time pass, and then waits until all actors are idle. It is
// for tests in [Run] or testing/synctest only.
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

// Ask asks an actor, as [actor.Ask] does, and fails the test if no answer comes.
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

// ExpectEnd waits until an actor has ended and fails the test if the reason is not
// want, in the sense of errors.Is. The reason of an actor that had ended before the call is
// not known any more and is accepted; to be sure of it, [Watch] the actor from its start.
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
