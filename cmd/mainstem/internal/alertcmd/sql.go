package alertcmd

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

func (m commands) newSQL() *cobra.Command {
	var where alertFlags
	var format string
	var merge mergeFlags
	cmd := &cobra.Command{
		Use:   "sql [STATEMENT|-]",
		Short: "Run ObjectServer SQL",
		Long: `Run ObjectServer SQL: the statements of the argument, or else those of standard input.
They are separated by ; or by lines with go. The first that fails ends it; those before
it are done. The statements of an argument for a log are all parsed before the first one
runs. On a terminal it asks for statements and shows mistakes. quit or exit ends it, in
scripts too, with the exit status of what ran before.

Results are aligned columns on a terminal, elsewhere columns separated by tabs below a
line with their names; --format chooses: table, tabs, or vertical for one line per value.
Times are seconds since 1970. With --json a row is an object with its columns as fields.

With --coordinator there is a result for each cluster, or with --merge one for all, in
which the column cluster says where a row is from. A cluster that fails is reported on
standard error, and the exit status is 1.` + alertsHelp + coordinatorHelp,
		Example: `  mainstem alerts sql 'select Node, Severity, Summary from alerts.status where Severity > 3'
  mainstem alerts sql "update alerts.status set Acknowledged = 1 where Node = 'web1'" --json
  mainstem alerts sql --log http://127.0.0.1:8080
  mainstem alerts sql --log ./data < tables.sql
  mainstem alerts sql --url http://omnibus1:8080 --user root --password-file pw 'select top 5 * from alerts.status'
  mainstem alerts sql --coordinator http://127.0.0.1:5000 --user root --merge --order-by 'Severity desc' \
      'select Node, Severity, Summary from alerts.status where Severity > 3'`,
		Args: cli.Args(0, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			p := resultPrinter{m: m.Main, format: format}
			if err := p.check(); err != nil {
				return cli.WrongUsage(cmd, err)
			}
			where.merge = merge.spec(cmd)
			if len(a) == 1 && a[0] != "-" {
				return m.runStatements(cmd, &where, a[0], &p)
			}
			as := cli.Writing
			if where.readOnly {
				as = cli.Reading
			}
			return m.withAlerts(cmd, as, &where, func(ctx context.Context, t alertTables) error {
				return m.sqlLoop(ctx, t, &p)
			})
		},
	}
	where.add(cmd, "mainstem", true)
	cmd.Flags().StringVar(&format, "format", "auto", "table, tabs, vertical, or auto: table on a terminal, else tabs")
	cmd.Flags().BoolVar(&where.readOnly, "read-only", false, "refuse statements that change anything")
	merge.add(cmd)
	return cmd
}

// runStatements runs the statements of an argument. Those that only read do not make
// tables where there are none. A log is given all of them at once, so that none runs if one
// cannot be parsed; servers get one at a time, as IBM's may know more than we can parse.
func (m commands) runStatements(cmd *cobra.Command, where *alertFlags, text string, p *resultPrinter) error {
	all, err := cut(text)
	if err == nil && len(all) == 0 {
		err = errors.New("the argument holds no statement")
	}
	if err != nil {
		return cli.WrongUsage(cmd, err)
	}
	var statements []string                                           // up to a quit
	_ = eachStatement(strings.NewReader(text), func(s string) error { // cut has returned its errors
		statements = append(statements, s)
		return nil
	})
	switch {
	case len(statements) == 0:
		return nil
	case len(statements) < len(all):
		text = strings.Join(statements, "\n;\n") // a statement may end with a comment
	}
	as := cli.Writing
	if where.readOnly || readsOnly(statements) {
		as = cli.Reading
	}
	if where.url == "" && where.coordinator == "" {
		statements = []string{text}
	}
	return m.withAlerts(cmd, as, where, func(ctx context.Context, t alertTables) error {
		for _, s := range statements {
			p.head = nil
			if err := t.each(ctx, s, p.print); err != nil {
				return err
			}
		}
		return p.outcome()
	})
}

// sqlLoop runs the statements of standard input.
func (m commands) sqlLoop(ctx context.Context, t alertTables, p *resultPrinter) error {
	run := func(s string) error {
		p.head = nil
		if err := t.each(ctx, s, p.print); err != nil {
			return err
		}
		return m.Flush()
	}
	if c := m.console(); c != nil {
		return c.loop(ctx, run)
	}
	err := eachStatement(untilDone(ctx, m.Stdin), run)
	if err == nil {
		err = p.outcome()
	}
	return err
}

// untilDone returns a reader of in that ends with an error when ctx is done, also
// while somebody waits for input that does not come.
func untilDone(ctx context.Context, in io.Reader) io.Reader {
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() {
		_ = w.CloseWithError(mainstem.Ended(ctx, "alerts sql", time.Time{}, "the input"))
	})
	go func() {
		_, err := io.Copy(w, in)
		_ = w.CloseWithError(err) // nil ends the reader as well
	}()
	return r
}

func (m commands) newDescribe() *cobra.Command {
	var where alertFlags
	cmd := &cobra.Command{
		Use:   "describe [TABLE]",
		Short: "Show the columns of a table, or all tables",
		Long: `Show the columns of a table: name, type, size in bytes, and 1 for those of the primary
key. Without a TABLE, show the tables: their database, name and number of rows.` + alertsHelp + coordinatorHelp,
		Example: `  mainstem alerts describe alerts.status
  mainstem alerts describe --json`,
		Args: cli.Args(0, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			p := resultPrinter{m: m.Main, format: "auto"}
			if err := p.check(); err != nil {
				return err
			}
			statement := "select DatabaseName, TableName, NumRows from catalog.tables order by DatabaseName, TableName"
			if len(a) == 1 {
				table, err := tableName(a[0])
				if err != nil {
					return cli.WrongUsage(cmd, err)
				}
				statement = "describe " + table
			}
			return m.withAlerts(cmd, cli.Reading, &where, func(ctx context.Context, t alertTables) error {
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
