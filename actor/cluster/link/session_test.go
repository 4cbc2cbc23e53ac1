package link_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor/cluster/link"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testport"
)

// sendNumbers sends the numbers below n, each on a lane of its own.
func sendNumbers(t *testing.T, p *link.Peer, n uint64) {
	t.Helper()
	for i := range n {
		if err := p.Send(within(t), uint32(i), link.ExactlyOnce, number(i)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatIsNotAcknowledgedComesBack(t *testing.T) {
	var atA hears
	handling, hold := make(chan struct{}, 8), make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	defer release() // b waits for its handler when it is closed
	atB := &hears{message: func(*link.Peer, uint32, []byte) { handling <- struct{}{}; <-hold }}
	b := open(t, plain("b"), atB)
	px := newProxy(t, b.Addr().String(), 1)
	o := plain("a")
	o.Connections, o.Resume = 1, time.Second
	o.Resolve = func(context.Context, string) (string, error) { return px.addr(), nil }
	a := open(t, o, &atA)
	p := peer(t, a, "b")
	bodies := map[string]bool{}
	for i := range 5 {
		body := fmt.Sprintf("message %d", i)
		if i == 3 {
			body = strings.Repeat("large", 100_000)
		}
		bodies[body] = true
		if err := p.Send(within(t), uint32(i), link.ExactlyOnce, bytesOf([]byte(body))); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "the first message", func() bool { return len(handling) > 0 })
	px.cutAll(true)
	testkit.Eventually(t, "the end of the session", func() bool { return len(atA.downs()) == 1 })
	release()
	if got := atA.downs()[0]; !errors.Is(got, link.ErrLost) {
		t.Errorf("the reason is %v", got)
	}
	if len(atA.undelivered) != len(bodies) {
		t.Errorf("%d messages came back, want %d", len(atA.undelivered), len(bodies))
	}
	for _, body := range atA.undelivered {
		if !bodies[string(body)] {
			t.Errorf("a message came back that was not sent: %.40q", body)
		}
	}
	if err := p.Send(within(t), 1, link.ExactlyOnce, number(1)); !errors.Is(err, mainstem.ErrClosed) || !errors.Is(err, link.ErrLost) {
		t.Errorf("Send after the end: %v", err)
	}
	<-p.Done()
	px.cutAll(false)
	var again *link.Peer
	testkit.Eventually(t, "another session", func() bool {
		q, err := a.Peer(within(t), "b")
		again = q
		return err == nil
	})
	if again == p {
		t.Error("the session that ended is given out again")
	}
}

// TestConnectionInTime: a connection that comes at the same moment as the end of the time to
// resume carries on the session.
func TestConnectionInTime(t *testing.T) {
	var heard hears
	p, _ := joined(t, &heard, func(oa, ob *link.Options) { oa.Connections, ob.Connections = 1, 1 })
	p.ExpireForTest()
	if err := p.Send(within(t), 1, link.ExactlyOnce, number(1)); err != nil {
		t.Fatalf("the session of a stream that has a connection ended: %v", err)
	}
	testkit.Eventually(t, "the message", func() bool { return heard.count.Load() == 1 })
}

func TestRestartedPeer(t *testing.T) {
	var atA, atB1, atB2 hears
	ob := plain("b")
	ob.Start = 10
	b1 := open(t, ob, &atB1)
	px := newProxy(t, b1.Addr().String(), 1)
	oa := plain("a")
	oa.Resolve = func(context.Context, string) (string, error) { return px.addr(), nil }
	a := open(t, oa, &atA)
	old := peer(t, a, "b")
	if old.Start() != 10 {
		t.Fatalf("its incarnation is %d", old.Start())
	}

	ob.Start = 11
	b2 := open(t, ob, &atB2)
	px.mu.Lock()
	px.target = b2.Addr().String()
	px.mu.Unlock()
	px.cutAll(true) // what b1 was is gone, without a word
	px.cutAll(false)
	testkit.Eventually(t, "the end of the session", func() bool { return len(atA.downs()) == 1 })
	if got := atA.downs()[0]; !errors.Is(got, link.ErrRestarted) {
		t.Errorf("the reason is %v", got)
	}
	renewed := peer(t, a, "b")
	if renewed.Start() != 11 || renewed == old {
		t.Errorf("the session is with incarnation %d", renewed.Start())
	}

	// The earlier incarnation is not dead after all.
	stale := plain("b")
	stale.Start, stale.Resolve = 10, at(a)
	late := open(t, stale, &hears{})
	_, err := late.Peer(within(t), "a")
	if !errors.Is(err, mainstem.ErrDenied) || !errors.Is(err, link.ErrRefused) || !strings.Contains(err.Error(), "later incarnation") {
		t.Errorf("a stale incarnation connects: %v", err)
	}
	if renewed.Send(within(t), 1, link.ExactlyOnce, number(1)) != nil {
		t.Error("the stale incarnation disturbed the session")
	}
	testkit.Eventually(t, "a message", func() bool { return atB2.count.Load() == 1 })
}

// TestRestartedDialer: a later incarnation that connects ends the session with the earlier.
func TestRestartedDialer(t *testing.T) {
	var atB hears
	b := open(t, plain("b"), &atB)
	o := plain("a")
	o.Start, o.Resolve = 1, at(b)
	first := open(t, o, &hears{})
	p1 := peer(t, first, "b")
	o.Start = 2
	second := open(t, o, &hears{})
	p2 := peer(t, second, "b")
	testkit.Eventually(t, "the end of the first session", func() bool { return len(atB.downs()) == 1 })
	if got := atB.downs()[0]; !errors.Is(got, link.ErrRestarted) {
		t.Errorf("the reason is %v", got)
	}
	if err := p2.Send(within(t), 1, link.ExactlyOnce, number(1)); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, "a message", func() bool { return atB.count.Load() == 1 })
	select {
	case <-p1.Done():
	case <-time.After(patience):
		t.Error("the first incarnation believes that it is connected")
	}
}

func TestSimultaneousDials(t *testing.T) {
	for round := range 12 {
		var atA, atB hears
		var a, b *link.Endpoint
		oa, ob := plain("a"), plain("b")
		ready := make(chan struct{})
		resolve := func(_ context.Context, name string) (string, error) {
			<-ready
			return map[string]*link.Endpoint{"a": a, "b": b}[name].Addr().String(), nil
		}
		oa.Resolve, ob.Resolve = resolve, resolve
		a, b = open(t, oa, &atA), open(t, ob, &atB)
		close(ready)
		var both sync.WaitGroup
		for _, c := range []struct {
			e    *link.Endpoint
			name string
		}{{a, "b"}, {b, "a"}} {
			both.Go(func() {
				p, err := c.e.Peer(within(t), c.name)
				if err == nil {
					err = p.Send(within(t), 1, link.ExactlyOnce, number(1))
				}
				if err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		both.Wait()
		testkit.Eventually(t, "both messages", func() bool { return atA.count.Load() == 1 && atB.count.Load() == 1 })
		if atA.ups() != 1 || atB.ups() != 1 {
			t.Errorf("round %d: %d and %d sessions, want one", round, atA.ups(), atB.ups())
		}
		shut(t, a)
		shut(t, b)
	}
}

func TestOneDialForManyCallers(t *testing.T) {
	b := open(t, plain("b"), &hears{})
	var asked atomic.Int64
	o := plain("a")
	o.Connections = 1
	o.Resolve = func(context.Context, string) (string, error) {
		asked.Add(1)
		return b.Addr().String(), nil
	}
	a := open(t, o, &hears{})
	var callers sync.WaitGroup
	var peers [50]*link.Peer
	for i := range peers {
		callers.Go(func() { peers[i], _ = a.Peer(within(t), "b") })
	}
	callers.Wait()
	for _, p := range peers {
		if p == nil || p != peers[0] {
			t.Fatal("callers got different sessions")
		}
	}
	if asked.Load() != 1 {
		t.Errorf("%d dials", asked.Load())
	}
}

func TestUnreachableFailsFast(t *testing.T) {
	addr := testport.Address(t)
	var asked atomic.Int64
	o := plain("a")
	o.MinBackoff, o.MaxBackoff = time.Hour, time.Hour
	o.Resolve = func(context.Context, string) (string, error) {
		asked.Add(1)
		return addr, nil
	}
	a := open(t, o, &hears{})
	for range 10 {
		if _, err := a.Peer(within(t), "b"); !errors.Is(err, mainstem.ErrUnavailable) {
			t.Fatalf("nobody listens: %v", err)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("dialed %d times within the pause", asked.Load())
	}
}

// TestAdvertisedAddress: a node that was connected can be dialed without Resolve.
func TestAdvertisedAddress(t *testing.T) {
	b := open(t, plain("b"), &hears{})
	o := plain("a")
	o.Listen = testport.Address(t) // not one that another listener may be given when a has closed
	o.Resolve = at(b)
	a := open(t, o, &hears{})
	first := peer(t, a, "b")
	testkit.Eventually(t, "the session", func() bool { return len(b.Peers()) == 1 })
	if got := b.Peers()[0].Advertised(); got != a.Addr().String() {
		t.Errorf("a advertises %q, listens at %s", got, a.Addr())
	}
	if err := a.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	<-first.Done()
	testkit.Eventually(t, "the end", func() bool { return len(b.Peers()) == 0 })
	o.Resolve = nil
	open(t, o, &hears{})
	testkit.Eventually(t, "a session made by b", func() bool { _, err := b.Peer(within(t), "a"); return err == nil })
}

func TestOptionsSayWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		change func(*link.Options)
		say    string
	}{
		{func(o *link.Options) { o.Name = "" }, "Name"},
		{func(o *link.Options) { o.Name = "a/b" }, "Name"},
		{func(o *link.Options) { o.Secret = nil }, "Secret"},
		{func(o *link.Options) { o.Secret = []byte("short") }, "Secret"},
		{func(o *link.Options) { o.Plain = false }, "TLS"},
		{func(o *link.Options) { o.TLS = &link.TLS{} }, "TLS"},
		{func(o *link.Options) { o.Listen = "nowhere" }, "Listen"},
		{func(o *link.Options) { o.Connections = 1000 }, "Connections"},
		{func(o *link.Options) { o.Window = 1 }, "Window"},
		{func(o *link.Options) { o.MaxMessage = -1 }, "MaxMessage"},
		{func(o *link.Options) { o.KeepAlive = -1 }, "KeepAlive"},
		{func(o *link.Options) { o.Compression = 9 }, "Compression"},
	} {
		o := plain("a")
		c.change(o)
		if _, err := link.Open(o, &hears{}); !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), c.say) {
			t.Errorf("want an error about %s: %v", c.say, err)
		}
	}
	if _, err := link.Open(nil, &hears{}); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("no options: %v", err)
	}
}

func TestTooManyPeers(t *testing.T) {
	o := plain("b")
	o.MaxPeers = 2
	b := open(t, o, &hears{})
	for i := range 3 {
		oa := plain(fmt.Sprintf("a%d", i))
		oa.Resolve = at(b)
		_, err := open(t, oa, &hears{}).Peer(within(t), "b")
		if full := i == 2; full != (err != nil) {
			t.Errorf("peer %d of at most 2: %v", i+1, err)
		}
		// A dialer's session may begin before the acceptor has called Up.
		testkit.Eventually(t, "the session", func() bool { return len(b.Peers()) == min(i+1, 2) })
	}
	if got := len(b.Peers()); got != 2 {
		t.Errorf("there are %d sessions", got)
	}
}

// TestSilentPeer: a connection through which nothing comes any more is given up and made anew.
func TestSilentPeer(t *testing.T) {
	var atB hears
	b := open(t, plain("b"), &atB)
	px := newProxy(t, b.Addr().String(), 3)
	oa := plain("a")
	oa.Connections, oa.KeepAlive = 1, 20*time.Millisecond
	oa.Resolve = func(context.Context, string) (string, error) { return px.addr(), nil }
	p := peer(t, open(t, oa, &hears{}), "b")
	px.hush()
	if err := p.Send(within(t), 1, link.ExactlyOnce, number(1)); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the message", func() bool { return atB.count.Load() == 1 })
	if p.Stats().Reconnects == 0 {
		t.Error("the silent connection carried it")
	}
}

// TestForgottenSession: a node that was dialed finds out that the dialer started again and does
// not know it any more.
func TestForgottenSession(t *testing.T) {
	var atB hears
	var moved atomic.Pointer[link.Endpoint] // where a is found
	ob := plain("b")
	ob.Resume = patience
	ob.Resolve = func(context.Context, string) (string, error) {
		if e := moved.Load(); e != nil {
			return e.Addr().String(), nil
		}
		return "", errors.New("nowhere")
	}
	b := open(t, ob, &atB)
	px := newProxy(t, b.Addr().String(), 1)
	oa := plain("a")
	oa.Start, oa.Connections = 1, 1
	oa.Resolve = func(context.Context, string) (string, error) { return px.addr(), nil }
	first := open(t, oa, &hears{})
	peer(t, first, "b")
	testkit.Eventually(t, "the session", func() bool { return atB.ups() == 1 })
	px.cutAll(true) // for good: the first incarnation is dead to all
	next := plain("a")
	next.Start = 2
	second := open(t, next, &hears{})
	moved.Store(second)
	testkit.Eventually(t, "the end of the session", func() bool { return len(atB.downs()) == 1 })
	if got := atB.downs()[0]; !errors.Is(got, link.ErrRestarted) {
		t.Errorf("the reason is %v", got)
	}
}

// TestBothClose: two nodes that close at the same time have both delivered everything.
func TestBothClose(t *testing.T) {
	for range 5 {
		synctest.Test(t, bothClose)
	}
}

func bothClose(t *testing.T) {
	var atA, atB hears
	a, b := piped(t, &atA, &atB)
	p := peer(t, a, "b")
	testkit.Eventually(t, "the session", func() bool { return len(b.Peers()) == 1 })
	for i := range uint64(1000) {
		if err := p.Send(within(t), uint32(i), link.ExactlyOnce, number(i)); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "all messages", func() bool { return atB.count.Load() == 1000 && p.Stats().Waiting < 100 })
	var closing sync.WaitGroup
	for _, e := range []*link.Endpoint{a, b} {
		closing.Go(func() {
			if err := e.Close(within(t)); err != nil {
				t.Error(err)
			}
		})
	}
	closing.Wait()
	if len(atA.downs()) != 1 || len(atB.downs()) != 1 || len(atA.undelivered)+len(atB.undelivered) > 0 {
		t.Errorf("down %v %v", atA.downs(), atB.downs())
	}
}

// TestSessionsFollowEachOther follows sessions over many cuts: Up and Down are called once for each,
// one session after another.
func TestSessionsFollowEachOther(t *testing.T) {
	var atA, atB hears
	b := open(t, plain("b"), &atB)
	px := newProxy(t, b.Addr().String(), 1)
	o := plain("a")
	o.Connections, o.Resume = 1, 30*time.Millisecond // a further connection could come too late
	o.Resolve = func(context.Context, string) (string, error) { return px.addr(), nil }
	a := open(t, o, &atA)
	const rounds = 8
	for round := range rounds {
		testkit.Eventually(t, "a session", func() bool { p, err := a.Peer(within(t), "b"); return err == nil && p.Stats().Connected > 0 })
		if up, down := atA.ups(), len(atA.downs()); up != down+1 {
			t.Fatalf("round %d: %d sessions began, %d ended", round, up, down)
		}
		px.cutAll(true)
		testkit.Eventually(t, "its end", func() bool { return len(atA.downs()) == atA.ups() })
		px.cutAll(false)
	}
	if got := atA.ups(); got < rounds {
		t.Errorf("%d sessions in %d rounds", got, rounds)
	}
}

// TestSpoiledHandshakes: however the first handshakes end, there is one session at last,
// and at each end Up and Down were called for every other.
func TestSpoiledHandshakes(t *testing.T) {
	var atA, atB hears
	b := open(t, plain("b"), &atB)
	px := newProxy(t, b.Addr().String(), 5)
	px.reach = 700
	px.harm = func(r *rand.Rand) harm { return harm(r.IntN(int(silence))) }
	px.spoil.Store(25)
	o := plain("a")
	o.Connections, o.KeepAlive, o.HandshakeTimeout = 1, 20*time.Millisecond, 200*time.Millisecond
	o.Resolve = func(context.Context, string) (string, error) { return px.addr(), nil }
	a := open(t, o, &atA)
	testkit.Eventually(t, "a message", func() bool {
		if p, err := a.Peer(within(t), "b"); err == nil {
			_ = p.Send(within(t), 1, link.ExactlyOnce, number(1))
		}
		return px.spoil.Load() <= 0 && atB.count.Load() > 0
	})
	testkit.Eventually(t, "one session at each end", func() bool {
		return atA.ups() == len(atA.downs())+1 && atB.ups() == len(atB.downs())+1
	})
}

// TestHandlerOutlivesItsConnection: what was read from a connection that broke is handled
// once, before what comes over the next one.
func TestHandlerOutlivesItsConnection(t *testing.T) {
	var mu sync.Mutex // guards got
	var got []byte
	turn, entered := make(chan struct{}), make(chan byte, 100)
	atB := &hears{message: func(_ *link.Peer, _ uint32, body []byte) {
		entered <- body[0]
		<-turn
		mu.Lock()
		defer mu.Unlock()
		got = append(got, body[0])
	}}
	b := open(t, plain("b"), atB)
	px := newProxy(t, b.Addr().String(), 1)
	o := plain("a")
	o.Connections = 1
	o.Resolve = func(context.Context, string) (string, error) { return px.addr(), nil }
	p := peer(t, open(t, o, &hears{}), "b")
	frames := func() uint64 { return p.Stats().SentFrames }
	send := func(n byte, mode link.Mode) { // in a frame of its own
		t.Helper()
		before := frames()
		if err := p.Send(within(t), 1, mode, bytesOf([]byte{n})); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "a frame", func() bool { return frames() > before })
	}
	send(1, link.ExactlyOnce)
	<-entered
	for n := byte(2); n <= 9; n++ { // they wait in the connection, and are read together
		send(n, link.Mode(n%2))
	}
	turn <- struct{}{}
	<-entered // 2 is being handled, the others have been read
	px.cutAll(false)
	testkit.Eventually(t, "another connection", func() bool { s := p.Stats(); return s.Reconnects == 1 && s.Connected == 1 })
	send(10, link.ExactlyOnce)
	if len(entered) > 0 {
		t.Error("a message is handled while the one before it is")
	}
	close(turn)
	testkit.Eventually(t, "the last message", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Contains(got, 10)
	})
	testkit.Eventually(t, "all acknowledgements", func() bool { return p.Stats().Waiting < 100 })
	mu.Lock()
	defer mu.Unlock()
	exact := slices.DeleteFunc(slices.Clone(got), func(n byte) bool { return n > 1 && n%2 == 1 }) // the others may be lost
	if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) || !bytes.Equal(exact, []byte{1, 2, 4, 6, 8, 10}) {
		t.Errorf("handled %v", got)
	}
}
