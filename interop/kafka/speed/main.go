// Command speed measures a Mainstem server through the Kafka client franz-go, next
// to kfake, which is franz-go's own fake broker and keeps nothing on disk.
//
//	cd interop && go run ./kafka/speed
//	cd interop && go run ./kafka/speed -run 'produce|consume' -rounds 5
//
// Both brokers are processes of their own; client and broker share the machine.
// Rounds take turns, so that a change of the machine's mood meets both, and the
// median of the rounds is printed, with the ratio to kfake where that is the goal.
// RSS is that of the broker at the end of the case. The program ends with status 1
// if a case fails, never because a number is low: that is for a reader to judge.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mainstemdev/mainstem/interop/kafka/target"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "speed:", err)
		os.Exit(1)
	}
}

// options of the whole run.
type options struct {
	rounds int
	scale  float64
	args   []string // of the server
	dir    string   // where its logs are kept
}

func run(ctx context.Context) error {
	var o options
	var pattern, program string
	var fake, verbose bool
	flag.StringVar(&pattern, "run", "", "only cases that match this `regexp`")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds of each throughput case")
	flag.Float64Var(&o.scale, "scale", 1, "multiplies the number of records")
	flag.StringVar(&o.dir, "dir", "", "`directory` for the logs (default: the temporary one)")
	flag.StringVar(&program, "program", "", "a mainstem `program` that is built already")
	flag.BoolVar(&verbose, "v", false, "print every round")
	flag.BoolVar(&fake, "kfake", false, "be kfake (used by this program itself)")
	flag.Parse()
	if fake {
		return serveFake(ctx)
	}
	o.args = flag.Args()
	target.Use(program)
	defer target.Remove()
	match, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "case\tbroker\tresult\tp50\tp99\tp99.9\tRSS MB\tratio\tgoal")
	for _, c := range cases {
		if !match.MatchString(c.name) {
			continue
		}
		results, err := measure(ctx, &o, c, verbose)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		for _, r := range results {
			fmt.Fprintln(table, strings.Join(r, "\t"))
		}
	}
	return table.Flush()
}

// measure runs the rounds of one case and returns the lines of the table.
func measure(ctx context.Context, o *options, c testCase, verbose bool) ([][]string, error) {
	rounds := o.rounds
	if !c.throughput {
		rounds = 1
	}
	lines := c.lines()
	all := make([][]result, len(lines))
	for range rounds {
		for i, l := range lines {
			r, err := once(ctx, o, l)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", l.name, err)
			}
			if verbose {
				fmt.Fprintln(os.Stderr, c.name, l.name, r.text(c.unit))
			}
			all[i] = append(all[i], r)
		}
	}
	var table [][]string
	var medians []float64
	for i, l := range lines {
		slices.SortFunc(all[i], func(a, b result) int { return cmp.Compare(a.rate, b.rate) })
		r := all[i][len(all[i])/2]
		medians = append(medians, r.rate)
		table = append(table, append([]string{c.name, l.name}, r.text(c.unit)...))
	}
	ratio := ""
	if len(medians) > 1 && medians[1] > 0 {
		ratio = fmt.Sprintf("%.2f", medians[0]/medians[1])
	}
	table[0] = append(table[0], ratio, c.goal)
	return table, nil
}

// once measures one line with a fresh broker.
func once(ctx context.Context, o *options, l line) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	b, err := start(ctx, o, l.broker)
	if err != nil {
		return result{}, err
	}
	defer b.stop()
	r, err := l.run(ctx, o, b)
	if err == nil && r.rss == 0 {
		r.rss, err = b.rss()
	}
	return r, err
}
