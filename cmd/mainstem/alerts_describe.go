package main

import (
	"context"

	"github.com/spf13/cobra"
)

func (m *Main) alertsDescribe() *cobra.Command {
	var where alertFlags
	cmd := &cobra.Command{
		Use:   "describe [TABLE]",
		Short: "Show the columns of a table, or all tables",
		Long: `Show the columns of a table: name, type, size in bytes, and 1 for those of the primary
key. Without a TABLE, show the tables: their database, name and number of rows.` + alertsHelp + coordinatorHelp,
		Example: `  mainstem alerts describe alerts.status
  mainstem alerts describe --json`,
		Args: args(0, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			p := resultPrinter{m: m, format: "auto"}
			if err := p.check(); err != nil {
				return err
			}
			statement := "select DatabaseName, TableName, NumRows from catalog.tables order by DatabaseName, TableName"
			if len(a) == 1 {
				table, err := tableName(a[0])
				if err != nil {
					return usageError{cmd, err}
				}
				statement = "describe " + table
			}
			return m.withAlerts(cmd, reading, &where, func(ctx context.Context, t alertTables) error {
				if err := t.each(ctx, statement, p.print); err != nil {
					return err
				}
				return p.outcome()
			})
		},
	}
	where.add(cmd, "mainstem", true)
	return cmd
}
