package rows_test

import (
	"fmt"
	"strings"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/rows"
)

func Example() {
	in := strings.NewReader("id,author\n8e55,ann\n5c21\n109b,bob\n")
	reader, err := rows.NewReader(in, rows.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	stream, err := rows.ParseTemplate("--stream", "author-{{.author}}")
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		row, err := reader.Next()
		if err != nil {
			fmt.Println(err)
			continue
		}
		name, err := stream.Execute(row)
		fmt.Printf("line %d: %s %s %v\n", row.Line, name, row.Text, err)
	}
	// Output:
	// line 2: author-ann {"id":"8e55","author":"ann"} <nil>
	// line 3: the row has 1 fields, the header has 2
	// line 4: author-bob {"id":"109b","author":"bob"} <nil>
}
