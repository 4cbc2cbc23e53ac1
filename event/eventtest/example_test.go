package eventtest_test

import (
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem/event/aggregate"
	"github.com/mainstemdev/mainstem/event/eventtest"
)

// In a test, t is its *testing.T.
func Example() {
	t := &recorder{}
	cart := aggregate.Decider[int, string, string]{
		Initial: func() int { return 0 },
		Decide: func(items int, command string) ([]string, error) {
			if command == "check out" && items == 0 {
				return nil, errors.New("the cart is empty")
			}
			return []string{command + " happened"}, nil
		},
		Evolve: func(items int, _ string) int { return items + 1 },
	}

	eventtest.GivenDecider(t, cart).When("check out").ThenErrorContains("empty")
	eventtest.GivenDecider(t, cart, "book added").When("check out").Then("check out happened")
	fmt.Println(len(t.failed), "failures")
	// Output: 0 failures
}
