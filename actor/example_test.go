package actor_test

import (
	"context"
	"fmt"

	"github.com/mainstemdev/mainstem/actor"
)

// message is what a counter takes.
type message any

type add struct{ n int }

type total struct{ reply actor.Reply[int] }

// counter counts.
type counter struct{ n int }

func (a *counter) Receive(_ *actor.Context[message], m message) error {
	switch m := m.(type) {
	case add:
		a.n += m.n
	case total:
		return m.reply.Send(a.n)
	}
	return nil
}

func Example() {
	node, err := actor.Open("shop", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()

	ctx := context.Background()
	ref, err := actor.Spawn(node, &counter{}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = ref.Send(ctx, add{3})
	_ = ref.Send(ctx, add{4})
	n, err := actor.Ask(ctx, ref, func(r actor.Reply[int]) message { return total{r} })
	fmt.Println(n, err)
	// Output: 7 <nil>
}

// A supervisor restarts what fails. The reference stays good.
func ExampleSupervise() {
	node, err := actor.Open("shop", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()

	divide := func() actor.Func[divisor] {
		return func(c *actor.Context[divisor], d divisor) error { return d.reply.Send(100 / d.by) }
	}
	ctx := context.Background()
	sup, err := actor.Supervise(node, nil, actor.NewChild("divider", divide, nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	divider, err := actor.ChildRef[divisor](ctx, sup, "divider")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, by := range []int{0, 5} {
		v, err := actor.Ask(ctx, divider, func(r actor.Reply[int]) divisor { return divisor{by, r} })
		fmt.Println(v, err)
	}
	// Output:
	// 0 ask shop/#2: unavailable: no reply will come: panic: runtime error: integer divide by zero
	// 20 <nil>
}

type divisor struct {
	by    int
	reply actor.Reply[int]
}
