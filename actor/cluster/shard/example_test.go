package shard_test

import (
	"context"
	"fmt"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster/shard"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/lease"
)

// Add is a message for a cart.
type Add struct {
	Cart, Item string
	Reply      actor.Reply[int]
}

// cart is the actor of one cart.
type cart struct{ items []string }

func (a *cart) Receive(_ *actor.Context[Add], m Add) error {
	a.items = append(a.items, m.Item)
	return m.Reply.Send(len(a.items))
}

// alone stands for a *cluster.Cluster of one node, which needs no types.
type alone struct{ node *actor.Node }

func (a alone) Node() *actor.Node          { return a.node }
func (a alone) Register(string, any) error { return nil }

func ExampleOpen() {
	ctx := context.Background()
	log, err := pebblelog.OpenMemory(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer log.Close()
	node, err := actor.Open("shop", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	k, err := lease.Open(ctx, log, lease.Member{Name: "shop", Start: node.Start()}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close(ctx)
	r, err := shard.Open(alone{node}, k, "carts", func(m Add) string { return m.Cart },
		func(shard.Entity) actor.Actor[Add] { return &cart{} }, &shard.Options{Shards: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close(ctx)
	for _, cart := range []string{"42", "7", "42"} {
		n, err := actor.Ask(ctx, r.Ref(), func(p actor.Reply[int]) Add { return Add{cart, "tea", p} })
		fmt.Println(cart, n, err)
	}
	// Output:
	// 42 1 <nil>
	// 7 1 <nil>
	// 42 2 <nil>
}
