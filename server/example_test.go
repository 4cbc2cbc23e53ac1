package server_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/coordinator"
	coordinators "github.com/mainstemdev/mainstem/alert/coordinator/client"
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

// A file of users for a server with alert tables.
func ExampleAlertUsers() {
	dir, err := os.MkdirTemp("", "users")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	users := server.NewAlertUsers(filepath.Join(dir, "users"))
	if err := users.Set(server.AlertUser{Name: "ada", Role: "admin"}, "secret"); err != nil {
		fmt.Println(err)
	}
	if err := users.Set(server.AlertUser{Name: "ada", Role: "king"}, "secret"); err != nil {
		fmt.Println(err)
	}
	all, err := users.All()
	fmt.Println(all, err)
	// Output:
	// omnibus: invalid: the role "king": want reader, writer or admin
	// [{ada admin false false}] <nil>
}

// A coordinator of one cluster whose only server is not there.
func ExampleOpenCoordinator() {
	ctx := context.Background()
	config, err := coordinator.ParseConfig([]byte(`
http_server: {listen: "127.0.0.1:0"}
omnibus: {clusters: {AGG1: ["127.0.0.1:1"]}}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := server.OpenCoordinator(ctx, config, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Stop(ctx)

	cl, err := coordinators.New(c.URL(), &coordinators.Options{User: "root", Password: "secret"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cl.Close()
	results, err := cl.RawSQL(ctx, "select Node from alerts.status")
	for _, r := range results {
		fmt.Println(r.Cluster, r.Err.Code)
	}
	fmt.Println(err)
	// Output:
	// AGG1 ERR_UNAVAILABLE
	// <nil>
}
