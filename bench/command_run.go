package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/bench/internal/report"
	"github.com/mainstemdev/mainstem/bench/internal/result"
)

// The files that commands write and read unless told otherwise.
const (
	resultFile   = "bench-results.json"
	baselineFile = "bench-baseline.json"
)

func (p *program) runCases() *cobra.Command {
	var s settings
	var out string
	var asJSON, asGo bool
	c := &cobra.Command{
		Use:   "run [suite[/case]]...",
		Short: "Measure the contenders and keep the results",
		Long: "Measure the contenders of the cases named, all without a name, in turns.\n\n" +
			"Results go to the file of --out, for report, plot and compare; tables to standard output.",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			s.keep = func(f *result.File) error { return result.WriteFile(out, f) }
			f, err := s.measure(c.Context(), p, args)
			if err != nil {
				return err
			}
			if err := result.WriteFile(out, f); err != nil {
				return err
			}
			switch {
			case asJSON:
				err = result.Write(p.stdout, f)
			case asGo:
				err = report.GoBench(p.stdout, f)
			default:
				err = p.tables(f)
				fmt.Fprintf(p.stderr, "results are in %s\n", out)
			}
			if err != nil {
				return err
			}
			return ending(f)
		},
	}
	s.add(c)
	c.Flags().StringVarP(&out, "out", "o", resultFile, "the file of results to write")
	c.Flags().BoolVar(&asJSON, "json", false, "write the results to standard output as JSON, without tables")
	c.Flags().BoolVar(&asGo, "gobench", false, "write them in the format of Go benchmarks, for benchstat")
	return c
}

// tables writes what a person wants to see of f.
func (p *program) tables(f *result.File) error {
	if err := report.Cases(p.stdout, f.Cases()); err != nil {
		return err
	}
	return report.Verdicts(p.stdout, f)
}
