package actor

import (
	"context"
	"errors"
	"slices"
	"strconv"

	contract "github.com/mainstemdev/mainstem"
	rt "github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster"
	"github.com/mainstemdev/mainstem/actor/cluster/devca"
	"github.com/mainstemdev/mainstem/actor/cluster/link"

	"github.com/mainstemdev/mainstem/bench/suites/actor"
)

// secret is what nodes without certificates know.
const secret = "nodes of one process over its loopback"

// member is a node, in a cluster if there is more than one.
type member struct {
	*rt.Node
	cluster *cluster.Cluster
	leave   func() error
}

// nodes are those of one entry. Each knows where those before it are, and dials them.
type nodes []member

func pick(condition bool, yes, no int) int {
	if condition {
		return yes
	}
	return no
}

func name(what string, i int) string { return what + strconv.Itoa(i) }

// open opens n nodes: more than one are a cluster over the loopback.
func (m runtime) open(ctx context.Context, n int) (nodes, error) {
	var authority *devca.Authority
	var err error
	if m.tls {
		if authority, err = devca.New(); err != nil {
			return nil, err
		}
	}
	ns := make(nodes, n)
	peers := map[string]string{}
	for i := range ns {
		o := &cluster.Options{Listen: "127.0.0.1:0", Secret: []byte(secret), Plain: !m.tls, Peers: peers}
		if err := ns[i].open(ctx, name("node", i), n > 1, o, authority); err != nil {
			return nil, ns.closed(err)
		}
		if n > 1 {
			peers[ns[i].Name()] = ns[i].cluster.Addr()
		}
	}
	return ns, nil
}

func (m *member) open(ctx context.Context, name string, clustered bool, o *cluster.Options, authority *devca.Authority) error {
	if authority != nil {
		cert, err := authority.Issue(name)
		if err != nil {
			return err
		}
		o.TLS = &link.TLS{Certificate: cert, Roots: authority.Roots()}
	}
	n, err := rt.Open(name, nil)
	if err != nil || !clustered {
		m.Node = n
		return err
	}
	c, err := cluster.Join(n, o)
	if err != nil {
		return errors.Join(err, n.Close())
	}
	m.Node, m.cluster = n, c
	m.leave = func() error { return c.Leave(context.WithoutCancel(ctx)) }
	return errors.Join(c.Register("bench.question", question{}), c.Register("bench.note", note{}))
}

// Close leaves the cluster and ends all actors. What arrived has been checked by
// then: a good-bye that overtakes an acknowledgement is no error here.
func (ns nodes) Close() error {
	var errs []error
	for _, m := range slices.Backward(ns) {
		if m.leave != nil {
			if err := m.leave(); !errors.Is(err, contract.ErrCanceled) {
				errs = append(errs, err)
			}
		}
		if m.Node != nil {
			errs = append(errs, m.Node.Close())
		}
	}
	return errors.Join(errs...)
}

func (ns nodes) closed(err error) error { return errors.Join(err, ns.Close()) }

// receiver spawns an actor on the node there, and returns what here has of it.
func receiver[M any](ctx context.Context, here, there member, name string, f func(*rt.Context[M], M) error) (rt.Ref[M], error) {
	r, err := rt.Spawn(there.Node, rt.Func[M](f), &rt.Options{Name: name})
	if err != nil || here.Node == there.Node {
		return r, err
	}
	return cluster.Resolve[M](ctx, here.cluster, there.Name(), name)
}

// note is what is published.
type note struct {
	Text string `bin:"1"`
}

// publish makes an event, on a node of its own if there is more than one, and
// subscribes the audience on the others.
func (m runtime) publish(ctx context.Context, a *actor.Audience) (actor.Publisher, error) {
	ns, err := m.open(ctx, pick(a.Nodes > 1, a.Nodes+1, 1))
	if err != nil {
		return nil, err
	}
	origin := ns[0]
	news, err := rt.NewEvent[note](origin.Node, "news", nil)
	if err != nil {
		return nil, ns.closed(err)
	}
	for i, n := range ns[len(ns)-a.Nodes:] {
		subscribe := news.Subscribe
		if n.cluster != nil {
			e := cluster.EventAt[note](n.cluster, origin.Name(), "news")
			subscribe = func(r rt.Ref[note]) error { return e.Subscribe(ctx, r) }
		}
		for j := range a.Each {
			r, err := rt.Spawn(n.Node, rt.Func[note](func(_ *rt.Context[note], m note) error {
				a.Receive(i, j, m.Text)
				return nil
			}), nil)
			if err = errors.Join(err, subscribe(r)); err != nil {
				return nil, ns.closed(err)
			}
		}
	}
	return &publisher{ns, news}, nil
}

type publisher struct {
	nodes
	news *rt.Event[note]
}

func (p *publisher) Publish(ctx context.Context, text string) error {
	_, err := p.news.Publish(ctx, note{text})
	return err
}
