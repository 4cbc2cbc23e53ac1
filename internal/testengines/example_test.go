package testengines_test

import (
	"fmt"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

func ExampleEach() {
	test := func(t *testing.T) { // in a test file it is called TestSomething
		testengines.Each(t, func(t *testing.T, log mainstem.Log) {
			if _, err := log.Head(t.Context()); err != nil {
				t.Error(err)
			}
		}, testengines.Skip("directory", "this view has no business with files"))
	}
	fmt.Printf("%T\n", test)
	// Output: func(*testing.T)
}
