package omnirest_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/omnibus"
	"github.com/mainstemdev/mainstem/alert/omnirest"
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

// The rows that changed in the last hour; without NoFollow the loop goes on with every
// change that comes.
func ExampleClient_Changes() {
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
	if _, err := server.Exec(ctx, "insert into alerts.status (Identifier, Severity) values ('disk-web1', 5)"); err != nil {
		panic(err)
	}

	c, err := omnirest.New(web.URL, nil)
	if err != nil {
		panic(err)
	}
	defer c.Close()
	o := &omnirest.ChangeOptions{Columns: []string{"Severity"}, Since: time.Now().Add(-time.Hour), NoFollow: true}
	for change, err := range c.Changes(ctx, "alerts.status", o) {
		if err != nil {
			panic(err)
		}
		fmt.Println(change.Row.Text("Identifier"), change.Row.Int("Severity"), change.Deleted)
	}
	// Output: disk-web1 5 false
}
