package link_test

import (
	"context"
	"fmt"
	"log"

	"github.com/mainstemdev/mainstem/actor/cluster/devca"
	"github.com/mainstemdev/mainstem/actor/cluster/link"
)

// reporter is a handler that calls a function with a line for each event.
type reporter func(format string, args ...any)

func (f reporter) Message(from *link.Peer, lane uint32, body []byte) {
	f("%s says %q on lane %d\n", from.Name(), body, lane)
}
func (f reporter) Up(peer *link.Peer)                  { f("%s is up\n", peer.Name()) }
func (f reporter) Down(peer *link.Peer, reason error)  { f("%s is down: %v\n", peer.Name(), reason) }
func (reporter) Undelivered(*link.Peer, []byte, error) {}

// quiet is a handler that does nothing.
type quiet struct{}

func (quiet) Message(*link.Peer, uint32, []byte)    {}
func (quiet) Up(*link.Peer)                         {}
func (quiet) Down(*link.Peer, error)                {}
func (quiet) Undelivered(*link.Peer, []byte, error) {}

// Two nodes, here in one process. Closing the first delivers what it has taken.
func Example() {
	ca, err := devca.New()
	if err != nil {
		log.Fatal(err)
	}
	node := func(name string) *link.Options {
		cert, err := ca.Issue(name)
		if err != nil {
			log.Fatal(err)
		}
		return &link.Options{Name: name, Listen: "127.0.0.1:0", TLS: &link.TLS{Certificate: cert, Roots: ca.Roots()}}
	}
	heard := make(chan string, 10)
	stock, err := link.Open(node("stock"), reporter(func(format string, args ...any) { heard <- fmt.Sprintf(format, args...) }))
	if err != nil {
		log.Fatal(err)
	}
	o := node("shop")
	o.Resolve = func(context.Context, string) (string, error) { return stock.Addr().String(), nil }
	shop, err := link.Open(o, quiet{})
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	peer, err := shop.Peer(ctx, "stock")
	if err != nil {
		log.Fatal(err)
	}
	for _, item := range []string{"apples", "pears"} {
		err := peer.Send(ctx, 7, link.ExactlyOnce, func(dst []byte) ([]byte, error) { return append(dst, item...), nil })
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := shop.Close(ctx); err != nil {
		log.Fatal(err)
	}
	for range 4 {
		fmt.Print(<-heard)
	}
	if err := stock.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// shop is up
	// shop says "apples" on lane 7
	// shop says "pears" on lane 7
	// shop is down: the peer left
}
