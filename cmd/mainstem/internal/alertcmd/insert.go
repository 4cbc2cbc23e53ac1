package alertcmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

func (m commands) newInsert() *cobra.Command {
	var where alertFlags
	var table string
	var updating []string
	cmd := &cobra.Command{
		Use:   "insert NAME=VALUE...",
		Short: "Insert one row",
		Long: `Insert one row, a column for each argument. A row of alerts.status whose Identifier is
there already becomes its next occurrence: Tally + 1, and what --updating names is taken
from the new row. Columns that are not given are empty or 0.

It shows the row's serial, its key, and whether it is new.` + alertsHelp + coordinatorHelp,
		Example: `  mainstem alerts insert Identifier=web1:disk Node=web1 Severity=5 'Summary=disk full'
  mainstem alerts insert Identifier=web1:disk Node=web1 Severity=3 --updating Severity
  mainstem alerts insert --table alerts.journal KeyField=12:0:1 Serial=12 Text1=called --json`,
		Args: cli.Args(1, -1),
		RunE: func(cmd *cobra.Command, a []string) error {
			name, err := tableName(table)
			if err == nil {
				err = names("updating", updating)
			}
			row := alertInsert{updating: updating}
			for i := 0; i < len(a) && err == nil; i++ {
				err = row.add(a[i])
			}
			if err != nil {
				return cli.WrongUsage(cmd, err)
			}
			return m.withAlerts(cmd, cli.Writing, &where, func(ctx context.Context, t alertTables) error {
				bad := false
				err := t.insert(ctx, name, row, func(r *alertInserted) error {
					bad = bad || r.err != nil
					return m.printInserted(name, r)
				})
				if err == nil && bad {
					err = cli.ErrFailed
				}
				return err
			})
		},
	}
	where.add(cmd, "mainstem", true)
	cmd.Flags().StringVar(&table, "table", statusTable, "`name` of the table")
	cmd.Flags().StringSliceVar(&updating, "updating", nil, "`columns` that a row with the same key takes over from the new one, separated by commas")
	return cmd
}

// add takes an argument NAME=VALUE.
func (r *alertInsert) add(pair string) error {
	name, value, ok := strings.Cut(pair, "=")
	if !ok || !isName(name) {
		return fmt.Errorf("%q: want NAME=VALUE with the name of a column", pair)
	}
	if slices.Contains(r.columns, name) {
		return fmt.Errorf("%s is given twice", name)
	}
	r.columns = append(r.columns, name)
	r.values = append(r.values, value)
	return nil
}

func (m commands) printInserted(table string, r *alertInserted) error {
	if r.err != nil {
		return printClusterError(m.Main, r.cluster, r.err)
	}
	if m.Flags.JSON {
		f := new(cli.Fields)
		cli.Opt(f, "cluster", r.cluster)
		f.Add("table", table)
		cli.Opt(f, "serial", r.serial)
		if r.keyField != "" {
			f.Text("key", r.keyField)
		}
		f.Add("affected", r.affected)
		if r.position > 0 {
			f.Add("inserted", r.inserted).Add("position", r.position)
		}
		return m.Object(f)
	}
	var columns []string
	if r.cluster != "" {
		columns = append(columns, r.cluster)
	}
	switch {
	case r.affected == 0:
		columns = append(columns, "left out")
	case r.inserted:
		columns = append(columns, "inserted")
	case r.position > 0:
		columns = append(columns, "again")
	default:
		columns = append(columns, "done")
	}
	if r.serial > 0 {
		columns = append(columns, "serial", cli.Number(r.serial))
	}
	if r.keyField != "" {
		columns = append(columns, "key", cli.Printable(r.keyField))
	}
	return m.Line(columns...)
}
