// Command pingpong lets two actors play: each sends the ball back to the other
// until the rally is over.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/mainstemdev/mainstem/actor"
)

func main() {
	if err := run(context.Background(), 100_000); err != nil {
		fmt.Fprintln(os.Stderr, "pingpong:", err)
		os.Exit(1)
	}
}

// ball is the message: the player that gets it sends it back, with one hit less to go.
type ball struct {
	left int
	back actor.Ref[ball]
}

// player hits balls.
type player struct{ hits int }

// Receive sends the ball back, or ends the player if it was the last.
func (p *player) Receive(c *actor.Context[ball], b ball) error {
	p.hits++
	if b.left == 0 {
		fmt.Println(c.Self().Address().Name, "hit it", p.hits, "times and lets it drop")
		c.Stop(actor.Normal)
		return nil
	}
	return b.back.Send(c, ball{b.left - 1, c.Self()})
}

func run(ctx context.Context, hits int) error {
	node, err := actor.Open("court", nil)
	if err != nil {
		return err
	}
	defer node.Close()
	ping, err := actor.Spawn(node, &player{}, &actor.Options{Name: "ping"})
	if err != nil {
		return err
	}
	pong, err := actor.Spawn(node, &player{}, &actor.Options{Name: "pong"})
	if err != nil {
		return err
	}
	if err := ping.Send(ctx, ball{hits - 1, pong}); err != nil {
		return err
	}
	reason, err := actor.Wait(ctx, pong)
	if err != nil {
		return err
	}
	fmt.Println("pong ended:", reason)
	return nil
}
