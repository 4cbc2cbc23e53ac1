package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/mainstemdev/mainstem/alert/coordinator/client"
)

func Example() {
	coordinator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `[{"clusterName":"AGG1","rows":[{"Node":"web1","Severity":5}],"affectedRows":1},`+
			`{"clusterName":"AGG2","rows":[],"affectedRows":0,"error":{"error":"ERR_UNAVAILABLE","message":"cannot connect any addr"}}]`)
	}))
	defer coordinator.Close()

	c, err := client.New(coordinator.URL, &client.Options{User: "root", Password: "secret"})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	results, err := c.RawSQL(context.Background(), "select Node, Severity from alerts.status where Severity > 3")
	if err != nil {
		panic(err)
	}
	for _, r := range results {
		if r.Err != nil {
			fmt.Println(r.Cluster, r.Err)
		}
		for _, row := range r.Rows {
			fmt.Println(r.Cluster, row.Text("Node"), row.Int("Severity"))
		}
	}
	// Output:
	// AGG1 web1 5
	// AGG2 ERR_UNAVAILABLE: cannot connect any addr
}
