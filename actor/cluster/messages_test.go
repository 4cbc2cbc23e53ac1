package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster"
	"github.com/mainstemdev/mainstem/actor/cluster/link"
	"github.com/mainstemdev/mainstem/codec/binary"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func plain(t testing.TB) *cluster.Options {
	return &cluster.Options{Listen: "127.0.0.1:0", Secret: secret, Plain: true, Logger: logger(t)}
}

// Send of a message that cannot be sent fails.
func TestUnsendableMessagesFailAtSend(t *testing.T) {
	a, b := two(t, nil)
	type Late struct{ N int }
	got := make(chan int, 1)
	r := spawn(t, b, func(_ *actor.Context[Late], m Late) error { got <- m.N; return nil }, nil)
	far := seen(t, a, r)
	if err := far.Send(t.Context(), Late{}); !errors.Is(err, cluster.ErrUnregistered) || !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("Send of a type without a name: %v, want ErrUnregistered", err)
	}
	if err := a.Register("late", Late{}); err != nil {
		t.Fatal(err)
	}
	if err := far.Send(t.Context(), Late{}); !errors.Is(err, cluster.ErrUnregistered) {
		t.Errorf("Send of a type that the other does not know: %v, want ErrUnregistered", err)
	}
	if err := b.Register("late", Late{}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the type to be known at both nodes", func() bool { return far.Send(t.Context(), Late{5}) == nil })
	if n := <-got; n != 5 {
		t.Errorf("got %d", n)
	}
	if n := a.node.DeadLetters(); n < 2 {
		t.Errorf("%d dead letters, want one for each message that was not sent", n)
	}
	wrong := seen(t, a, spawn(t, b, func(*actor.Context[Errand], Errand) error { return nil }, nil))
	adapted := actor.Adapt(spawn(t, a, func(*actor.Context[Ping], Ping) error { return nil }, nil), func(Errand) Ping { return Ping{} })
	if err := wrong.Send(t.Context(), Errand{Then: adapted}); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("Send of a reference that cannot be encoded: %v, want Invalid", err)
	}
}

// Box is a message that can hold others.
type Box struct {
	Any  any
	List []Box
	Err  error
}

// So does Send of a message that holds a value of a type that the other node has not registered.
func TestWhatIsInsideOfMessages(t *testing.T) {
	a, b := two(t, nil)
	type Secret struct{ N int }
	errOwn := errors.New("own")
	for _, m := range []*member{b, a} {
		if err := m.Register("box", Box{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(a.Register("secret", Secret{}), a.RegisterError("own", errOwn)); err != nil {
		t.Fatal(err)
	}
	got := make(chan Box, 1)
	far := seen(t, a, spawn(t, b, func(_ *actor.Context[Box], m Box) error { got <- m; return nil }, nil))
	if err := far.Send(t.Context(), Box{Any: Ping{1}, Err: errRefused}); err != nil {
		t.Fatal(err)
	}
	if m := <-got; m.Any != (Ping{1}) || m.Err != errRefused {
		t.Errorf("got %v", m)
	}
	for name, m := range map[string]Box{
		"any": {Any: Secret{1}}, "list": {List: []Box{{}, {Any: Box{Any: []any{Secret{2}}}}}}, "error": {Err: errOwn},
	} {
		if err := far.Send(t.Context(), m); !errors.Is(err, cluster.ErrUnregistered) {
			t.Errorf("%s: %v, want ErrUnregistered", name, err)
		}
	}
	direct := named[Secret](t, a, "b", "whoever")
	if err := direct.Send(t.Context(), Secret{}); !errors.Is(err, cluster.ErrUnregistered) {
		t.Errorf("Send: %v, want ErrUnregistered", err)
	}
	if b.Malformed() != 0 {
		t.Errorf("%d messages came that could not be read", b.Malformed())
	}
}

// Versions of a type that read each other can be used at once, others are refused.
func TestVersionsOfTypes(t *testing.T) {
	type v1 struct {
		N int `bin:"1"`
	}
	type v2 struct {
		N    int    `bin:"1"`
		Text string `bin:"2"`
	}
	type other struct {
		N []string `bin:"1"`
	}
	oa, ob := plain(t), plain(t)
	oa.Registry, ob.Registry = binary.New(nil), binary.New(nil)
	if err := errors.Join(
		oa.Registry.Register("grown", v1{}), ob.Registry.Register("grown", v2{}),
		oa.Registry.RegisterNumber(50, "changed", struct {
			N int `bin:"1"`
		}{}), ob.Registry.RegisterNumber(50, "changed", other{}),
	); err != nil {
		t.Fatal(err)
	}
	b := join(t, "b", ob)
	a := join(t, "a", oa, b)
	got := make(chan v2, 1)
	far := spawn(t, b, func(_ *actor.Context[v2], m v2) error { got <- m; return nil }, nil)
	r, err := actor.At[v1](a.node, actor.Address{Node: "b", ID: actor.Number(far)})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Send(t.Context(), v1{3}); err != nil {
		t.Fatal(err)
	}
	if m := <-got; m != (v2{N: 3}) {
		t.Errorf("got %v", m)
	}
	changed := named[struct {
		N int `bin:"1"`
	}](t, a, "b", "whoever")
	if err := changed.Send(t.Context(), struct {
		N int `bin:"1"`
	}{}); !errors.Is(err, cluster.ErrUnregistered) {
		t.Errorf("Send of what cannot be read: %v, want ErrUnregistered", err)
	}
}

// A question is not handled after its deadline.
func TestDeadlinesTravel(t *testing.T) {
	a, b := two(t, nil)
	blocked, release := make(chan struct{}), make(chan struct{})
	r := spawn(t, b, func(_ *actor.Context[Errand], m Errand) error {
		if m.Text == "block" {
			blocked <- struct{}{}
			<-release
		}
		return m.Reply.Send("")
	}, nil)
	far := seen(t, a, r)
	ask := func(d time.Duration, text string) error {
		_, err := actor.Ask(short(t, d), far, func(p actor.Reply[string]) Errand { return Errand{Text: text, Reply: p} })
		return err
	}
	// A deadline travels as the time that is left, so it passes there later by the time under
	// way: on a busy machine that may be longer than d.
	for d := 50 * time.Millisecond; b.node.DeadLetters() == 0; d *= 2 {
		if d > 10*time.Second {
			t.Fatal("no request is dropped because its deadline has passed")
		}
		if err := far.Send(t.Context(), Errand{Text: "block"}); err != nil {
			t.Fatal(err)
		}
		<-blocked
		for range 2 { // when the second is over, the first is over there too, if it arrived within d
			if err := ask(d, ""); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("Ask: %v", err)
			}
		}
		release <- struct{}{}
		if err := ask(time.Minute, "are all before this one done?"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNilAndInterfaceMessages(t *testing.T) {
	a, b := two(t, nil)
	got := make(chan any, 3)
	far := seen(t, a, spawn(t, b, func(_ *actor.Context[any], m any) error { got <- m; return nil }, nil))
	for _, m := range []any{nil, "text", Ping{3}} {
		if err := far.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if back := <-got; back != m {
			t.Errorf("%v became %v", m, back)
		}
	}
	typed := seen(t, a, spawn(t, b, func(*actor.Context[Ping], Ping) error { return nil }, nil))
	r, err := actor.At[Note](a.node, typed.Address())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Send(t.Context(), Note{}); err != nil { // its type is not known here
		t.Fatal(err)
	}
	testkit.Eventually(t, "a dead letter", func() bool { return b.node.DeadLetters() == 1 })
}

func TestPriorities(t *testing.T) {
	a, b := two(t, nil)
	got := make(chan int, 3)
	release := make(chan struct{})
	r := spawn(t, b, func(_ *actor.Context[Ping], m Ping) error {
		if m.N == 0 {
			<-release
		}
		got <- m.N
		return nil
	}, nil)
	far := seen(t, a, r)
	if err := far.Send(t.Context(), Ping{0}); err != nil {
		t.Fatal(err)
	}
	// An actor can be running and not have taken its message: another could pass it then.
	testkit.Eventually(t, "the actor to take the message", func() bool { i, err := b.node.Inspect(r.Address()); return err == nil && i.Handled == 1 })
	err := errors.Join(far.Send(t.Context(), Ping{2}), far.SendPriority(t.Context(), actor.Urgent, Ping{1}))
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "two messages to wait", func() bool { i, err := b.node.Inspect(r.Address()); return err == nil && i.Waiting == 2 })
	close(release)
	for want := range 3 {
		if n := <-got; n != want {
			t.Errorf("got %d, want %d", n, want)
		}
	}
}

// Messages of a sender that wait for a full mailbox do not keep others from theirs.
func TestFullMailboxes(t *testing.T) {
	a, b := two(t, nil)
	release := make(chan struct{})
	var slow, quick atomic.Int64
	r := spawn(t, b, func(*actor.Context[Ping], Ping) error { <-release; slow.Add(1); return nil },
		&actor.Options{Mailbox: 10, Overflow: actor.Block})
	q := spawn(t, b, func(*actor.Context[Ping], Ping) error { quick.Add(1); return nil }, nil)
	rejecting := spawn(t, b, func(*actor.Context[Ping], Ping) error { <-release; return nil }, &actor.Options{Mailbox: 1})
	const n = 500
	farR, farQ, farJ := seen(t, a, r), seen(t, a, q), seen(t, a, rejecting)
	for i := range n {
		if err := errors.Join(farR.Send(t.Context(), Ping{i}), farJ.Send(t.Context(), Ping{i}), farQ.Send(t.Context(), Ping{i})); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "the quick messages to arrive", func() bool { return quick.Load() == n })
	if got := b.node.DeadLetters(); got < n-2 || got > n {
		t.Errorf("%d dead letters, want those that the small mailbox refused", got)
	}
	close(release)
	testkit.Eventually(t, "the slow messages to arrive", func() bool { return slow.Load() == n })
}

// Drain lets an actor handle what was sent before, by whichever actor of the node.
func TestDrainComesAfterWhatWasSent(t *testing.T) {
	a, b := two(t, nil)
	for range 20 {
		var handled atomic.Int64
		r := spawn(t, b, func(*actor.Context[Ping], Ping) error { handled.Add(1); return nil }, nil)
		far := seen(t, a, r)
		for range 10 {
			do(t, worker(t, a, nil), func(c *actor.Context[job]) error {
				for i := range 20 {
					if err := far.Send(c, Ping{i}); err != nil {
						return err
					}
				}
				return nil
			})
		}
		far.Drain()
		if reason, err := actor.Wait(t.Context(), r); !errors.Is(reason, actor.Shutdown) && !errors.Is(reason, actor.Missing) || err != nil {
			t.Fatal(reason, err)
		}
		if handled.Load() != 200 {
			t.Fatalf("%d messages handled before the end, want 200", handled.Load())
		}
	}
}

// tracer lets a text ride on messages, and cross to other nodes.
type tracer struct{ got chan string }

type textKey struct{}

func (*tracer) Sent(ctx context.Context, _ actor.AnyRef) any { return ctx.Value(textKey{}) }

func (tr *tracer) Received(ctx context.Context, on any, _ actor.AnyRef) (context.Context, func(error)) {
	if text, ok := on.(string); ok {
		tr.got <- text
		ctx = context.WithValue(ctx, textKey{}, text)
	}
	return ctx, func(error) {}
}

func (*tracer) Inject(_ context.Context, on any) []byte {
	text, _ := on.(string)
	return []byte(text)
}

func (*tracer) Extract(_ context.Context, data []byte) any { return string(data) }

// A trace goes from node to node and back with what an actor sends because of a message.
func TestTracesTravel(t *testing.T) {
	tr := &tracer{got: make(chan string, 10)}
	b := joinTraced(t, "b", plain(t), tr)
	a := joinTraced(t, "a", plain(t), tr, b)
	done := make(chan struct{})
	last := spawn(t, a, func(*actor.Context[Errand], Errand) error { close(done); return nil }, nil)
	r := spawn(t, b, func(c *actor.Context[Errand], m Errand) error { return m.Then.Send(c, m) }, nil)
	ctx := context.WithValue(t.Context(), textKey{}, "trace")
	if err := seen(t, a, r).Send(ctx, Errand{Then: last}); err != nil {
		t.Fatal(err)
	}
	<-done
	if len(tr.got) != 2 || <-tr.got != "trace" || <-tr.got != "trace" {
		t.Error("the trace was lost")
	}
}

func TestAtMostOnce(t *testing.T) {
	a, b := two(t, nil)
	var got atomic.Int64
	far := seen(t, a, spawn(t, b, func(_ *actor.Context[Ping], p Ping) error { got.Add(1); return nil }, nil))
	ctx := cluster.AtMostOnce(t.Context())
	for i := range 1000 {
		if err := far.Send(ctx, Ping{i}); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "1000 messages to arrive", func() bool { return got.Load() == 1000 })
}

// Messages that were sent and not delivered when a node is lost are dead letters.
func TestUndeliveredMessagesAreDeadLetters(t *testing.T) {
	o := plain(t)
	o.DownAfter = 2 * time.Second
	b := join(t, "b", o)
	p := newProxy(t, b.Addr())
	a := join(t, "a", hidden(o))
	a.peers["b"] = p.addr()
	var letters atomic.Int64
	a.node.OnDeadLetter(func(l actor.DeadLetter) {
		if m, ok := l.Message.(Ping); ok && m.N == 7 && l.To.Name == "x" && errors.Is(l.Reason, actor.NodeDown) {
			letters.Add(1)
		}
	})
	far := named[Ping](t, a, "b", "x")
	spawn(t, b, func(*actor.Context[Ping], Ping) error { return nil }, &actor.Options{Name: "x"})
	if err := far.Send(t.Context(), Ping{1}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "one message to be handled", func() bool { i, err := b.node.Inspect(actor.Address{Name: "x"}); return err == nil && i.Handled == 1 })
	release := p.hold() // the session lasts until all are sent
	defer release()
	for range 5 {
		if err := far.Send(t.Context(), Ping{7}); err != nil {
			t.Fatal(err)
		}
	}
	p.cut(true)
	release()
	testkit.Eventually(t, "five dead letters", func() bool { return letters.Load() == 5 })
}

// A node of the cluster that sends malformed frames does not harm others.
func TestHostilePeer(t *testing.T) {
	b := join(t, "b", plain(t))
	h := &mute{}
	e, err := link.Open(&link.Options{Name: "evil", Plain: true, Secret: secret, Resolve: func(context.Context, string) (string, error) { return b.Addr(), nil }}, h)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(t.Context())
	p, err := e.Peer(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	spawn(t, b, func(*actor.Context[Errand], Errand) error { return nil }, &actor.Options{Name: "x"})
	rnd := rand.New(rand.NewPCG(1, 2))
	sent := 0
	send := func(body []byte) {
		sent++
		if err := p.Send(t.Context(), uint32(sent), link.ExactlyOnce, func(dst []byte) ([]byte, error) { return append(dst, body...), nil }); err != nil {
			t.Fatal(err)
		}
	}
	for kind := range 32 {
		for n := range 60 {
			body := make([]byte, 1+n)
			for i := range body {
				body[i] = byte(rnd.Uint32())
			}
			if n%2 == 0 && n > 2 {
				copy(body[1:], []byte{1, 1, 'x'})
			}
			body[0] = byte(kind) | body[0]&0xe0
			send(body)
		}
	}
	testkit.Eventually(t, "the messages to be handled", func() bool { return h.up.Load() && p.Stats().Waiting == 0 })
	if b.Malformed() == 0 {
		t.Error("nothing was refused")
	}
	a := join(t, "a", plain(t), b)
	if _, err := cluster.Resolve[Errand](t.Context(), a.Cluster, "b", "x"); err != nil {
		t.Errorf("others are disturbed: %v", err)
	}
}

// mute is a handler that does nothing.
type mute struct{ up atomic.Bool }

func (m *mute) Message(*link.Peer, uint32, []byte)    {}
func (m *mute) Up(*link.Peer)                         { m.up.Store(true) }
func (m *mute) Down(*link.Peer, error)                {}
func (m *mute) Undelivered(*link.Peer, []byte, error) {}

// A question that is dropped here may be of a node that must be dialed first. The reader that drops
// it does not wait for that.
func TestADroppedQuestionIsAnsweredWithoutWaitingForADial(t *testing.T) {
	c := join(t, "c", nil)
	found := make(chan struct{})
	node, err := actor.Open("b", nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := cluster.Join(node, &cluster.Options{Secret: secret, Plain: true, Logger: logger(t), Resolver: lateResolver{found, c.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer (&member{Cluster: b, node: node}).leave(t)
	asker := actor.Address{Node: "c", Start: c.node.Start(), ID: 1}
	if err := b.Answer(0, asker, nil, fmt.Errorf("dropped: %w", actor.ErrNoReply)); err != nil {
		t.Errorf("Answer while the asker's node is looked up: %v", err)
	}
	close(found)
	testkit.Eventually(t, "the node to be dialed", func() bool { return len(c.Nodes()) == 1 })
}

// lateResolver finds all nodes at one address, once found is closed.
type lateResolver struct {
	found chan struct{}
	addr  string
}

func (r lateResolver) Resolve(ctx context.Context, _ string) (string, error) {
	select {
	case <-r.found:
		return r.addr, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
