package viewhttp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/topic"
	viewhttp "github.com/mainstemdev/mainstem/wire/http"
)

func Example() {
	log := model.New(nil)
	defer log.Close()
	topics, err := topic.Open(log, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer topics.Close()
	h := viewhttp.New(log, topics, nil)
	defer h.Close()
	s := httptest.NewServer(h)
	defer s.Close()

	commit := `{"do":[{"kv.put":{"table":"app/users","key":"42","json":{"name":"Ada"}}},{"event.append":{"store":"app","stream":"user-42","events":[{"type":"Joined"}]}}]}`
	made, err := http.Post(s.URL+"/v1/commit", "application/json", strings.NewReader(commit))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer made.Body.Close()
	user, err := http.Get(s.URL + "/v1/kv/app/users/42")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer user.Body.Close()
	value, err := io.ReadAll(user.Body)
	fmt.Println(made.Status, string(value), user.Header.Get("ETag"), err)
	http.DefaultClient.CloseIdleConnections()
	// Output: 201 Created {"name":"Ada"} "1" <nil>
}
