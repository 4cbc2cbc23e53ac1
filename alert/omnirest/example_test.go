package omnirest_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/omnirest"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/wire/omnibus"
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
	handler, err := omnibus.New(server, nil)
	if err != nil {
		panic(err)
	}
	defer handler.Close()
	web := httptest.NewServer(handler)
	defer web.Close()

	c, err := omnirest.New(web.URL, &omnirest.Options{User: "root"})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	_, err = c.Insert(ctx, "alerts.status", map[string]any{"Identifier": "disk-web1", "Node": "web1", "Severity": 5})
	if err != nil {
		panic(err)
	}
	res, err := c.SQL(ctx, "select Node, Severity from alerts.status where Severity > 3")
	if err != nil {
		panic(err)
	}
	for _, row := range res.Rows {
		fmt.Println(row.Text("Node"), row.Int("Severity"))
	}
	// Output: web1 5
}
