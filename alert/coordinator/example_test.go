package coordinator_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/coordinator"
	"github.com/mainstemdev/mainstem/alert/coordinator/client"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

func Example() {
	ctx := context.Background()
	log, err := pebblelog.OpenMemory(nil)
	if err != nil {
		panic(err)
	}
	defer log.Close()
	server, err := alert.Open(ctx, log, nil)
	if err != nil {
		panic(err)
	}
	defer server.Close()

	backend, err := coordinator.NewServerBackend(server, func(_ context.Context, c coordinator.Credential) (alert.SessionInfo, error) {
		return alert.SessionInfo{User: c.User}, nil // a program checks the password here
	})
	if err != nil {
		panic(err)
	}
	config, err := coordinator.ParseConfig([]byte("omnibus: {query_timeout: 1m, clusters: {LOCAL: [here], AWAY: [127.0.0.1:1]}}"))
	if err != nil {
		panic(err)
	}
	c, err := coordinator.Open(config, &coordinator.Options{Backends: map[string]coordinator.Backend{"here": backend}})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	web := httptest.NewServer(c.Handler())
	defer web.Close()

	cl, err := client.New(web.URL, &client.Options{User: "root", Password: "secret"})
	if err != nil {
		panic(err)
	}
	defer cl.Close()
	if _, err := cl.RawSQL(ctx, "insert into alerts.status (Identifier, Node) values ('disk', 'web1')", "LOCAL"); err != nil {
		panic(err)
	}
	results, err := cl.RawSQL(ctx, "select Node, Tally from alerts.status")
	if err != nil {
		panic(err)
	}
	for _, r := range results {
		if r.Err != nil {
			fmt.Println(r.Cluster, r.Err.Code)
		}
		for _, row := range r.Rows {
			fmt.Println(r.Cluster, row.Text("Node"), row.Int("Tally"))
		}
	}
	// Output:
	// AWAY ERR_UNAVAILABLE
	// LOCAL web1 1
}
