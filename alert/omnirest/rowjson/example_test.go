package rowjson_test

import (
	"fmt"
	"strings"

	"github.com/mainstemdev/mainstem/alert/omnirest/rowjson"
)

func Example() {
	body := strings.NewReader(`[{"Node": "web1", "Severity": 5}, {"Node": "web2", "Severity": 3}]`)
	r := rowjson.NewReader(body, nil)
	err := r.Array(func() error {
		raw, err := r.Value(nil)
		row := rowjson.NewRow(raw)
		fmt.Println(row.Text("Node"), row.Int("Severity"))
		return err
	})
	fmt.Println(err)
	// Output:
	// web1 5
	// web2 3
	// <nil>
}

func ExampleEvents() {
	stream := strings.NewReader(": a comment\n\nid: 7\nevent: change\ndata: {\"Node\":\"web1\"}\n\n")
	events := rowjson.NewEvents(stream, 0)
	for {
		e, err := events.Next()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.ID, e.Name, string(e.Data))
	}
	// Output:
	// 7 change {"Node":"web1"}
	// EOF
}
