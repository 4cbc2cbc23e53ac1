package kv_test

import (
	"fmt"
	"testing"

	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/kv"
)

func Example() {
	mine := kv.Factory{Name: "mine", Durability: suite.Memory, Open: nil} // Open returns your store
	benchmark := func(b *testing.B) { kv.Run(b, mine) }                   // in a test file it is called BenchmarkSomething
	fmt.Printf("%T\n", benchmark)
	for _, e := range kv.Entries(mine)[:3] {
		fmt.Println(e.Name())
	}
	// Output:
	// func(*testing.B)
	// kv/set/mine
	// kv/set/8-clients/mine
	// kv/set/32-clients/mine
}
