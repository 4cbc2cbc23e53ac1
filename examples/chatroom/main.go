// Command chatroom is a chat over an event: who says something publishes it, who
// is in the room is subscribed, and who comes late reads the last lines first.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/mainstemdev/mainstem/actor"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "chatroom:", err)
		os.Exit(1)
	}
}

// line is what is said in a room.
type line struct{ from, text string }

// guest is an actor in a room. Its messages are the lines that it hears, and what
// its user wants of it.
type guest struct {
	name  string
	room  *actor.Event[line]
	heard []string
}

// message is what a guest takes: a line, say, or read.
type message any

// say lets the guest say something.
type say struct {
	text string
	done actor.Reply[int] // how many heard it
}

// read asks for what the guest has heard.
type read struct{ reply actor.Reply[string] }

// Start enters the room.
func (g *guest) Start(c *actor.Context[message]) error {
	return g.room.Subscribe(actor.Adapt(c.Self(), func(l line) message { return l }))
}

// Receive hears, says or shows.
func (g *guest) Receive(c *actor.Context[message], m message) error {
	switch m := m.(type) {
	case line:
		g.heard = append(g.heard, m.from+": "+m.text)
	case say:
		n, err := g.room.Publish(c, line{g.name, m.text})
		if err != nil {
			return err
		}
		return m.done.Send(n)
	case read:
		return m.reply.Send(strings.Join(g.heard, " | "))
	}
	return nil
}

func run(ctx context.Context) error {
	node, err := actor.Open("house", nil)
	if err != nil {
		return err
	}
	defer node.Close()
	occupied := func(active bool) { fmt.Println("room occupied:", active) }
	room, err := actor.NewEvent[line](node, "kitchen", &actor.EventOptions{Replay: 2, Active: occupied})
	if err != nil {
		return err
	}
	guests := make(map[string]actor.Ref[message])
	enter := func(name string) (err error) {
		guests[name], err = actor.Spawn(node, &guest{name: name, room: room}, &actor.Options{Name: name})
		return err
	}
	talk := func(name, text string) error {
		_, err := actor.Ask(ctx, guests[name], func(r actor.Reply[int]) message { return say{text, r} })
		return err
	}
	err = errors.Join(
		enter("ann"), enter("bob"),
		talk("ann", "is there tea?"), talk("bob", "green or black?"), talk("ann", "black, please"),
		enter("cid"),
		talk("cid", "for me too"),
	)
	if err != nil {
		return err
	}
	for _, name := range []string{"ann", "bob", "cid"} {
		heard, err := actor.Ask(ctx, guests[name], func(r actor.Reply[string]) message { return read{r} })
		if err != nil {
			return err
		}
		fmt.Println(name, "heard", heard)
	}
	for _, g := range guests {
		room.Unsubscribe(g)
	}
	return nil
}
