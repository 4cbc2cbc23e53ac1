package clusterserver_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mainstemdev/mainstem/actor/cluster/clusterserver"
	"github.com/mainstemdev/mainstem/server"
)

// A server in memory that is a node of a cluster of actors, and its description of the cluster.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "cluster")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	secret := filepath.Join(dir, "secret")
	err = os.WriteFile(secret, []byte("what only the nodes know"), 0o600)

	a := clusterserver.New()
	a.Config.Node, a.Config.SecretFile = "server@127.0.0.1:0", secret
	c := server.DefaultConfig()
	c.Log, c.Listen, c.Components = server.Memory, "127.0.0.1:0", []server.Component{a}
	s, openErr := server.Open(ctx, c)
	if err := errors.Join(err, openErr); err != nil {
		fmt.Println(err)
		return
	}
	defer s.Stop(ctx)
	if err := s.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}

	var all clusterserver.Nodes
	err = clusterserver.Ask(ctx, s.URL(), clusterserver.NodesPath, nil, new(server.LogOptions), &all)
	for _, n := range all.Nodes {
		fmt.Println(n.Name, n.State)
	}
	fmt.Println(err)
	// Output:
	// server up
	// <nil>
}
