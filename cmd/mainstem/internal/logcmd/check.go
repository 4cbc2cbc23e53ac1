package logcmd

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

func (m commands) newCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Verify everything that a log has stored",
		Long: `Walk the whole log and verify that everything in it is as it was written. Problems
are shown one a line; if there are any, the exit status is 1. A clock that is not
believed, or behind the newest record, is shown too, but is no problem of the log: see
mainstem clock. A directory that cannot be written is only read.`,
		Example: `  mainstem check --log ./mainstem-data
  mainstem check --log http://127.0.0.1:8080 --json`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return m.WithLog(cmd, cli.Reading, func(ctx context.Context, log mainstem.Log) error {
				c, ok := log.(mainstem.Checker)
				if !ok {
					return mainstem.Errorf(mainstem.KindUnsupported, "check", "this log cannot check itself")
				}
				return m.runCheck(ctx, log, c)
			})
		},
	}
}

// runCheck checks log, which is c, and notes what is wrong with its clock: with --json before the
// verdict, which is the last line.
func (m commands) runCheck(ctx context.Context, log mainstem.Log, c mainstem.Checker) error {
	begin := time.Now()
	meter := m.StartMeter("checking", 0)
	problems := 0
	var broken error // of standard output
	stats, err := c.Check(ctx, func(p mainstem.Problem) {
		problems++
		meter.Above(func() {
			if perr := m.printProblem(p); broken == nil {
				broken = perr
			}
		})
	})
	meter.Finish()
	if err == nil {
		err = broken
	}
	if err != nil {
		return err
	}
	took := time.Since(begin)
	if m.Flags.JSON {
		err = errors.Join(m.noteClock(ctx, log), m.printCheck(stats, problems, took))
	} else if err = m.printCheck(stats, problems, took); err == nil {
		err = m.noteClock(ctx, log)
	}
	if err == nil && problems > 0 {
		err = cli.ErrFailed
	}
	return err
}

func (m commands) printProblem(p mainstem.Problem) error {
	if m.Flags.JSON {
		return m.Object(new(cli.Fields).Add("where", p.Where).Add("problem", p.What))
	}
	return m.Line("problem", cli.Printable(p.Where), cli.Printable(p.What))
}

func (m commands) printCheck(s mainstem.CheckStats, problems int, took time.Duration) error {
	if m.Flags.JSON {
		return m.Object(new(cli.Fields).Add("ok", problems == 0).Add("problems", problems).Add("spaces", s.Spaces).
			Add("keys", s.Keys).Add("records", s.Records).Add("bytes", s.Bytes).Add("seconds", took.Seconds()))
	}
	verdict := "ok"
	if problems > 0 {
		verdict = cli.Number(problems) + " problems"
	}
	return m.Line(verdict + ": " + cli.Number(s.Spaces) + " spaces, " + cli.Number(s.Keys) + " keys, " +
		cli.Number(s.Records) + " records, " + cli.Number(s.Bytes) + " bytes in " + took.Round(time.Millisecond).String())
}
