package inspect_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster"
	"github.com/mainstemdev/mainstem/actor/cluster/inspect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type addresses map[string]string

func (a addresses) Resolve(_ context.Context, node string) (string, error) {
	if addr, ok := a[node]; ok {
		return addr, nil
	}
	return "", mainstem.ErrNotFound
}

func join(t *testing.T, name string, known addresses) *cluster.Cluster {
	t.Helper()
	node, err := actor.Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Join(node, &cluster.Options{Listen: "127.0.0.1:0", Plain: true, Secret: []byte("a secret of some length, for tests"), Resolver: known})
	if err != nil {
		t.Fatal(err)
	}
	known[name] = c.Addr()
	t.Cleanup(func() {
		if err := errors.Join(c.Leave(context.Background()), node.Close()); err != nil {
			t.Error(err)
		}
	})
	return c
}

type shown struct{}

func (shown) Receive(*actor.Context[string], string) error { return nil }
func (shown) Inspect() map[string]string                   { return map[string]string{"color": "blue"} }

func TestANodeShowsAnother(t *testing.T) {
	known := make(addresses)
	here, there := join(t, "here", known), join(t, "there", known)
	i, err := inspect.New(here)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inspect.New(there); err != nil {
		t.Fatal(err)
	}
	if _, err := inspect.New(there); !errors.Is(err, mainstem.ErrExists) {
		t.Errorf("New twice: %v, want Exists", err)
	}
	r, err := actor.Spawn(there.Node(), shown{}, &actor.Options{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := i.Nodes(t.Context(), "there")
	if err != nil || len(nodes) != 2 || nodes[0].Name != "there" || !nodes[0].Self || nodes[1].Name != "here" {
		t.Errorf("Nodes: %+v, %v", nodes, err)
	}
	tree, more, err := i.Tree(t.Context(), "there", 0)
	if err != nil || more || len(tree) < 2 {
		t.Errorf("Tree: %+v, %v, %v", tree, more, err)
	}
	if short, more, err := i.Tree(t.Context(), "there", 1); err != nil || !more || len(short) != 1 {
		t.Errorf("Tree of one: %+v, %v, %v", short, more, err)
	}
	one, err := i.Actor(t.Context(), r.Address())
	if err != nil || one.Shown["color"] != "blue" || one.Address != "there/a" || one.Messages != "string" {
		t.Errorf("One: %+v, %v", one, err)
	}
	byName := actor.Address{Node: "there", Name: "a"}
	r.Stop()
	if _, err := actor.Wait(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if _, err := i.Actor(t.Context(), byName); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("One that is gone: %v, want NotFound", err)
	}
	old := byName
	old.Start = 7
	if _, err := i.Actor(t.Context(), old); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("One of an earlier life: %v, want NotFound", err)
	}
	if _, err := i.Nodes(t.Context(), "nowhere"); err == nil {
		t.Error("a node that nobody knows has answered")
	}
}
