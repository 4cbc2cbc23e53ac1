package alertcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

// changeFlags say which changes tail and watch show, and how.
type changeFlags struct {
	table   string
	filter  string
	columns []string
	since   time.Duration
	from    uint64
	limit   int
	noMore  bool // end when everything that is there was shown
}

// add adds the flags that tail and watch share.
func (c *changeFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.filter, "where", "", "only rows that meet this `condition` in SQL")
	f.StringSliceVar(&c.columns, "columns", nil, "`names` of the columns to show, separated by commas")
	f.IntVar(&c.limit, "limit", 0, "end after this `number` of lines (default never)")
	f.BoolVar(&c.noMore, "no-follow", false, "end when everything that is there was shown")
}

func (c *changeFlags) check() (err error) {
	if c.table, err = tableName(c.table); err != nil {
		return err
	}
	if err := names("columns", c.columns); err != nil {
		return err
	}
	switch {
	case c.since < 0:
		return errors.New("--since is negative")
	case c.limit < 0:
		return errors.New("--limit is negative")
	}
	return oneCondition(c.filter)
}

func (m commands) newTail() *cobra.Command {
	var at alertFlags
	var c changeFlags
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Show changes of alerts as they come",
		Long: `Show every change of a row as it comes: time, what happened, and the row. What happened
is change, delete, or with --where leave: the row was shown and no longer meets the
condition. Of alerts.status it shows serial, severity, node, tally and summary; --columns
chooses others. --since begins with what has changed lately. It ends when interrupted.

With --json a change has a position; --from goes on after it.

An object server that is not Mainstem tells nothing by itself: it is asked for new values
of StateChange each --every. That shows no deletions, and several changes as one.` + alertsHelp,
		Example: `  mainstem alerts tail
  mainstem alerts tail --where 'Severity > 3' --since 10m
  mainstem alerts tail --table alerts.journal --columns Serial,Text1
  mainstem alerts tail --from 1234 --json
  mainstem alerts tail --url http://127.0.0.1:8081`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := c.check()
			if err == nil {
				err = checkEvery(at.every)
			}
			if err != nil {
				return cli.WrongUsage(cmd, err)
			}
			return m.withAlerts(cmd, cli.Reading, &at, func(ctx context.Context, t alertTables) error {
				return cli.UnlessInterrupted(ctx, m.tail(ctx, t, &c))
			})
		},
	}
	at.add(cmd, "mainstem", false)
	c.add(cmd)
	f := cmd.Flags()
	f.StringVar(&c.table, "table", statusTable, "`name` of the table")
	f.DurationVar(&c.since, "since", 0, "begin with rows whose StateChange is within this `duration`")
	f.Uint64Var(&c.from, "from", 0, "changes after this `position`")
	f.DurationVar(&at.every, "every", pollEvery, "ask a server that is not Mainstem anew after this `duration`")
	cmd.MarkFlagsMutuallyExclusive("since", "from")
	return cmd
}

func (m commands) tail(ctx context.Context, t alertTables, c *changeFlags) error {
	o := &alert.ChangeOptions{After: mainstem.Position(c.from), NoFollow: c.noMore}
	if c.since > 0 {
		o.Since = time.Now().Add(-c.since)
	}
	return m.showChanges(ctx, t, c, o)
}

// showChanges writes a line for each change that meets the condition.
func (m commands) showChanges(ctx context.Context, t alertTables, c *changeFlags, o *alert.ChangeOptions) error {
	seen, err := newSeen(ctx, t, c)
	if err != nil {
		return err
	}
	n := 0
	for change, err := range t.changes(ctx, c.table, o) {
		if err != nil {
			return err
		}
		what, err := seen.judge(ctx, &change)
		if err != nil {
			return err
		}
		if what == "" {
			continue
		}
		if err := m.printRowChange(c, what, &change); err != nil {
			return err
		}
		if err := m.Flush(); err != nil {
			return err
		}
		if n++; c.limit > 0 && n >= c.limit {
			return nil
		}
	}
	return nil
}

// seen says of a change whether it is shown, and as what.
type seen struct {
	tables alertTables
	table  string
	filter string
	keys   []string        // the columns of the primary key
	shown  map[string]bool // conditions on the primary key of rows that were shown
}

// newSeen asks for the primary key, without which rows cannot be found.
func newSeen(ctx context.Context, t alertTables, c *changeFlags) (*seen, error) {
	s := &seen{tables: t, table: c.table, filter: strings.TrimSpace(c.filter), shown: map[string]bool{}}
	err := t.each(ctx, "describe "+c.table, func(r *alertResult) error {
		if r.err != nil {
			return r.err
		}
		name, key := r.at("ColumnName"), r.at("Key")
		for values, err := range r.rows {
			if err != nil {
				return err
			}
			if name >= 0 && key >= 0 && values[key].Bool() && !slices.Contains(s.keys, values[name].String()) {
				s.keys = append(s.keys, values[name].String())
			}
		}
		return nil
	})
	return s, err
}

// judge returns "change", "delete" or "leave", or "" for what is not shown.
func (s *seen) judge(ctx context.Context, c *alertChange) (string, error) {
	what := "change"
	if c.deleted {
		what = "delete"
	}
	if s.filter == "" {
		return what, nil
	}
	key := s.key(c)
	meets := false
	if !c.deleted {
		statement := fmt.Sprintf("select count(*) as n from %s where %s and (%s\n)", s.table, key, s.filter)
		err := s.tables.each(ctx, statement, func(r *alertResult) error {
			for values, err := range r.rows {
				if err != nil {
					return err
				}
				meets = meets || values[0].Int() > 0
			}
			return r.err
		})
		if err != nil {
			return "", err
		}
	}
	before := s.shown[key]
	switch {
	case meets:
		s.shown[key] = true
		return what, nil
	case !before:
		return "", nil
	case !c.deleted:
		what = "leave"
	}
	delete(s.shown, key)
	return what, nil
}

// key returns the condition that finds the row of a change.
func (s *seen) key(c *alertChange) string {
	var parts []string
	for _, name := range s.keys {
		v := c.get(name)
		text := v.String()
		if v.IsText() {
			text = quoted(text)
		}
		parts = append(parts, name+" = "+text)
	}
	return strings.Join(parts, " and ")
}

// printRowChange writes one line about a change.
func (m commands) printRowChange(o *changeFlags, what string, c *alertChange) error {
	if m.Flags.JSON {
		row := new(cli.Fields)
		for i, name := range c.names {
			if o.shows(name, c, i) {
				addValue(row, name, c.values[i])
			}
		}
		f := new(cli.Fields)
		cli.Opt(f, "position", c.position)
		f.Time("time", c.time).Add("op", what).Add("table", o.table)
		return m.Object(f.Raw("row", row.Object()))
	}
	at := c.time
	if at.IsZero() {
		at = c.get("StateChange").Time()
	}
	line := []string{cli.TimeText(at), what}
	switch {
	case len(o.columns) > 0:
		for _, name := range o.columns {
			line = append(line, cli.Printable(c.get(name).String()))
		}
	case o.table == statusTable && c.deleted:
		line = append(line, cli.Printable(c.get("Identifier").String()))
	case o.table == statusTable:
		line = append(line, cli.Number(c.get("Serial").Int()), severityName(c.get("Severity").Int()), cli.Printable(c.get("Node").String()),
			cli.Number(c.get("Tally").Int()), cli.Printable(c.get("Summary").String()))
	default:
		for i, name := range c.names {
			if o.shows(name, c, i) && c.values[i].String() != "" {
				line = append(line, name+"="+cli.Printable(c.values[i].String()))
			}
		}
	}
	return m.Line(line...)
}

// shows reports whether the i-th column of a row is shown. Of a row that is no more,
// only the key is known.
func (o *changeFlags) shows(name string, c *alertChange, i int) bool {
	if len(o.columns) > 0 && !slices.Contains(o.columns, name) {
		return false
	}
	return !c.deleted || c.values[i] != alert.Int(0) && c.values[i] != alert.Text("")
}

// severities are the names of the numbers in Severity.
var severities = []string{"clear", "indeterminate", "warning", "minor", "major", "critical"}

func severityName(n int64) string {
	if n >= 0 && n < int64(len(severities)) {
		return severities[n]
	}
	return cli.Number(n)
}
