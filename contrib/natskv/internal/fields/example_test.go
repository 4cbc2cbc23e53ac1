package fields_test

import (
	"fmt"

	"github.com/mainstemdev/mainstem/contrib/natskv/internal/fields"
)

func Example() {
	options := struct {
		Database string
		Limit    uint
	}{"app", 10}
	f := fields.Of(&options)
	f.Set("Database", "other")
	fmt.Println(f.String("Database"), f.Count("Limit"), f.Count("Offset"))
	// Output: other 10 0
}
