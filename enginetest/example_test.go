package enginetest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest"
	"github.com/mainstemdev/mainstem/enginetest/model"
)

// The conformance test of an engine, here that of the model, is a constructor,
// its features and one call. In an engine's package it is called TestConformance.
func Example() {
	conformance := func(t *testing.T) {
		clock := enginetest.NewClock()
		f := enginetest.All()
		f.Clock = clock
		enginetest.Run(t, f, func(t *testing.T) mainstem.Log {
			return model.New(&model.Options{Now: clock.Now})
		})
	}
	_ = conformance // go test calls it
}

func ExampleClock() {
	clock := enginetest.NewClock()
	before := clock.Now()
	clock.Advance(24 * time.Hour)
	fmt.Println(clock.Now().Sub(before))
	// Output: 24h0m0s
}

func ExampleInDirectory() {
	open, reopen := enginetest.InDirectory(func(t *testing.T, dir string) mainstem.Log {
		t.Logf("an engine would open %s", dir)
		return model.New(nil)
	})
	f := enginetest.All()
	f.Reopen = reopen
	_, _ = open, f // for enginetest.Run
}

func ExampleLaw_String() {
	fmt.Println(enginetest.Ordered)
	// Output: law 2 (ordered, without holes)
}
