// Package auditcmd is the commands of mainstem audit, which read the trails of command buses.
//
//	mainstem audit find shop --actor ada --failed
package auditcmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event/command"
)

// commands has a method for each command of the group, and what these share.
type commands struct{ *cli.Main }

// New returns mainstem audit.
func New(program *cli.Main) *cobra.Command {
	m := commands{program}
	c := &cobra.Command{
		Use:   "audit",
		Short: "Audit trails of command buses",
		Long: `The audit trails that command buses leave: which command was dispatched, by whom, when, and
what became of it. The row of a command that succeeded is in the commit of what it led to.`,
		RunE: cli.Group,
	}
	c.AddCommand(m.newFind())
	return c
}

// filters are the flags of find that need to be read.
type filters struct {
	query     command.AuditQuery
	from, to  string
	succeeded bool
	failed    bool
	count     bool
}

func (m commands) newFind() *cobra.Command {
	var f filters
	cmd := &cobra.Command{
		Use:   "find TRAIL",
		Short: "Find rows of a trail",
		Long: `Find the rows of a trail for which all flags hold, oldest first: time, command, aggregate,
actor, milliseconds, and "ok" or the error, separated by tabs.

--from and --to take a time as 2006-01-02T15:04:05Z, a day as 2006-01-02, or a duration
as 15m, which is that long ago. --from is included and --to is not.`,
		Example: `  mainstem audit find shop --from 24h --failed
  mainstem audit find shop --type PlaceOrder --actor ada --desc --limit 10
  mainstem audit find shop --aggregate 42 --count`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			q, err := f.read(time.Now())
			if err != nil {
				return cli.WrongUsage(cmd, err)
			}
			return m.WithLog(cmd, cli.Reading, func(ctx context.Context, log mainstem.Log) error {
				trail, err := command.OpenAudit(log, a[0])
				if err != nil {
					return err
				}
				return m.find(ctx, trail, a[0], q, f.count)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.query.CommandType, "type", "", "only commands of this `type`")
	flags.StringVar(&f.query.Actor, "actor", "", "only commands of this `name`")
	flags.StringVar(&f.query.TenantID, "tenant", "", "only commands of this `tenant`")
	flags.StringVar(&f.query.AggregateID, "aggregate", "", "only commands to the aggregate with this `ID`")
	flags.StringVar(&f.query.CorrelationID, "correlation", "", "only commands with this correlation `ID`")
	flags.StringVar(&f.from, "from", "", "only commands at or after this `time`")
	flags.StringVar(&f.to, "to", "", "only commands before this `time`")
	flags.BoolVar(&f.succeeded, "succeeded", false, "only commands that succeeded")
	flags.BoolVar(&f.failed, "failed", false, "only commands that failed")
	flags.IntVar(&f.query.Limit, "limit", 0, "at most this `number` of rows (default all)")
	flags.IntVar(&f.query.Offset, "offset", 0, "leave out this `number` of rows")
	flags.BoolVar(&f.query.Desc, "desc", false, "newest first")
	flags.BoolVar(&f.count, "count", false, "only how many rows there are")
	return cmd
}

// read returns the query that the flags mean.
func (f *filters) read(now time.Time) (q command.AuditQuery, err error) {
	q = f.query
	if f.succeeded && f.failed {
		return q, fmt.Errorf("--succeeded and --failed exclude each other")
	}
	if f.succeeded || f.failed {
		q.Success = &f.succeeded
	}
	if q.From, err = parseTime("from", f.from, now); err != nil {
		return q, err
	}
	q.To, err = parseTime("to", f.to, now)
	return q, err
}

// parseTime reads a time, a day or how long ago it was; "" is the zero time.
func parseTime(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("--%s is %q: want a time as 2006-01-02T15:04:05Z, a day as 2006-01-02, or a duration as 15m", flag, s)
}

func (m commands) find(ctx context.Context, trail *command.AuditLog, name string, q command.AuditQuery, count bool) error {
	if count {
		n, err := trail.Count(ctx, q)
		if err != nil {
			return err
		}
		if m.Flags.JSON {
			return m.Object(new(cli.Fields).Add("trail", name).Add("rows", n))
		}
		return m.Line(cli.Number(n))
	}
	rows, err := trail.Find(ctx, q)
	if err != nil {
		return err
	}
	for i := range rows {
		if err := m.print(name, &rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// print writes one row.
func (m commands) print(trail string, r *command.AuditRow) error {
	if !m.Flags.JSON {
		result := "ok"
		if !r.Success {
			result = r.Error
		}
		return m.Line(cli.TimeText(r.Time), cli.Printable(r.CommandType), cli.Printable(r.AggregateID), cli.Printable(r.Actor),
			fmt.Sprintf("%.3f", r.DurationMs), cli.Printable(result))
	}
	f := new(cli.Fields).Add("trail", trail).Add("id", r.ID).Time("time", r.Time).Add("command_type", r.CommandType).Add("success", r.Success)
	cli.Opt(f, "error", r.Error)
	cli.Opt(f, "command_id", r.CommandID)
	cli.Opt(f, "aggregate_id", r.AggregateID)
	cli.Opt(f, "version", r.Version)
	cli.Opt(f, "actor", r.Actor)
	cli.Opt(f, "tenant_id", r.TenantID)
	cli.Opt(f, "correlation_id", r.CorrelationID)
	cli.Opt(f, "causation_id", r.CausationID)
	f.Add("duration_ms", r.DurationMs)
	if len(r.Metadata) > 0 {
		f.Add("metadata", r.Metadata)
	}
	return m.Object(f)
}
