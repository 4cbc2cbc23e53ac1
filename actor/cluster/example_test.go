package cluster_test

import (
	"context"
	"fmt"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster"
)

// Greeting is a message: it asks.
type Greeting struct {
	Name  string
	Reply actor.Reply[string]
}

func open(name string, peers map[string]string) (*actor.Node, *cluster.Cluster, error) {
	node, err := actor.Open(name, nil)
	if err != nil {
		return nil, nil, err
	}
	c, err := cluster.Join(node, &cluster.Options{
		Listen: "127.0.0.1:0", Plain: true, Secret: []byte("sixteen bytes at least"), Peers: peers,
	})
	if err != nil {
		return nil, nil, err
	}
	return node, c, c.Register("greeting", Greeting{})
}

// Two nodes, here in one process: an actor of one answers a question of the other.
func Example() {
	ctx := context.Background()
	north, inNorth, err := open("north", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer north.Close()
	defer inNorth.Leave(ctx)
	south, inSouth, err := open("south", map[string]string{"north": inNorth.Addr()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer south.Close()
	defer inSouth.Leave(ctx)

	greet := func(_ *actor.Context[Greeting], g Greeting) error {
		return g.Reply.Send("hello " + g.Name + " from the north")
	}
	if _, err := actor.Spawn(north, actor.Func[Greeting](greet), &actor.Options{Name: "greeter"}); err != nil {
		fmt.Println(err)
		return
	}
	greeter, err := cluster.Ref[Greeting](inSouth, "north", "greeter")
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := actor.Ask(ctx, greeter, func(r actor.Reply[string]) Greeting { return Greeting{"Ada", r} })
	fmt.Println(answer, err)
	// Output: hello Ada from the north <nil>
}
