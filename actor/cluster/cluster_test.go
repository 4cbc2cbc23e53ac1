package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster"
	"github.com/mainstemdev/mainstem/actor/cluster/devca"
	"github.com/mainstemdev/mainstem/actor/cluster/link"
	"github.com/mainstemdev/mainstem/actor/cluster/registrar"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var secret = []byte("the secret of a cluster in a test")

// member is a node of a test.
type member struct {
	*cluster.Cluster
	node  *actor.Node
	peers addresses
}

// addresses is the resolver of a node of a test.
type addresses map[string]string

func (a addresses) Resolve(_ context.Context, node string) (string, error) {
	if addr, ok := a[node]; ok {
		return addr, nil
	}
	return "", &mainstem.Error{Kind: mainstem.KindNotFound, Op: "resolve " + node}
}

// join makes a node with the types of the tests registered. It leaves when the test ends.
func join(t testing.TB, name string, o *cluster.Options, peers ...*member) *member {
	t.Helper()
	return joinTraced(t, name, o, nil, peers...)
}

func joinTraced(t testing.TB, name string, o *cluster.Options, tr actor.Tracer, peers ...*member) *member {
	t.Helper()
	own := cluster.Options{Listen: "127.0.0.1:0", Secret: secret, Plain: true, Logger: logger(t)}
	if o != nil {
		own = *o
	}
	if !own.Plain {
		own.TLS = certified(t, name)
	}
	known := addresses{}
	for _, p := range peers {
		known[p.node.Name()] = p.Addr()
	}
	own.Resolver = known
	node, err := actor.Open(name, &actor.NodeOptions{Tracer: tr})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Join(node, &own)
	if err != nil {
		t.Fatal(errors.Join(err, node.Close()))
	}
	m := &member{c, node, known}
	t.Cleanup(func() { m.leave(t) })
	for name, zero := range map[string]any{"ping": Ping{}, "errand": Errand{}, "note": Note{}} {
		if err := c.Register(name, zero); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.RegisterError("test.refused", errRefused); err != nil {
		t.Fatal(err)
	}
	return m
}

// secured are options for nodes with TLS.
var secured = &cluster.Options{Listen: "127.0.0.1:0"}

var authority = sync.OnceValues(devca.New)

// certified returns the certificate of a node.
func certified(t testing.TB, name string) *link.TLS {
	t.Helper()
	ca, err := authority()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Issue(name)
	if err != nil {
		t.Fatal(err)
	}
	return &link.TLS{Certificate: cert, Roots: ca.Roots()}
}

func (m *member) leave(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := m.Leave(ctx); err != nil && ctx.Err() != nil {
		t.Errorf("Leave of %s: %v", m.node.Name(), err)
	}
	stopping, stop := context.WithTimeout(context.Background(), testkit.Patience)
	defer stop()
	if err := m.node.Stop(stopping); err != nil { // Close would give up sooner on a busy machine
		t.Error(err)
	}
}

// logger writes the log of a cluster to the test.
func logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// two returns two nodes, of which each can find the other.
func two(t testing.TB, o *cluster.Options) (a, b *member) {
	b = join(t, "b", o)
	a = join(t, "a", o, b)
	if err := a.Connect(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "b to see a", func() bool { return len(b.Nodes()) == 1 })
	return a, b
}

// The messages of the tests.
type (
	Ping   struct{ N int }
	Errand struct {
		Text  string
		Then  actor.Ref[Errand]
		Reply actor.Reply[string]
	}
	Note struct{ Text string }
)

var errRefused = errors.New("refused")

// job is a message that only actors of this process can take.
type job func(c *actor.Context[job]) error

func worker(t testing.TB, m *member, o *actor.Options) actor.Ref[job] {
	t.Helper()
	return spawn(t, m, func(c *actor.Context[job], f job) error { return f(c) }, o)
}

func spawn[M any](t testing.TB, m *member, f func(c *actor.Context[M], m M) error, o *actor.Options) actor.Ref[M] {
	t.Helper()
	r, err := actor.Spawn(m.node, actor.Func[M](f), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// seen returns a reference to an actor of another node.
func seen[M any](t testing.TB, m *member, r actor.Ref[M]) actor.Ref[M] {
	t.Helper()
	a := r.Address()
	a.Name, a.ID = "", actor.Number(r)
	far, err := actor.At[M](m.node, a)
	if err != nil {
		t.Fatal(err)
	}
	return far
}

func named[M any](t testing.TB, m *member, node, name string) actor.Ref[M] {
	t.Helper()
	r, err := cluster.Ref[M](m.Cluster, node, name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMessagesArriveInOrder(t *testing.T) {
	a, b := two(t, nil)
	const n = 20_000
	var next atomic.Int64
	r := spawn(t, b, func(_ *actor.Context[Ping], p Ping) error {
		if !next.CompareAndSwap(int64(p.N), int64(p.N)+1) {
			t.Errorf("got %d, want %d", p.N, next.Load())
		}
		return nil
	}, &actor.Options{Name: "counter"})
	byNumber, byName := seen(t, a, r), named[Ping](t, a, "b", "counter")
	sender := worker(t, a, nil)
	if err := sender.Send(t.Context(), func(c *actor.Context[job]) error {
		for i := range n {
			to := byNumber
			if i%3 == 0 {
				to = byName
			}
			if err := to.Send(c, Ping{i}); err != nil {
				t.Error(err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "all messages to arrive", func() bool { return next.Load() == n })
}

func TestAskAndForward(t *testing.T) {
	a, b := two(t, nil)
	c := join(t, "c", nil, a, b)
	last := spawn(t, c, func(_ *actor.Context[Errand], m Errand) error {
		return m.Reply.Send(m.Text + " c")
	}, &actor.Options{Name: "last"})
	r := spawn(t, b, func(x *actor.Context[Errand], m Errand) error {
		if m.Text == "refuse" {
			return m.Reply.Fail(fmt.Errorf("asked for: %w", errRefused))
		}
		m.Text += " b"
		return m.Then.Send(x, m)
	}, nil)
	if err := c.Connect(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if err := c.Connect(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	far := seen(t, a, r)
	for range 3 {
		v, err := actor.Ask(t.Context(), far, func(p actor.Reply[string]) Errand {
			return Errand{Text: "a", Then: seen(t, a, last), Reply: p}
		})
		if v != "a b c" || err != nil {
			t.Errorf("answer %q, %v", v, err)
		}
	}
	_, err := actor.Ask(t.Context(), far, func(p actor.Reply[string]) Errand { return Errand{Text: "refuse", Reply: p} })
	if !errors.Is(err, errRefused) || err.Error() != "asked for: refused" {
		t.Errorf("Fail: %v, want errRefused", err)
	}
	gone := seen(t, a, worker2(t, b))
	if _, err := actor.Ask(t.Context(), gone, func(p actor.Reply[string]) Errand { return Errand{Reply: p} }); !errors.Is(err, actor.ErrNoReply) || !errors.Is(err, actor.ErrStopped) || !errors.Is(err, mainstem.ErrUnavailable) {
		t.Errorf("Ask an actor that is gone: %v, want ErrNoReply because of ErrStopped", err)
	}
}

// worker2 returns a reference to an actor that is gone.
func worker2(t testing.TB, m *member) actor.Ref[Errand] {
	r := spawn(t, m, func(*actor.Context[Errand], Errand) error { return nil }, nil)
	a := r.Address()
	r.Kill()
	if _, err := actor.Wait(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the address to be forgotten", func() bool { _, err := m.node.Inspect(a); return err != nil })
	return r
}

// A second Join of a node fails, and leaves the announcement of the first alone.
func TestASecondJoinKeepsTheAnnouncementOfTheFirst(t *testing.T) {
	log := model.New(nil)
	defer log.Close()
	r := registrar.New(log, nil)
	node, err := actor.Open("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	o := &cluster.Options{Listen: "127.0.0.1:0", Secret: secret, Plain: true, Logger: logger(t), Resolver: r}
	c, err := cluster.Join(node, o)
	if err != nil {
		t.Fatal(err)
	}
	keeper := r.Keeper()
	if _, err := cluster.Join(node, o); !errors.Is(err, mainstem.ErrExists) {
		t.Errorf("a second Join: %v, want Exists", err)
	}
	if r.Keeper() != keeper || keeper.Context().Err() != nil {
		t.Error("the announcement of the first was withdrawn")
	}
	if err := c.Leave(t.Context()); err != nil || r.Keeper() != nil {
		t.Errorf("Leave: %v, announced %v", err, r.Keeper())
	}
}
