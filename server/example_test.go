package server_test

import (
	"context"
	"fmt"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/server"
)

// A server in memory, and a client of it.
func Example() {
	ctx := context.Background()
	c := server.DefaultConfig()
	c.Log, c.Listen = server.Memory, "127.0.0.1:0"
	n, err := server.Open(ctx, c)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer n.Stop(ctx)
	if err := n.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}

	log, err := server.OpenLog(ctx, n.URL(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer log.Close()
	b := mainstem.NewBatch()
	b.Ensure("greetings", mainstem.Policy{History: 1})
	b.Put("greetings", []byte("en"), []byte("hello"))
	receipt, err := log.Commit(ctx, b)
	fmt.Println(receipt.Last, err)
	// Output: 1 <nil>
}
