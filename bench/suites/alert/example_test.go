package alert_test

import (
	"fmt"
	"testing"

	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/alert"
)

func Example() {
	mine := alert.Factory{Name: "mine", Durability: suite.Memory, Open: nil} // Open returns your server
	benchmark := func(b *testing.B) { alert.Run(b, mine) }                   // in a test file it is called BenchmarkSomething
	fmt.Printf("%T\n", benchmark)
	for _, e := range alert.Entries(mine)[:3] {
		fmt.Println(e.Name())
	}
	// Output:
	// func(*testing.B)
	// alert/insert/single/mine
	// alert/insert-again/single/mine
	// alert/select-10x100/single/mine
}
