package inspect_test

import (
	"context"
	"fmt"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster"
	"github.com/mainstemdev/mainstem/actor/cluster/inspect"
)

func ExampleNew() {
	ctx := context.Background()
	node, err := actor.Open("shop", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	c, err := cluster.Join(node, &cluster.Options{Plain: true, Secret: []byte("what all nodes know")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Leave(ctx)
	i, err := inspect.New(c)
	if err != nil {
		fmt.Println(err)
		return
	}
	tree, more, err := i.Tree(ctx, "shop", 0)
	for _, a := range tree {
		fmt.Println(a.Address, a.Behaviour)
	}
	fmt.Println(more, err)
	// Output:
	// shop/mainstem.inspect inspect.answering
	// false <nil>
}
