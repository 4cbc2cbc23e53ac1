package event_test

import (
	"fmt"
	"testing"

	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/event"
)

func Example() {
	mine := event.Factory{Name: "mine", Durability: suite.Memory, Open: nil} // Open returns your store
	benchmark := func(b *testing.B) { event.Run(b, mine) }                   // in a test file it is called BenchmarkSomething
	fmt.Printf("%T\n", benchmark)
	for _, e := range event.Entries(mine)[:3] {
		fmt.Println(e.Name())
	}
	// Output:
	// func(*testing.B)
	// event/append/single/mine
	// event/append/batch-5/mine
	// event/append/batch-10/mine
}
