package testpostgres_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

func ExampleDB() {
	test := func(t *testing.T) { // in a test file it is called TestSomething
		c, err := pgx.Connect(t.Context(), testpostgres.DB(t))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
	}
	fmt.Printf("%T\n", test)
	// Output: func(*testing.T)
}
