package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
)

func (m *Main) check() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Verify everything that a log has stored",
		Long: `Walk the whole log and verify that everything in it is as it was written. Problems
are shown one a line; if there are any, the exit status is 1. A clock that is not
believed, or behind the newest record, is shown too, but is no problem of the log: see
mainstem clock. A directory that cannot be written is only read.`,
		Example: `  mainstem check --log ./mainstem-data
  mainstem check --log http://127.0.0.1:8080 --json`,
		Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return m.withLog(cmd, reading, func(ctx context.Context, log mainstem.Log) error {
				c, ok := log.(mainstem.Checker)
				if !ok {
					return unsupported("check", "this log cannot check itself")
				}
				if err := m.runCheck(ctx, c); err != nil {
					return err
				}
				return m.noteClock(ctx, log)
			})
		},
	}
}

func (m *Main) runCheck(ctx context.Context, c mainstem.Checker) error {
	begin := time.Now()
	meter := m.startMeter("checking", 0)
	problems := 0
	var broken error // of standard output
	stats, err := c.Check(ctx, func(p mainstem.Problem) {
		problems++
		meter.above(func() {
			if perr := m.printProblem(p); broken == nil {
				broken = perr
			}
		})
	})
	meter.finish()
	if err == nil {
		err = broken
	}
	if err != nil {
		return err
	}
	if err := m.printCheck(stats, problems, time.Since(begin)); err != nil {
		return err
	}
	if problems > 0 {
		return failed{exitFailed}
	}
	return nil
}

func (m *Main) printProblem(p mainstem.Problem) error {
	if m.flags.json {
		return m.object(new(fields).add("where", p.Where).add("problem", p.What))
	}
	return m.line("problem", printable([]byte(p.Where)), printable([]byte(p.What)))
}

func (m *Main) printCheck(s mainstem.CheckStats, problems int, took time.Duration) error {
	if m.flags.json {
		return m.object(new(fields).add("ok", problems == 0).add("problems", problems).add("spaces", s.Spaces).
			add("keys", s.Keys).add("records", s.Records).add("bytes", s.Bytes).add("seconds", took.Seconds()))
	}
	verdict := "ok"
	if problems > 0 {
		verdict = number(problems) + " problems"
	}
	return m.line(verdict + ": " + number(s.Spaces) + " spaces, " + number(s.Keys) + " keys, " +
		number(s.Records) + " records, " + number(s.Bytes) + " bytes in " + took.Round(time.Millisecond).String())
}
