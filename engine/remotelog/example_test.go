package remotelog_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/remotelog"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/wire/rpc"
)

func Example() {
	// A server, which is usually another process.
	path, handler := rpc.NewHandler(model.New(nil), nil)
	mux := http.NewServeMux()
	mux.Handle(path, handler)
	server := httptest.NewUnstartedServer(mux)
	rpc.ConfigureServer(server.Config)
	server.Start()
	defer server.Close()
	defer handler.Close()

	log, err := remotelog.Open(server.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer log.Close()

	ctx := context.Background()
	b := mainstem.NewBatch()
	b.ID = "order-42-paid" // safe to send again: the Log does so if the connection is lost
	b.Ensure("orders", mainstem.Policy{})
	b.Put("orders", []byte("42"), []byte("paid"))
	if _, err := log.Commit(ctx, b); err != nil {
		fmt.Println(err)
		return
	}
	for r, err := range log.Feed(ctx, mainstem.Filter{Follow: true}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s %s=%s\n", r.Space, r.Key, r.Value)
		break
	}
	// Output: orders 42=paid
}
