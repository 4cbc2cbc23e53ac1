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
