package fsm_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/fsm"
)

// light is a state of a turnstile.
type light string

const (
	red   light = "red"
	green light = "green"
)

// The messages of a turnstile.
type coin struct{}
type push struct{ through actor.Reply[bool] }

// turnstile lets one person through for each coin.
type turnstile struct{ coins int }

func (t *turnstile) whenRed(_ *actor.Context[any], m any) (light, error) {
	switch m := m.(type) {
	case coin:
		t.coins++
		return green, nil
	case push:
		return red, m.through.Send(false)
	}
	return red, nil
}

func (t *turnstile) whenGreen(_ *actor.Context[any], m any) (light, error) {
	switch m := m.(type) {
	case push:
		return red, m.through.Send(true)
	case coin:
		return green, fsm.ErrDefer // it is for the next person
	}
	return green, nil
}

func Example() {
	node, err := actor.Open("station", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()

	t := &turnstile{}
	var changes []string
	ref, err := actor.Spawn(node, &fsm.Machine[light, any]{
		Initial: red,
		States: map[light]fsm.State[light, any]{
			red:   {Receive: t.whenRed},
			green: {Receive: t.whenGreen},
		},
		Changed: func(_ *actor.Context[any], from, to light) {
			changes = append(changes, fmt.Sprintf("%s -> %s", from, to))
		},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	try := func() {
		ok, err := actor.Ask(ctx, ref, func(r actor.Reply[bool]) any { return push{r} })
		fmt.Println("through:", ok, err)
	}
	try()
	_ = ref.Send(ctx, coin{})
	_ = ref.Send(ctx, coin{})
	try()
	try()
	_ = node.Stop(ctx)
	fmt.Println(strings.Join(changes, ", "), "with", t.coins, "coins")
	// Output:
	// through: false <nil>
	// through: true <nil>
	// through: true <nil>
	// red -> green, green -> red, red -> green, green -> red with 2 coins
}
