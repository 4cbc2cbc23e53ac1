package format_test

import (
	"fmt"

	"github.com/mainstemdev/mainstem/internal/format"
)

// A body carries everything of a record but its key.
func Example() {
	b := format.Body{Version: 3, Position: 70, Time: 1, Count: 1, Value: []byte("hello")}
	p := format.AppendBody(nil, &b, nil)
	back, err := format.DecodeBody(p)
	fmt.Println(len(p), back.Version, back.Position, string(back.Value), err)
	// Output: 16 3 70 hello <nil>
}
