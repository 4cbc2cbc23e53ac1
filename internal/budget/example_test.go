package budget_test

import (
	"context"
	"fmt"

	"github.com/mainstemdev/mainstem/internal/budget"
)

func Example() {
	process := budget.New("process", 1<<20)
	answers := process.Child("answers", 256<<10)

	h := answers.Hold()
	defer h.Release()
	if err := h.Acquire(context.Background(), 100<<10); err != nil {
		fmt.Println(err)
	}
	more := answers.Hold()
	fmt.Println(more.Try(200 << 10))
	h.Shrink(50 << 10)
	fmt.Println(more.Try(200 << 10))
	for _, s := range process.Stats() {
		fmt.Println(s.Name, s.Used, "of", s.Limit)
	}
	// Output:
	// false
	// true
	// process 256000 of 1048576
	// answers 256000 of 262144
}
