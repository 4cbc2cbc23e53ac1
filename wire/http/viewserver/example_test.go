package viewserver_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/mainstemdev/mainstem/server"
	"github.com/mainstemdev/mainstem/wire/http/viewserver"
)

func Example() {
	ctx := context.Background()
	c := server.DefaultConfig()
	c.Log, c.Listen = server.Memory, "127.0.0.1:0"
	c.Components = append(c.Components, viewserver.New())
	s, err := server.Open(ctx, c)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = s.Stop(ctx) }()
	if err := s.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	answer, err := http.Get(s.URL() + "/v1/kv")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	fmt.Println(answer.Status, answer.Header.Get("Content-Type"))
	http.DefaultClient.CloseIdleConnections()
	// Output: 200 OK application/json
}
