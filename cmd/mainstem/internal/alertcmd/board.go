package alertcmd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

// board is a table of alerts on a terminal: what it shows, and how.
type board struct {
	filter  string
	columns []boardColumn
	fetched []string // columns to ask for
	colour  bool

	rows    []boardRow      // the most important ones
	counts  map[int64]int64 // of all alerts, by severity
	asOf    time.Time
	trouble error // why the rows are not newer
	top     int   // the first row shown
}

// boardRows is how many rows a board holds. Nobody scrolls through more.
const boardRows = 2000

// boardColumn is a column on the board.
type boardColumn struct {
	title string
	left  bool
	least int // width from which it is cut when there is no room; 0: never
	text  func(r *boardRow, now time.Time) string
}

// boardRow is an alert on the board.
type boardRow struct {
	cluster  string
	severity int64
	last     time.Time
	serial   int64
	values   map[string]alert.Value
}

// always are the columns that a board needs to order and colour its rows.
var always = []string{"Severity", "LastOccurrence", "Serial"}

// standard are the columns of a board that was told none.
var standard = []boardColumn{
	{"Severity", true, 0, func(r *boardRow, _ time.Time) string { return severityName(r.severity) }},
	{"Age", false, 0, func(r *boardRow, now time.Time) string { return age(now.Sub(r.last)) }},
	{"Tally", false, 0, func(r *boardRow, _ time.Time) string { return r.values["Tally"].String() }},
	{"Ack", true, 0, func(r *boardRow, _ time.Time) string {
		if r.values["Acknowledged"].Bool() {
			return "yes"
		}
		return ""
	}},
	{"Serial", false, 0, func(r *boardRow, _ time.Time) string { return cli.Number(r.serial) }},
	{"Node", true, 12, func(r *boardRow, _ time.Time) string { return cli.Printable(r.values["Node"].String()) }},
	{"Group", true, 12, func(r *boardRow, _ time.Time) string { return cli.Printable(r.values["AlertGroup"].String()) }},
	{"Summary", true, 20, func(r *boardRow, _ time.Time) string { return cli.Printable(r.values["Summary"].String()) }},
}

func newBoard(c *changeFlags, colour bool) *board {
	b := &board{filter: c.filter, colour: colour, fetched: slices.Clone(always)}
	names := c.columns
	if len(names) == 0 {
		names, b.columns = []string{"Tally", "Acknowledged", "Node", "AlertGroup", "Summary"}, standard
	}
	for _, name := range names {
		if !slices.Contains(b.fetched, name) {
			b.fetched = append(b.fetched, name)
		}
		if len(c.columns) > 0 {
			b.columns = append(b.columns, boardColumn{title: name, left: true, least: 8, text: func(r *boardRow, _ time.Time) string {
				return cli.Printable(r.values[name].String())
			}})
		}
	}
	return b
}

// row makes a row of the values whose columns stand at the given positions.
func (b *board) row(cluster string, values []alert.Value, at []int) boardRow {
	r := boardRow{cluster: cluster, values: make(map[string]alert.Value, len(at))}
	for i, name := range b.fetched {
		if at[i] >= 0 {
			r.values[name] = values[at[i]]
		}
	}
	r.severity, r.last, r.serial = r.values["Severity"].Int(), r.values["LastOccurrence"].Time(), r.values["Serial"].Int()
	return r
}

// sortRows puts the most severe first, and of those the newest.
func sortRows(rows []boardRow) {
	slices.SortStableFunc(rows, func(a, b boardRow) int {
		return cmp.Or(cmp.Compare(b.severity, a.severity), b.last.Compare(a.last), cmp.Compare(b.serial, a.serial), cmp.Compare(a.cluster, b.cluster))
	})
}

// age writes a duration in one unit or two.
func age(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	case d < 100*365*24*time.Hour:
		return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
	}
	return "-" // it has never occurred
}

// key is what a person pressed.
type key int

const (
	keyOther key = iota
	keyQuit
	keyUp
	keyDown
	keyPageUp
	keyPageDown
	keyHome
	keyEnd
)

// around is how many lines of a board are not rows: two above, one below.
const around = 3

// press does what a key asks for; false ends the board.
func (b *board) press(k key, height int) bool {
	page := max(1, height-around)
	switch k {
	case keyQuit:
		return false
	case keyUp:
		b.top--
	case keyDown:
		b.top++
	case keyPageUp:
		b.top -= page
	case keyPageDown:
		b.top += page
	case keyHome:
		b.top = 0
	case keyEnd:
		b.top = len(b.rows)
	}
	b.clamp(page)
	return true
}

func (b *board) clamp(page int) { b.top = max(0, min(b.top, len(b.rows)-page)) }

// lines returns what a display of that size shows.
func (b *board) lines(width, height int, now time.Time) []string {
	page := max(0, height-around)
	b.clamp(page)
	shown := b.rows[b.top:min(len(b.rows), b.top+page)]
	cells := make([][]string, len(shown))
	for i := range shown {
		for _, c := range b.columns {
			cells[i] = append(cells[i], c.text(&shown[i], now))
		}
		if shown[i].cluster != "" {
			cells[i][0] = shown[i].cluster + " " + cells[i][0]
		}
	}
	widths := b.widths(cells, width)
	out := []string{b.summary(width), b.paint("1", b.line(b.titles(), widths, width))}
	for i := range cells {
		out = append(out, b.paint(severityColour(shown[i].severity), b.line(cells[i], widths, width)))
	}
	for len(out) < height-1 {
		out = append(out, "")
	}
	out = append(out, b.footer(width, now))
	return out[:min(len(out), max(0, height))]
}

func (b *board) titles() []string {
	out := make([]string, len(b.columns))
	for i := range b.columns {
		out[i] = b.columns[i].title
	}
	return out
}

// widths gives each column what its texts need, and takes from the last ones first
// what does not fit.
func (b *board) widths(cells [][]string, width int) []int {
	out := make([]int, len(b.columns))
	total := 2 * (len(out) - 1)
	for i := range out {
		out[i] = textWidth(b.columns[i].title)
		for _, row := range cells {
			out[i] = max(out[i], textWidth(row[i]))
		}
		total += out[i]
	}
	for i := len(out) - 1; i >= 0 && total > width; i-- {
		if least := b.columns[i].least; least > 0 {
			less := max(0, min(total-width, out[i]-max(least, textWidth(b.columns[i].title))))
			out[i] -= less
			total -= less
		}
	}
	return out
}

func (b *board) line(cells []string, widths []int, width int) string {
	var s strings.Builder
	for i, c := range cells {
		if i > 0 {
			s.WriteString("  ")
		}
		s.WriteString(pad(shorten(c, widths[i]), widths[i], b.columns[i].left))
	}
	return strings.TrimRight(shorten(s.String(), width), " ")
}

// summary counts the alerts by severity.
func (b *board) summary(width int) string {
	total := int64(0)
	for _, n := range b.counts {
		total += n
	}
	parts := []string{plural(total, "alert")}
	painted := slices.Clone(parts)
	for n := int64(len(severities)) - 1; n >= 0; n-- {
		if b.counts[n] > 0 {
			text := fmt.Sprintf("%d %s", b.counts[n], severities[n])
			parts = append(parts, text)
			painted = append(painted, b.paint(severityColour(n), text))
		}
	}
	if plain := strings.Join(parts, "  "); textWidth(plain) > width {
		return shorten(plain, width)
	}
	return strings.Join(painted, "  ")
}

func (b *board) footer(width int, now time.Time) string {
	if b.trouble != nil {
		text := fmt.Sprintf("as of %s ago: %v", age(now.Sub(b.asOf)), b.trouble)
		return b.paint("31", shorten(cli.Printable(text), width))
	}
	text := "q quit   ↑↓ move"
	if n := len(b.rows); n > 0 && b.top > 0 {
		text += fmt.Sprintf("   from %d of %d", b.top+1, n)
	}
	return b.paint("2", shorten(text, width))
}

// colours are those of severities: numbers of a terminal's colours.
var colours = []string{"32", "35", "36", "33", "38;5;208", "1;31"}

func severityColour(n int64) string {
	if n >= 0 && n < int64(len(colours)) {
		return colours[n]
	}
	return ""
}

// paint gives a text a colour, unless nobody wants colours.
func (b *board) paint(colour, text string) string {
	if !b.colour || colour == "" || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
