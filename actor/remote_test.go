package actor_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/codec/binary"
)

// wire is a transport between two nodes of one process that encodes every message.
type wire struct {
	t     testing.TB
	here  *actor.Node
	peer  *actor.Node
	codec *binary.Registry
}

func connect(t testing.TB, a, b *actor.Node) {
	t.Helper()
	codec := binary.New(nil)
	err := errors.Join(
		codec.Register("errand", Errand{}), codec.Register("holder", Holder{}),
		a.Connect(&wire{t, a, b, codec}), b.Connect(&wire{t, b, a, codec}),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// through encodes v and returns it decoded, as the other node gets it.
func (w *wire) through(v any) any {
	data, err := w.codec.AppendAny(nil, v)
	if err != nil {
		w.t.Error(err)
	}
	back, err := w.codec.DecodeAny(data)
	if err != nil {
		w.t.Error(err)
	}
	return back
}

func (w *wire) Send(ctx context.Context, m actor.Outbound) error {
	d := actor.Delivery{To: m.To, Priority: m.Priority, Message: w.through(m.Message), Trace: m.Trace, Question: m.Question}
	d.Deadline, _ = ctx.Deadline()
	return w.peer.Inbound().Deliver(ctx, d)
}

func (w *wire) Answer(_ uint64, to actor.Address, v any, err error) error {
	return w.peer.Inbound().Answer(to, w.through(v), err)
}

func (w *wire) Monitor(_ uint64, to actor.Address, f func(error)) func() {
	return w.peer.Inbound().Monitor(to, f)
}

func (w *wire) Link(from, to actor.Address) error {
	if err := w.peer.Inbound().Link(from, to); err != nil {
		w.here.Inbound().Exit(to, from, err)
	}
	return nil
}

func (w *wire) Unlink(from, to actor.Address) { w.peer.Inbound().Unlink(from, to) }

func (w *wire) Exit(from, to actor.Address, reason error) {
	w.peer.Inbound().Exit(from, to, reason)
}

func (w *wire) Order(to actor.Address, o actor.Order) { w.peer.Inbound().Order(to, o) }

// Errand is a message that carries a reference and a reply over the wire.
type Errand struct {
	Text  string
	Then  actor.Ref[Errand]
	Reply actor.Reply[string]
}

func twoNodes(t testing.TB) (here, there *actor.Node) {
	t.Helper()
	for _, n := range []**actor.Node{&here, &there} {
		name := map[bool]string{true: "here", false: "there@127.0.0.1"}[n == &here]
		node, err := actor.Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, node) })
		*n = node
	}
	connect(t, here, there)
	return here, there
}

func TestMessagesCarryReferencesAndRepliesToOtherNodes(t *testing.T) {
	here, there := twoNodes(t)
	local := spawn(t, here, func(_ *actor.Context[Errand], m Errand) error {
		return m.Reply.Send(m.Text + " back here") // the reply is this node's own again
	}, nil)
	far := spawn(t, there, func(c *actor.Context[Errand], m Errand) error {
		m.Text += " there"
		if m.Then.IsZero() {
			return m.Reply.Fail(errors.New("nobody to go on to"))
		}
		return m.Then.Send(c, Errand{Text: m.Text, Reply: m.Reply})
	}, &actor.Options{Name: "far"})
	r, err := actor.At[Errand](here, far.Address())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		v, err := actor.Ask(t.Context(), r, func(p actor.Reply[string]) Errand {
			return Errand{Text: "from here", Then: local, Reply: p}
		})
		if err == nil && v != "from here there back here" {
			t.Errorf("answer %q", v)
		} else if err != nil {
			t.Error(err)
		}
	}
	_, err = actor.Ask(t.Context(), r, func(p actor.Reply[string]) Errand { return Errand{Reply: p} })
	if err == nil || err.Error() != "nobody to go on to" {
		t.Errorf("Fail: %v", err)
	}
	if same, err := actor.At[Errand](here, far.Address()); err != nil || same != r || r.String() != "there@127.0.0.1/far" {
		t.Errorf("references to the same actor: %v, %v", same, r)
	}
}

// Holder has references in all places where they can be.
type Holder struct {
	Ptr   *Errand
	List  []actor.Ref[Errand]
	Map   map[string]Errand
	Any   any
	Inner *Holder
	Plain int
}

func TestReferencesAreBoundWhereverTheyAre(t *testing.T) {
	here, there := twoNodes(t)
	got := make(chan string, 10)
	local := spawn(t, here, func(_ *actor.Context[Errand], m Errand) error { got <- m.Text; return nil }, nil)
	far := spawn(t, there, func(_ *actor.Context[Holder], h Holder) error {
		// A context of no actor: only references that are bound can be used.
		return errors.Join(
			h.Ptr.Then.Send(t.Context(), Errand{Text: "pointer"}),
			h.List[1].Send(t.Context(), Errand{Text: "list"}),
			h.Map["k"].Then.Send(t.Context(), Errand{Text: "map"}),
			h.Any.(Errand).Then.Send(t.Context(), Errand{Text: "any"}),
			h.Inner.Inner.Ptr.Then.Send(t.Context(), Errand{Text: "inner"}),
		)
	}, nil)
	r, err := actor.At[Holder](here, far.Address())
	if err != nil {
		t.Fatal(err)
	}
	e := Errand{Then: local}
	send(t, r, Holder{
		Ptr: &e, List: []actor.Ref[Errand]{{}, local}, Map: map[string]Errand{"k": e}, Any: e, Plain: 1,
		Inner: &Holder{Inner: &Holder{Ptr: &e}},
	})
	for _, want := range []string{"pointer", "list", "map", "any", "inner"} {
		if s := <-got; s != want {
			t.Errorf("got %s, want %s", s, want)
		}
	}
}

func TestMonitorLinkAndOrdersReachOtherNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := twoNodes(t)
		a, b := worker(t, here, nil), worker(t, there, nil)
		c := worker(t, there, &actor.Options{Name: "c"})
		farA, err1 := actor.At[job](there, a.Address())
		farC, err2 := actor.At[job](here, c.Address())
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		var downs []error
		watcher := worker(t, here, nil)
		send(t, watcher, func(x *actor.Context[job]) error {
			x.Monitor(farC, func(d actor.Down) error { downs = append(downs, d.Reason); return nil })
			return nil
		})
		send(t, b, func(x *actor.Context[job]) error { x.Link(farA); return nil })
		send(t, a, func(x *actor.Context[job]) error { x.Link(farC); return nil })
		synctest.Wait()
		farC.Kill()
		synctest.Wait()
		if len(downs) != 1 || downs[0] != actor.Killed {
			t.Errorf("downs %v, want killed", downs)
		}
		if here.Len() != 1 || there.Len() != 0 {
			t.Errorf("%d and %d actors left: want all linked ones gone", here.Len(), there.Len())
		}
		reasons := make(chan error, 1)
		watcher2 := worker(t, here, nil)
		send(t, watcher2, func(x *actor.Context[job]) error {
			x.TrapExit(func(e actor.Exit) error { reasons <- e.Reason; return nil })
			x.Link(farC)
			return nil
		})
		if r := <-reasons; r != actor.Missing {
			t.Errorf("link to an actor that is gone: %v, want Missing", r)
		}
		if reason, err := actor.Wait(t.Context(), farC); reason != actor.Missing || err != nil {
			t.Errorf("Wait: %v, %v", reason, err)
		}
		if err := there.Inbound().Deliver(t.Context(), actor.Delivery{To: c.Address(), Message: job(nil)}); !errors.Is(err, actor.ErrStopped) || there.DeadLetters() != 1 {
			t.Errorf("Deliver to an actor that is gone: %v, %d dead letters", err, there.DeadLetters())
		}
		if err := here.Inbound().Deliver(t.Context(), actor.Delivery{To: watcher.Address(), Message: 5}); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("Deliver of another type: %v, want Invalid", err)
		}
	})
}

func TestWithoutTransportOtherNodesAreUnreachable(t *testing.T) {
	node := open(t)
	far, err := actor.At[Errand](node, actor.Address{Node: "other", Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := far.Send(t.Context(), Errand{}); !errors.Is(err, actor.ErrUnreachable) || !errors.Is(err, mainstem.ErrUnavailable) {
		t.Errorf("Send: %v, want ErrUnreachable", err)
	}
	if _, err := actor.Ask(t.Context(), far, func(p actor.Reply[string]) Errand { return Errand{Reply: p} }); !errors.Is(err, actor.ErrUnreachable) {
		t.Errorf("Ask: %v, want ErrUnreachable", err)
	}
	var loose actor.Ref[Errand]
	if err := loose.UnmarshalText([]byte("other@1/#2")); err != nil {
		t.Fatal(err)
	}
	if err := loose.Send(t.Context(), Errand{}); !errors.Is(err, actor.ErrUnreachable) {
		t.Errorf("Send through a reference of no node: %v, want ErrUnreachable", err)
	}
	if _, err := actor.At[Errand](node, actor.Address{Node: "test", ID: 99}); !errors.Is(err, actor.ErrStopped) {
		t.Errorf("At: %v, want ErrStopped", err)
	}
}

// broken is a transport that carries no message.
type broken struct {
	actor.Transport
	err error
}

func (b broken) Send(context.Context, actor.Outbound) error { return b.err }

func TestErrorsOfATransportHaveAKind(t *testing.T) {
	refused := &mainstem.Error{Kind: mainstem.KindInvalid, Op: "carry"}
	for _, c := range []struct{ err, want error }{
		{errors.New("the cable is cut"), mainstem.ErrUnavailable},
		{context.Canceled, mainstem.ErrCanceled},
		{context.DeadlineExceeded, mainstem.ErrCanceled},
		{refused, mainstem.ErrInvalid},
	} {
		node := open(t)
		if err := node.Connect(broken{err: c.err}); err != nil {
			t.Fatal(err)
		}
		far, err := actor.At[Errand](node, actor.Address{Node: "other", Name: "x"})
		if err != nil {
			t.Fatal(err)
		}
		if err := far.Send(t.Context(), Errand{}); !errors.Is(err, c.want) || !errors.Is(err, c.err) {
			t.Errorf("Send: %v, want an error that is %v", err, c.want)
		}
	}
}

// A reference that was sent out and came back is the actor itself, unless its node
// was restarted meanwhile.
func TestReferencesComeBack(t *testing.T) {
	node := open(t)
	r := worker(t, node, &actor.Options{Name: "a"})
	text, err := json.Marshal(map[string]actor.Ref[job]{"r": r, "none": {}})
	if err != nil {
		t.Fatal(err)
	}
	var back map[string]actor.Ref[job]
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if got := back["r"].On(node); got != r || !back["none"].IsZero() {
		t.Errorf("came back as %v and %v", got, back["none"])
	}
	old := strings.Replace(string(text), "@", "@1", 1)
	if err := json.Unmarshal([]byte(old), &back); err != nil {
		t.Fatal(err)
	}
	if err := back["r"].On(node).Send(t.Context(), nil); !errors.Is(err, actor.ErrStopped) {
		t.Errorf("Send to an actor of an earlier life: %v, want ErrStopped", err)
	}
}

// The error for a reference that cannot be encoded says which kind of reference it is.
func TestReferencesThatCannotBeEncoded(t *testing.T) {
	node := open(t)
	fresh := func() actor.Func[job] { return do }
	router, err1 := actor.NewRouter[job](actor.RoundRobin, nil)
	pool, err2 := actor.NewPool(node, fresh, &actor.PoolOptions[job]{Workers: 1})
	keyed, err3 := actor.NewKeyed(node, func(int) actor.Func[job] { return do }, nil)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	for want, r := range map[string]actor.Ref[job]{
		"to a router":         router.Ref(),
		"to a pool":           pool.Ref(),
		"to a key of a Keyed": keyed.Ref(1),
		"made by Adapt":       actor.Adapt(worker(t, node, nil), func(m job) job { return m }),
	} {
		if _, err := r.MarshalText(); !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want Invalid that says %q", err, want)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"", "a@1/b", "demo@127.0.0.1@17/#42", "a@/b", "a@1/#0", "a@1/#01", "@1/x", "a@1/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := actor.ParseAddress(s)
		if err != nil {
			if !errors.Is(err, mainstem.ErrInvalid) {
				t.Errorf("%v is not Invalid", err)
			}
			return
		}
		text, err := a.MarshalText()
		if err != nil || string(text) != s {
			t.Errorf("%q became %q, %v", s, text, err)
		}
	})
}
