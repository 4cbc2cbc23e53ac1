package suite_test

import (
	"context"
	"fmt"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// An entry opens its contender in Start and hands back what is timed and what is not.
func Example() {
	entry := suite.Entry{
		Suite: "example", Case: "set", Contender: "map", Durability: suite.Memory, About: "set one key",
		Start: func(context.Context, *suite.Env) (*suite.Round, error) {
			data := map[int]int{}
			want := 0
			return &suite.Round{
				Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
					want = n
					return suite.Loop(ctx, n, rec, func(_ context.Context, i int) error {
						data[i] = i
						return nil
					})
				},
				Check: func(context.Context) error {
					if len(data) < want {
						return fmt.Errorf("%d keys are there, not %d", len(data), want)
					}
					return nil
				},
			}, nil
		},
	}

	ctx := context.Background()
	round, err := entry.Start(ctx, &suite.Env{})
	if err != nil {
		panic(err)
	}
	rec := suite.NewRecorder(1)
	fmt.Println(round.Run(ctx, 1000, rec), round.Check(ctx), rec.Histogram().TotalCount())
	// Output: <nil> <nil> 1000
}
