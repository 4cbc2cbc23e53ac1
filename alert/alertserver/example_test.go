package alertserver_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mainstemdev/mainstem/alert/alertserver"
	"github.com/mainstemdev/mainstem/alert/coordinator"
	coordinators "github.com/mainstemdev/mainstem/alert/coordinator/client"
	"github.com/mainstemdev/mainstem/alert/omnirest"
	"github.com/mainstemdev/mainstem/server"
)

// A server in memory with alert tables, and a client of OMNIbus.
func Example() {
	ctx := context.Background()
	a := alertserver.New()
	a.Config.Omnibus = "127.0.0.1:0"
	c := server.DefaultConfig()
	c.Log, c.Listen, c.Components = server.Memory, "127.0.0.1:0", a.Components()
	s, err := server.Open(ctx, c)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Stop(ctx)
	if err := s.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}

	client, err := omnirest.New("http://"+a.OmnibusAddr().String(), &omnirest.Options{User: "root"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	r, err := client.SQL(ctx, "insert into alerts.status (Identifier, Node, Severity) values ('disk', 'web1', 5)")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Affected)
	// Output: 1
}

// A file of users for a server with alert tables.
func ExampleUserFile() {
	dir, err := os.MkdirTemp("", "users")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	users := alertserver.NewUserFile(filepath.Join(dir, "users"))
	if err := users.Set(alertserver.User{Name: "ada", Role: "admin"}, "secret"); err != nil {
		fmt.Println(err)
	}
	if err := users.Set(alertserver.User{Name: "ada", Role: "king"}, "secret"); err != nil {
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
	c, err := alertserver.OpenCoordinator(ctx, config, nil)
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
