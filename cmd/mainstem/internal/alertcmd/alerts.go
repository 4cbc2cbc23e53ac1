// Package alertcmd is the commands of mainstem alerts, which work on alert tables: those of a
// log, of an object server, or of the clusters of a coordinator.
//
//	mainstem alerts sql 'select Node, Summary from alerts.status'
//	mainstem alerts watch
//
// A command opens alertTables, the one interface to the three, and prints an alertResult.
package alertcmd

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

// commands has a method for each command of the group, and what these share.
type commands struct{ *cli.Main }

// statusTable is the table that commands work on unless they are told another.
const statusTable = "alerts.status"

const alertsHelp = `

The tables are in a log (--log); one that a server has open is reached by its URL.
--url names the HTTP interface of an object server instead, IBM's or that of serve
--omnibus; the password of --user is in --password-file, $MAINSTEM_ALERTS_PASSWORD_FILE or
$MAINSTEM_ALERTS_PASSWORD.`

const coordinatorHelp = `
--coordinator asks all clusters of a coordinator, or --clusters.`

// New returns mainstem alerts.
func New(program *cli.Main) *cobra.Command {
	m := commands{program}
	c := &cobra.Command{
		Use:   "alerts",
		Short: "Alert tables in the manner of IBM Netcool/OMNIbus",
		Long: `Alert tables in the manner of IBM Netcool/OMNIbus: alerts.status, alerts.journal,
alerts.details and tables of your own, with ObjectServer SQL.` + alertsHelp,
		RunE: cli.Group,
	}
	c.AddCommand(m.newSQL(), m.newInsert(), m.newImport(), m.newWatch(), m.newTail(), m.newAck(), m.newDescribe(),
		m.newUser(), m.newCoordinator())
	return c
}

// alertTables is where a command finds alert tables. Its methods are called by one
// goroutine, but for changes, which may run beside the others.
type alertTables interface {
	// each runs one statement and calls do with its result, or with that of each
	// cluster that was asked.
	each(ctx context.Context, statement string, do func(*alertResult) error) error
	// insert inserts one row; values are texts, whatever their columns are.
	insert(ctx context.Context, table string, row alertInsert, do func(*alertInserted) error) error
	// changes yields the changes of a table. Ready is called with 0 where they have no positions.
	changes(ctx context.Context, table string, o *alert.ChangeOptions) iter.Seq2[alertChange, error]
	close() error
}

// alertResult is the result of a statement.
type alertResult struct {
	cluster  string // that it is from; "" if only one was asked
	columns  []alertColumn
	rows     iter.Seq2[[]alert.Value, error]
	affected func() int64 // when the rows were read
	err      error        // of this cluster alone
}

// alertColumn is a column of a result.
type alertColumn struct {
	name string
	text bool // else numbers, which stand to the right
}

// at returns the position of the column called name, -1 if there is none.
func (r *alertResult) at(name string) int {
	for i := range r.columns {
		if r.columns[i].name == name {
			return i
		}
	}
	return -1
}

// alertChange is a change of a row, as tail shows it.
type alertChange struct {
	position mainstem.Position // in the log, 0 if nobody knows
	time     time.Time         // when it was committed, zero if nobody knows
	deleted  bool              // then only the primary key is there
	names    []string
	values   []alert.Value
}

func (c *alertChange) get(name string) alert.Value {
	for i := range c.names {
		if c.names[i] == name {
			return c.values[i]
		}
	}
	return alert.Value{}
}

// alertInsert is a row to be inserted.
type alertInsert struct {
	columns, values []string
	updating        []string
}

// alertInserted is what became of a row that was inserted.
type alertInserted struct {
	cluster  string
	affected int64
	serial   int64  // 0 if the server does not say
	keyField string // the same
	inserted bool   // it is new; false also if the server does not say
	position mainstem.Position
	err      error // of this cluster alone
}

// tableName checks what was given as the name of a table. It goes into statements,
// so it may be nothing else.
func tableName(s string) (string, error) {
	database, name, ok := strings.Cut(s, ".")
	if !ok {
		database, name = "alerts", s
	}
	if !isName(database) || !isName(name) {
		return "", fmt.Errorf("%q is no name of a table: want DATABASE.TABLE, or TABLE in the database alerts", s)
	}
	return database + "." + name, nil
}

// isName reports whether s may be the name of a database, a table or a column.
func isName(s string) bool {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// names checks a list of columns.
func names(flag string, given []string) error {
	for _, s := range given {
		if !isName(s) {
			return fmt.Errorf("--%s: %q is no name of a column", flag, s)
		}
	}
	return nil
}

// quoted returns s as a text in SQL.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// errNoTables is of a log that has never held alerts: reading does not make any.
var errNoTables = mainstem.Errorf(mainstem.KindNotFound, "alerts", "the log holds no alert tables").
	WithHint("a server that runs with --omnibus makes them, and so does the first mainstem alerts insert")
