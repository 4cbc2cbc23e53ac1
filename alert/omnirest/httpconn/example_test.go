package httpconn_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/mainstemdev/mainstem/alert/omnirest/httpconn"
)

func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello ", r.URL.Path) }))
	defer server.Close()

	target, err := httpconn.ParseTarget(server.URL+"/base", nil)
	if err != nil {
		panic(err)
	}
	pool := httpconn.NewPool(target, nil)
	defer pool.Close()
	resp, err := pool.Do(context.Background(), &httpconn.Request{Method: "GET", Path: "/x"})
	if err != nil {
		panic(err)
	}
	defer resp.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(resp.Status, string(body), err)
	// Output: 200 hello /base/x <nil>
}
