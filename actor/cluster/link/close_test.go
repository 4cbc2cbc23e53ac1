package link_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor/cluster/link"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func TestCloseDeliversWhatWasTaken(t *testing.T) {
	var atA, atB hears
	b := open(t, plain("b"), &atB)
	o := plain("a")
	o.Resolve = at(b)
	a := open(t, o, &atA)
	p := peer(t, a, "b")
	const n = 50_000
	sendNumbers(t, p, n)
	if err := a.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	if got := atB.count.Load(); got != n {
		t.Errorf("%d of %d messages arrived before Close returned", got, n)
	}
	if err := p.Send(within(t), 1, link.ExactlyOnce, number(1)); !errors.Is(err, mainstem.ErrClosed) {
		t.Errorf("Send after Close: %v", err)
	}
	if _, err := a.Peer(within(t), "b"); !errors.Is(err, mainstem.ErrClosed) {
		t.Errorf("Peer after Close: %v", err)
	}
	testkit.Eventually(t, "the peer hears that it left", func() bool { return len(atB.downs()) == 1 })
	if got := atB.downs()[0]; !errors.Is(got, link.ErrLeft) {
		t.Errorf("the peer was told: %v", got)
	}
	if got := atA.downs(); len(got) != 1 || !errors.Is(got[0], link.ErrClosed) || len(atA.undelivered) > 0 {
		t.Errorf("its own handler was told %v, and %d messages came back", got, len(atA.undelivered))
	}
}

// TestFarewellAcknowledges has a node leave that has handled everything but acknowledged
// little: each stream's farewell does that, and no message comes back.
func TestFarewellAcknowledges(t *testing.T) {
	for range 50 {
		synctest.Test(t, farewellAcknowledges)
	}
}

// piped returns the endpoints a and b of a synctest bubble, which connect by pipes: the farewell
// time does not pass while anything runs.
func piped(t *testing.T, atA, atB link.Handler) (a, b *link.Endpoint) {
	oa, ob := plain("a"), plain("b")
	oa.Listen, ob.Listen = "", ""
	oa.Resolve = func(context.Context, string) (string, error) { return "b", nil }
	a, b = open(t, oa, atA), open(t, ob, atB)
	a.PipeForTest(b)
	return a, b
}

func farewellAcknowledges(t *testing.T) {
	var atA, atB hears
	a, b := piped(t, &atA, &atB)
	p := peer(t, a, "b")
	const n = 16
	sendNumbers(t, p, n)
	testkit.Eventually(t, "all messages are handled", func() bool { return atB.count.Load() == n })
	shut(t, b)
	testkit.Eventually(t, "the end of the session", func() bool { return len(atA.downs()) == 1 })
	if got := atA.downs()[0]; !errors.Is(got, link.ErrLeft) || len(atA.undelivered) > 0 {
		t.Fatalf("the session ended with %v, and %d messages came back", got, len(atA.undelivered))
	}
	if err := a.Close(within(t)); err != nil {
		t.Fatal(err)
	}
}

// closedInUp is a handler that returns from Up when the session has ended.
type closedInUp struct{ hears }

func (*closedInUp) Up(p *link.Peer) { <-p.Done() }

// TestCloseWhileASessionBegins checks that the peer gets a farewell, although no connection carries
// the session yet.
func TestCloseWhileASessionBegins(t *testing.T) {
	var atA hears
	b := open(t, plain("b"), &closedInUp{})
	o := plain("a")
	o.Resolve = at(b)
	a := open(t, o, &atA)
	peer(t, a, "b")
	shut(t, b)
	testkit.Eventually(t, "the end of the session", func() bool { return len(atA.downs()) == 1 })
	if got := atA.downs()[0]; !errors.Is(got, link.ErrLeft) {
		t.Errorf("the peer was told: %v", got)
	}
}

// lateDown is a handler that, like closedInUp, has no connection carry its session, and whose Down
// takes until release is closed.
type lateDown struct {
	closedInUp
	down, release chan struct{}
}

func (h *lateDown) Down(*link.Peer, error) {
	close(h.down)
	<-h.release
}

// TestConnectionLostWhilePeerCloses has a node connect again to one that has ended the session but
// still answers: it hears that the other left, not that it was restarted.
func TestConnectionLostWhilePeerCloses(t *testing.T) {
	var atA hears
	atB := &lateDown{down: make(chan struct{}), release: make(chan struct{})}
	release := sync.OnceFunc(func() { close(atB.release) })
	defer release()
	b := open(t, plain("b"), atB)
	o := plain("a")
	o.Connections, o.Resolve = 1, at(b)
	a := open(t, o, &atA)
	first, there := net.Pipe()
	b.WelcomeForTest(there)
	dials := 0 // one after another
	a.DialForTest(func(ctx context.Context) (net.Conn, error) {
		if dials++; dials == 1 {
			return first, nil
		}
		select {
		case <-atB.down:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		here, there := net.Pipe()
		b.WelcomeForTest(there)
		return here, nil
	})
	peer(t, a, "b")
	_ = first.Close()
	closed := make(chan error, 1)
	go func() { closed <- b.Close(within(t)) }()
	testkit.Eventually(t, "the end of the session", func() bool { return len(atA.downs()) == 1 })
	if got := atA.downs()[0]; !errors.Is(got, link.ErrLeft) {
		t.Errorf("the peer was told: %v", got)
	}
	release()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
