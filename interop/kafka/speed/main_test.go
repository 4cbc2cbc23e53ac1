package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/interop/kafka/target"
)

func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "-kfake") { // started by startFake
		if err := serveFake(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	target.Remove()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// TestEveryCaseMeasures runs each case with a thousandth of its work: the numbers
// mean nothing, but there are some.
func TestEveryCaseMeasures(t *testing.T) {
	o := &options{rounds: 1, scale: 0.001, dir: t.TempDir()}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			table, err := measure(t.Context(), o, c, false)
			if err != nil {
				t.Fatal(err)
			}
			if len(table) != len(c.lines()) {
				t.Errorf("%d lines, want %d", len(table), len(c.lines()))
			}
			for _, line := range table {
				if line[1] == "" || line[2] == "" || line[6] == "0" {
					t.Errorf("a line without a broker, a result or memory: %q", line)
				}
			}
		})
	}
}
