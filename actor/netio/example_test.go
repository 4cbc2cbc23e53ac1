package netio_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/netio"
)

// A server that answers each line in capitals.
func Example() {
	node, err := actor.Open("server", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()

	shout := actor.Func[netio.Event](func(c *actor.Context[netio.Event], e netio.Event) error {
		switch e.Kind {
		case netio.Data:
			return e.From.Send(c, netio.Command{Bytes: []byte(strings.ToUpper(string(e.Bytes)) + "\n")})
		case netio.Closed:
			c.Stop(actor.Normal)
		}
		return nil
	})
	listener, err := actor.Spawn(node, &netio.Listener{
		Address: "127.0.0.1:0",
		Framing: netio.Lines(),
		// Each connection gets an actor of its own for its events.
		Accept: func(c *actor.Context[netio.Address], _ net.Addr) (actor.Ref[netio.Event], error) {
			return actor.Spawn(c, shout, nil)
		},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	address, err := actor.Ask(context.Background(), listener, func(r actor.Reply[net.Addr]) netio.Address {
		return netio.Address{Reply: r}
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	conn, err := net.Dial("tcp", address.String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	fmt.Fprintln(conn, "is anybody there?")
	answer, err := bufio.NewReader(conn).ReadString('\n')
	fmt.Print(answer)
	fmt.Println(err)
	// Output:
	// IS ANYBODY THERE?
	// <nil>
}
