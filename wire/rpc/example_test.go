package rpc_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/wire/rpc"
)

// Any HTTP client can make calls with one answer.
func ExampleNewHandler() {
	path, handler := rpc.NewHandler(model.New(nil), nil)
	mux := http.NewServeMux()
	mux.Handle(path, handler)
	server := httptest.NewUnstartedServer(mux)
	rpc.ConfigureServer(server.Config)
	server.Start()
	defer server.Close()
	defer handler.Close()

	call := func(method, request string) {
		response, err := http.Post(server.URL+path+method, "application/json", strings.NewReader(request))
		if err != nil {
			fmt.Println(err)
			return
		}
		defer response.Body.Close()
		answer, _ := io.ReadAll(response.Body)
		fmt.Println(response.StatusCode, strings.Contains(string(answer), `"value":"QWRh"`))
	}
	call("Commit", `{"ensures":[{"space":"users"}],"writes":[{"space":"users","key":"NDI=","value":"QWRh"}]}`)
	call("Get", `{"space":"users","key":"NDI="}`)
	call("Get", `{"space":"users","key":"NDM="}`)
	// Output:
	// 200 false
	// 200 true
	// 404 false
}
