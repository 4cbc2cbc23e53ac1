package actor

import (
	"context"

	rt "github.com/mainstemdev/mainstem/actor"

	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/actor"
)

// mainstem is the actors of this module: on one node, and on nodes of a cluster
// whose connections are plain.
func mainstem() actor.Factory {
	m := runtime{}
	return actor.Factory{
		Name: "mainstem-actor", Network: suite.LoopbackTCP, Note: "mailboxes without limit; over the network exactly once, plain TCP",
		Ping: m.ping, Ask: m.ask, Publish: m.publish,
		Spawn: func(context.Context) (actor.Population, error) {
			n, err := rt.Open("population", nil)
			return &population{node: n}, err
		},
	}
}

// mainstemTLS is the same with certificates on both sides, as between machines.
func mainstemTLS() actor.Factory {
	m := runtime{tls: true}
	return actor.Factory{
		Name: "mainstem-actor-tls", Network: suite.LoopbackTLS, Note: "mailboxes without limit, exactly once, TLS with certificates of both nodes",
		NetworkOnly: true, Ping: m.ping, Ask: m.ask, Publish: m.publish,
	}
}

// runtime opens nodes.
type runtime struct{ tls bool }

// ping spawns a sender on one node and a receiver on the same or another for each sink.
func (m runtime) ping(ctx context.Context, network bool, sinks []*actor.Sink) (actor.Pinger, error) {
	ns, err := m.open(ctx, pick(network, 2, 1))
	if err != nil {
		return nil, err
	}
	p := &pinger{nodes: ns}
	here, there := ns[len(ns)-1], ns[0]
	for i, s := range sinks {
		to, err := receiver(ctx, here, there, name("receiver", i), func(_ *rt.Context[int], v int) error {
			s.Receive(v)
			return nil
		})
		if err != nil {
			return nil, ns.closed(err)
		}
		from, err := rt.Spawn(here.Node, rt.Func[burst](func(c *rt.Context[burst], b burst) error {
			b.ended <- send(c, to, b.n)
			return nil
		}), nil)
		if err != nil {
			return nil, ns.closed(err)
		}
		p.senders = append(p.senders, from)
	}
	return p, nil
}

// burst tells a sender to send n messages.
type burst struct {
	n     int
	ended chan error
}

func send(c *rt.Context[burst], to rt.Ref[int], n int) error {
	for i := range n {
		if err := to.Send(c, actor.Message(i)); err != nil {
			return err
		}
	}
	return nil
}

type pinger struct {
	nodes
	senders []rt.Ref[burst]
}

func (p *pinger) Burst(ctx context.Context, counts []int) error {
	ended := make(chan error, len(counts))
	for i, n := range counts {
		if err := p.senders[i].Send(ctx, burst{n, ended}); err != nil {
			return err
		}
	}
	for range counts {
		if err := <-ended; err != nil {
			return err
		}
	}
	return nil
}

// ask spawns an actor that adds one.
func (m runtime) ask(ctx context.Context, network bool) (actor.Asker, error) {
	ns, err := m.open(ctx, pick(network, 2, 1))
	if err != nil {
		return nil, err
	}
	to, err := receiver(ctx, ns[len(ns)-1], ns[0], "adder", func(_ *rt.Context[question], q question) error {
		return q.Reply.Send(q.V + 1)
	})
	if err != nil {
		return nil, ns.closed(err)
	}
	return &asker{ns, to}, nil
}

// question is what an asker sends.
type question struct {
	V     int           `bin:"1"`
	Reply rt.Reply[int] `bin:"2"`
}

type asker struct {
	nodes
	to rt.Ref[question]
}

func (a *asker) Ask(ctx context.Context, v int) (int, error) {
	return rt.Ask(ctx, a.to, func(r rt.Reply[int]) question { return question{v, r} })
}

// population is actors that do nothing until they get a message.
type population struct {
	node *rt.Node
	refs []rt.Ref[int]
}

// idler is an actor with a number and nothing else of its own.
type idler struct {
	i       int
	receive func(int)
}

func (a *idler) Receive(*rt.Context[int], int) error {
	a.receive(a.i)
	return nil
}

func (c *population) Spawn(_ context.Context, n int, receive func(int)) error {
	c.refs = make([]rt.Ref[int], n)
	for i := range c.refs {
		r, err := rt.Spawn(c.node, &idler{i, receive}, nil)
		if err != nil {
			return err
		}
		c.refs[i] = r
	}
	return nil
}

func (c *population) Poke(ctx context.Context) error {
	for _, r := range c.refs {
		if err := r.Send(ctx, 1); err != nil {
			return err
		}
	}
	return nil
}

func (c *population) Close() error { return c.node.Close() }
