package alertcmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

func (m commands) newAck() *cobra.Command {
	var at alertFlags
	var filter string
	var undo bool
	var owner int
	cmd := &cobra.Command{
		Use:   "ack [SERIAL...]",
		Short: "Acknowledge alerts",
		Long: `Acknowledge alerts: those with the serials given, or those that --where describes, a
condition of SQL on alerts.status. Alerts that are acknowledged already stay as they are,
but for the owner that --owner names. It shows how many have changed; if there is no such
alert at all, that is not found. A Mainstem server notes each change in alerts.journal.` + alertsHelp + coordinatorHelp,
		Example: `  mainstem alerts ack 12 13
  mainstem alerts ack --where "Node = 'web1' and Severity < 4" --owner 42
  mainstem alerts ack 12 --undo`,
		Args: cli.Args(0, -1),
		RunE: func(cmd *cobra.Command, a []string) error {
			which, err := ackCondition(a, filter)
			if err == nil && len(a) > 0 && at.coordinator != "" && len(at.clusters) != 1 {
				err = errors.New("a serial is that of one server: name its cluster with --clusters")
			}
			if err != nil {
				return cli.WrongUsage(cmd, err)
			}
			set, need := "Acknowledged = 1", "Acknowledged = 0"
			if undo {
				set, need = need, set
			}
			if cmd.Flags().Changed("owner") {
				set += fmt.Sprintf(", OwnerUID = %d", owner)
				need += fmt.Sprintf(" or OwnerUID <> %d", owner)
			}
			statement := fmt.Sprintf("update alerts.status set %s where (%s\n) and (%s)", set, which, need)
			return m.withAlerts(cmd, cli.Writing, &at, func(ctx context.Context, t alertTables) error {
				return m.acknowledge(ctx, t, statement, which)
			})
		},
	}
	at.add(cmd, "mainstem", true)
	f := cmd.Flags()
	f.StringVar(&filter, "where", "", "`condition` in SQL that says which alerts")
	f.BoolVar(&undo, "undo", false, "take the acknowledgement back")
	f.IntVar(&owner, "owner", 0, "`number` of the user who takes them, for OwnerUID")
	return cmd
}

// ackCondition returns the condition of SQL for serials or a filter.
func ackCondition(serials []string, filter string) (string, error) {
	filter = strings.TrimSpace(filter)
	switch {
	case len(serials) > 0 && filter != "":
		return "", errors.New("serials and --where exclude each other")
	case filter != "":
		return filter, oneCondition(filter)
	case len(serials) == 0:
		return "", errors.New("give serials, or a condition with --where")
	}
	for _, s := range serials {
		if _, err := strconv.ParseUint(s, 10, 32); err != nil {
			return "", fmt.Errorf("%q is no serial: want a number", s)
		}
	}
	return "Serial in (" + strings.Join(serials, ", ") + ")", nil
}

// oneCondition refuses a text that would end the statement it is put into.
func oneCondition(filter string) error {
	var c statementCutter
	for line := range strings.Lines(filter) {
		complete, err := c.add(strings.TrimRight(line, "\r\n"))
		if err != nil {
			return err
		}
		if len(complete) > 0 {
			return errors.New("--where is a condition, not a statement: it has a ; or a line with go")
		}
	}
	if c.quote != 0 || c.comment {
		return errors.New("--where has a quote or a comment without an end")
	}
	return nil
}

// acknowledge runs the update and says what came of it.
func (m commands) acknowledge(ctx context.Context, t alertTables, statement, which string) error {
	p := resultPrinter{m: m.Main, format: "tabs"}
	var total int64
	err := t.each(ctx, statement, func(r *alertResult) error {
		if err := p.print(r); err != nil || r.err != nil {
			return err
		}
		total += r.affected()
		return nil
	})
	if err == nil && total == 0 && !p.failed {
		err = m.ackNothing(ctx, t, which)
	}
	if err == nil {
		err = p.outcome()
	}
	return err
}

// ackNothing tells alerts that did not have to change from those that do not exist.
func (m commands) ackNothing(ctx context.Context, t alertTables, which string) error {
	var n int64
	err := t.each(ctx, "select count(*) as n from alerts.status where "+which, func(r *alertResult) error {
		if r.err != nil {
			return r.err
		}
		for values, err := range r.rows {
			if err != nil {
				return err
			}
			n += values[0].Int()
		}
		return nil
	})
	if err == nil && n == 0 {
		err = mainstem.Errorf(mainstem.KindNotFound, "alerts ack", "no alert has %s", strings.TrimSpace(which))
	}
	return err
}
