package alertcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

// leastEvery is the least time between two questions of a watch.
const leastEvery = 100 * time.Millisecond

func (m commands) newWatch() *cobra.Command {
	var at alertFlags
	c := changeFlags{table: statusTable}
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "A live table of the alerts",
		Long: `A live table of alerts.status on the terminal: the most severe first, of those the newest.
It changes when an alert does; q ends it, the arrow keys and page up and down move it.
Colours show the severity unless NO_COLOR is set.

If standard output is no terminal, or with --json, it writes a line for each alert that is
there, in the order of their StateChange, and then one for each change, as tail does.` + alertsHelp + coordinatorHelp,
		Example: `  mainstem alerts watch
  mainstem alerts watch --where 'Acknowledged = 0 and Severity > 2'
  mainstem alerts watch --columns Serial,Node,AlertGroup,Summary,OwnerUID`,
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
				return cli.UnlessInterrupted(ctx, m.watchAlerts(ctx, t, &c, at.every))
			})
		},
	}
	at.add(cmd, "mainstem", true)
	c.add(cmd)
	cmd.Flags().DurationVar(&at.every, "every", pollEvery, "ask anew after this `duration` although nothing is known to have changed")
	return cmd
}

func checkEvery(d time.Duration) error {
	if d < leastEvery {
		return fmt.Errorf("--every is %v: want at least %v", d, leastEvery)
	}
	return nil
}

func (m commands) watchAlerts(ctx context.Context, t alertTables, c *changeFlags, every time.Duration) error {
	in, ok := m.Stdin.(*os.File)
	if ok && cli.IsTerminal(in) && cli.IsTerminal(m.Stdout) && !m.Flags.JSON {
		s, err := openScreen(in, m.Stdout)
		if err != nil {
			return err
		}
		w := &watcher{tables: t, board: newBoard(c, m.Variable("NO_COLOR") == ""), screen: s, every: every}
		return errors.Join(w.run(ctx), s.close())
	}
	return m.showChanges(ctx, t, c, &alert.ChangeOptions{Since: time.Unix(0, 0), NoFollow: c.noMore})
}

// display is what a watcher draws on: a terminal.
type display interface {
	size() (width, height int)
	draw(lines []string) error
	keys() <-chan key
}

// watcher keeps a board on a display up to date.
type watcher struct {
	tables alertTables
	board  *board
	screen display
	every  time.Duration

	asked time.Time // when the rows were last asked for
	stale bool      // something has changed since
}

// look is how often a watcher looks at the size of the display and at what has changed.
const look = 250 * time.Millisecond

// run draws until a key or ctx ends it.
func (w *watcher) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	changed := make(chan struct{}, 1)
	following := make(chan struct{})
	go func() {
		defer close(following)
		w.follow(ctx, changed)
	}()
	defer func() {
		cancel()
		<-following
	}()
	if err := w.ask(ctx); err != nil {
		return err
	}
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		if err := w.draw(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			w.stale = true
		case k, ok := <-w.screen.keys():
			if _, height := w.screen.size(); !ok || !w.board.press(k, height) {
				return nil
			}
		case <-tick.C:
			if w.stale || time.Since(w.asked) >= w.every {
				w.board.trouble = w.ask(ctx) // the rows that are there stay
			}
		}
	}
}

// follow tells changed when a row has changed, and once when it sees changes from then on: the
// rows may have been asked for before. Without a feed, the watcher asks every now and then
// all the same.
func (w *watcher) follow(ctx context.Context, changed chan<- struct{}) {
	tell := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	o := &alert.ChangeOptions{Ready: func(mainstem.Position) { tell() }}
	for _, err := range w.tables.changes(ctx, statusTable, o) {
		if err != nil {
			return
		}
		tell()
	}
}

// ask brings the board up to date.
func (w *watcher) ask(ctx context.Context) error {
	w.asked, w.stale = time.Now(), false
	b := w.board
	rows, counts, err := b.fetch(ctx, w.tables)
	if err != nil {
		return err
	}
	b.rows, b.counts, b.asOf = rows, counts, w.asked
	return nil
}

func (w *watcher) draw() error {
	width, height := w.screen.size()
	return w.screen.draw(w.board.lines(width, height, time.Now()))
}

// fetch asks for the most important rows, in their order, and for how many there are
// of each severity. What some clusters do not answer is missing; none is an error.
func (b *board) fetch(ctx context.Context, t alertTables) (rows []boardRow, counts map[int64]int64, err error) {
	where := ""
	if filter := strings.TrimSpace(b.filter); filter != "" {
		where = " where (" + filter + "\n)"
	}
	var trouble error
	answers := 0
	ask := func(statement string, names []string, take func(cluster string, values []alert.Value, at []int)) error {
		return t.each(ctx, statement, func(r *alertResult) error {
			if r.err != nil {
				trouble = fmt.Errorf("%s: %w", r.cluster, r.err)
				return nil
			}
			answers++
			at := make([]int, len(names))
			for i, name := range names {
				at[i] = r.at(name)
			}
			for values, err := range r.rows {
				if err != nil {
					return err
				}
				take(r.cluster, values, at)
			}
			return nil
		})
	}
	counts = map[int64]int64{}
	err = ask("select Severity, count(*) as n from "+statusTable+where+" group by Severity", []string{"Severity", "n"}, func(_ string, values []alert.Value, at []int) {
		if at[0] >= 0 && at[1] >= 0 {
			counts[values[at[0]].Int()] += values[at[1]].Int()
		}
	})
	if err != nil {
		return nil, nil, err
	}
	statement := fmt.Sprintf("select top %d %s from %s%s order by Severity desc, LastOccurrence desc, Serial desc", boardRows, strings.Join(b.fetched, ", "), statusTable, where)
	err = ask(statement, b.fetched, func(cluster string, values []alert.Value, at []int) {
		rows = append(rows, b.row(cluster, values, at))
	})
	if err == nil && answers == 0 {
		err = trouble
	}
	sortRows(rows)
	return rows, counts, err
}
