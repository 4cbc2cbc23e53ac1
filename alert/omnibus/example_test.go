package omnibus_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/omnibus"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

func Example() {
	answers, err := run()
	if err != nil {
		fmt.Println(err)
	}
	for _, a := range answers {
		fmt.Println(a)
	}
	// Output:
	// {"entry":{"affectedRows":1,"keyField":"1%3ANCOMS","uri":"http://localhost/objectserver/restapi/alerts/status/kf/1%3ANCOMS"}}
	// {"rowset":{"osname":"NCOMS","coldesc":[{"name":"Node","type":"string","size":64},{"name":"Tally","type":"integer","size":4}],"rows":[
	// {"Node":"web1","Tally":1}],"affectedRows":1}}
}

// run asks for two things of a server with a user.
func run() (answers []string, err error) {
	log, err := pebblelog.OpenMemory(nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	server, err := alert.Open(context.Background(), log, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Close() }()
	users := omnibus.NewUsers()
	if err := users.Set(omnibus.Identity{User: "root", Role: omnibus.Admin}, "secret"); err != nil {
		return nil, err
	}
	handler, err := omnibus.New(server, &omnibus.Options{Users: users})
	if err != nil {
		return nil, err
	}
	defer func() { _ = handler.Close() }()

	ask := func(path, body string) {
		r := httptest.NewRequest(http.MethodPost, "http://localhost"+omnibus.Prefix+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.SetBasicAuth("root", "secret")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		p, _ := io.ReadAll(w.Body)
		answers = append(answers, strings.TrimSpace(string(p)))
	}
	ask("alerts/status", `{"rowset": {"rows": [{"Identifier": "web1:disk", "Node": "web1", "Severity": 5}]}}`)
	ask("sql/factory", `{"sqlcmd": "select Node, Tally from alerts.status where Severity = 5"}`)
	return answers, nil
}
