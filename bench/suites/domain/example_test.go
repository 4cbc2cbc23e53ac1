package domain_test

import (
	"fmt"
	"testing"

	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/domain"
)

func Example() {
	mine := domain.Factory{Name: "mine", Durability: suite.Memory, Open: nil} // Open returns your domain
	benchmark := func(b *testing.B) { domain.Run(b, mine) }                   // in a test file it is called BenchmarkSomething
	fmt.Printf("%T\n", benchmark)
	for _, e := range domain.Entries(mine)[:2] {
		fmt.Println(e.Name())
	}
	// Output:
	// func(*testing.B)
	// domain/aggregate/save/1/mine
	// domain/aggregate/save/5/mine
}
