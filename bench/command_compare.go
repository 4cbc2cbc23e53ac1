package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/bench/internal/compare"
	"github.com/mainstemdev/mainstem/bench/internal/result"
)

func (p *program) baseline() *cobra.Command {
	var s settings
	var out, from string
	c := &cobra.Command{
		Use:   "baseline [suite[/case]]...",
		Short: "Measure, or take, what compare compares with",
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if from != "" {
				f, err := result.ReadFile(from)
				if err != nil {
					return err
				}
				return result.WriteFile(out, f)
			}
			f, err := s.measure(c.Context(), p, args)
			if err != nil {
				return err
			}
			if err := ending(f); err != nil {
				return fmt.Errorf("no baseline was written: %w", err)
			}
			return result.WriteFile(out, f)
		},
	}
	s.add(c)
	c.Flags().StringVarP(&out, "out", "o", baselineFile, "the file to write")
	c.Flags().StringVar(&from, "from", "", "take the results of this file instead of measuring")
	return c
}

func (p *program) compare() *cobra.Command {
	var s settings
	var thresholds, new string
	var all bool
	c := &cobra.Command{
		Use:   "compare [results.json | commit] [suite[/case]]...",
		Short: "Say what changed since a run or a commit; status 3 if something is slower",
		Long: "Compare with a file of results (" + baselineFile + " without a name), of this machine or another, or with a commit.\n\n" +
			"With a file, what is compared is --new, or a run now. With a commit, its bench is built beside this one and the\n" +
			"two take turns; what looks slower is measured again, and counts only if it is slower again.",
		Example: "  bench compare bench-baseline.json --new bench-results.json\n  bench compare HEAD~1 kv --quick --contenders 'mainstem-*'",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			t := compare.DefaultThresholds()
			if thresholds != "" {
				var err error
				if t, err = compare.ReadThresholds(thresholds); err != nil {
					return usage(err)
				}
			}
			old := argument(args, baselineFile)
			var selection []string
			if len(args) > 1 {
				selection = args[1:]
			}
			r, err := p.compared(c.Context(), &s, old, new, selection, t)
			if err != nil {
				return err
			}
			return p.show(r, all)
		},
	}
	s.add(c)
	c.Flags().StringVar(&thresholds, "thresholds", "", "a YAML file that says which changes count")
	c.Flags().StringVar(&new, "new", "", "the file of results to compare, instead of measuring now")
	c.Flags().BoolVar(&all, "all", false, "show what did not change too")
	return c
}

// compared makes the comparison that the arguments ask for.
func (p *program) compared(ctx context.Context, s *settings, old, new string, selection []string, t compare.Thresholds) (compare.Report, error) {
	if _, err := os.Stat(old); err != nil {
		if new != "" || !isCommit(ctx, old) {
			return compare.Report{}, usage(fmt.Errorf("%s is neither a file of results nor a commit: %w", old, err))
		}
		return p.compareCommit(ctx, s, old, selection, t)
	}
	before, err := result.ReadFile(old)
	if err != nil {
		return compare.Report{}, err
	}
	if new != "" {
		after, err := result.ReadFile(new)
		if err != nil {
			return compare.Report{}, err
		}
		return compare.Files(before, after, t), nil
	}
	if len(selection) == 0 {
		selection = before.Settings.Selection
	}
	after, err := s.measure(ctx, p, selection)
	if err != nil {
		return compare.Report{}, err
	}
	if after.Interrupted {
		return compare.Report{}, ending(after)
	}
	return compare.Files(before, after, t), nil
}

// show writes a comparison and returns the error that fails a build.
func (p *program) show(r compare.Report, all bool) error {
	if r.Machines != "" {
		fmt.Fprintf(p.stdout, "CAREFUL: the two were measured differently: %s\n\n", r.Machines)
	}
	t := r.Table(all)
	if len(t.Rows) == 0 {
		fmt.Fprintf(p.stdout, "no change in %d numbers\n", len(r.Changes))
	} else if err := t.Text(p.stdout); err != nil {
		return err
	}
	if len(r.Changes) == 0 {
		return errors.New("there was nothing to compare: no row was measured in both")
	}
	if n := len(r.Counts()); n > 0 {
		return &statusError{exitSlower, fmt.Errorf("%d numbers are worse", n)}
	}
	return nil
}
