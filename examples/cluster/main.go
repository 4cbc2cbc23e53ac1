// Command cluster is two nodes that keep a score together. Run it twice:
//
//	cluster -name one -listen 127.0.0.1:7601 -peer two=127.0.0.1:7602
//	cluster -name two -listen 127.0.0.1:7602 -peer one=127.0.0.1:7601 -bump one
//
// The second adds to the counter of the first, ten times, and prints what it is then.
// Without flags both nodes are in one process.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster"
)

// secret is what both nodes know. A real one is random and in no program.
var secret = []byte("only for the loopback")

// patience is how long a node waits for another.
const patience = 10 * time.Second

// Add is the message of the counter: it adds N, and answers with the sum.
type Add struct {
	N     int
	Reply actor.Reply[int]
}

// counter is the actor that keeps the score.
type counter struct{ sum int }

// Receive adds.
func (c *counter) Receive(_ *actor.Context[Add], m Add) error {
	c.sum += m.N
	return m.Reply.Send(c.sum)
}

// member is one node.
type member struct {
	node    *actor.Node
	cluster *cluster.Cluster
}

// join opens a node with a counter and lets it join the others.
func join(name, listen string, peers map[string]string) (*member, error) {
	node, err := actor.Open(name, nil)
	if err != nil {
		return nil, err
	}
	c, err := cluster.Join(node, &cluster.Options{Listen: listen, Plain: true, Secret: secret, Peers: peers})
	if err != nil {
		return nil, errors.Join(err, node.Close())
	}
	m := &member{node, c}
	if err := c.Register("example.add", Add{}); err != nil {
		return nil, errors.Join(err, m.close())
	}
	if _, err := actor.Spawn(node, &counter{}, &actor.Options{Name: "counter"}); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

func (m *member) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return errors.Join(m.cluster.Leave(ctx), m.node.Close())
}

// bump adds 1 to the counter of another node, some times, and returns the last sum.
func (m *member) bump(ctx context.Context, node string, times int) (sum int, err error) {
	far, err := cluster.Ref[Add](m.cluster, node, "counter")
	if err != nil {
		return 0, err
	}
	for range times {
		sum, err = actor.Ask(ctx, far, func(r actor.Reply[int]) Add { return Add{1, r} })
		if err != nil {
			return 0, err
		}
	}
	return sum, nil
}

// peerFlag collects addresses of nodes.
type peerFlag map[string]string

func (p peerFlag) String() string { return fmt.Sprint(map[string]string(p)) }

// Set takes name=host:port.
func (p peerFlag) Set(s string) error {
	name, addr, ok := strings.Cut(s, "=")
	if !ok {
		return fmt.Errorf("%q: want name=host:port", s)
	}
	p[name] = addr
	return nil
}

func main() {
	name := flag.String("name", "", "name of this node; without one, two nodes run in this process")
	listen := flag.String("listen", "127.0.0.1:0", "address of this node")
	bump := flag.String("bump", "", "node whose counter to add to; without one this node serves until it is interrupted")
	peers := peerFlag{}
	flag.Var(peers, "peer", "name=host:port of another node")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := both
	if *name != "" {
		run = func(ctx context.Context) error { return one(ctx, *name, *listen, peers, *bump) }
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// one runs one node.
func one(ctx context.Context, name, listen string, peers map[string]string, bump string) (err error) {
	m, err := join(name, listen, peers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	if bump == "" {
		fmt.Println("serving at", m.cluster.Addr())
		<-ctx.Done()
		return nil
	}
	return show(ctx, m, bump)
}

func show(ctx context.Context, m *member, node string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sum, err := m.bump(ctx, node, 10)
	if err == nil {
		fmt.Printf("the counter of node %s is %d\n", node, sum)
	}
	return err
}

// both runs two nodes in this process.
func both(ctx context.Context) error {
	first, err := join("one", "127.0.0.1:0", nil)
	if err != nil {
		return err
	}
	second, err := join("two", "127.0.0.1:0", map[string]string{"one": first.cluster.Addr()})
	if err != nil {
		return errors.Join(err, first.close())
	}
	err = show(ctx, second, "one")
	if err == nil {
		err = show(ctx, first, "two") // it was connected by the other
	}
	return errors.Join(err, second.close(), first.close())
}
