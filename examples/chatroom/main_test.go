package main

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	main()
	// Output:
	// room occupied: true
	// ann heard ann: is there tea? | bob: green or black? | ann: black, please | cid: for me too
	// bob heard ann: is there tea? | bob: green or black? | ann: black, please | cid: for me too
	// cid heard bob: green or black? | ann: black, please | cid: for me too
	// room occupied: false
}
