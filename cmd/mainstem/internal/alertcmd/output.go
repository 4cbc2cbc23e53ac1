package alertcmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

// resultPrinter shows results of statements.
type resultPrinter struct {
	m      *cli.Main
	format string
	failed bool     // a cluster did not answer
	blocks int      // results shown
	head   []string // above the rows of the cluster before, for the same statement
}

// widthRows is how many rows of a result decide how wide its columns are. The rows
// behind them are shown as they come.
const widthRows = 500

func (p *resultPrinter) check() error {
	switch p.format {
	case "table", "tabs", "vertical":
	case "auto":
		p.format = "tabs"
		if cli.IsTerminal(p.m.Stdout) {
			p.format = "table"
		}
	default:
		return fmt.Errorf("--format is %q: want table, tabs, vertical or auto", p.format)
	}
	return nil
}

// outcome is an error if some clusters did not answer: the others were shown.
func (p *resultPrinter) outcome() error {
	if p.failed {
		return cli.ErrFailed
	}
	return nil
}

// print shows one result.
func (p *resultPrinter) print(r *alertResult) error {
	if r.err != nil {
		p.failed = true
		return printClusterError(p.m, r.cluster, r.err)
	}
	if len(r.columns) == 0 {
		return p.printAffected(r)
	}
	if p.m.Flags.JSON {
		return p.printObjects(r)
	}
	p.blocks++
	if p.format != "tabs" && p.blocks > 1 {
		if err := p.m.Line(); err != nil {
			return err
		}
	}
	switch p.format {
	case "table":
		return p.printTable(r)
	case "vertical":
		return p.printVertical(r)
	}
	return p.printTabs(r)
}

// printClusterError says on standard error which cluster failed, and why.
func printClusterError(m *cli.Main, cluster string, err error) error {
	if ferr := m.Flush(); ferr != nil {
		return ferr
	}
	if m.Flags.JSON {
		return m.ObjectToStderr(new(cli.Fields).Add("cluster", cluster).Add("error", err.Error()))
	}
	_, err = fmt.Fprintf(m.Stderr, "mainstem: %s: %v\n", cluster, err)
	return err
}

func (p *resultPrinter) printAffected(r *alertResult) error {
	for _, err := range r.rows {
		if err != nil {
			return err
		}
	}
	n := r.affected()
	if p.m.Flags.JSON {
		f := new(cli.Fields)
		cli.Opt(f, "cluster", r.cluster)
		return p.m.Object(f.Add("affected", n))
	}
	text := plural(n, "row") + " affected"
	if r.cluster != "" {
		text = r.cluster + ": " + text
	}
	return p.m.Line(text)
}

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (p *resultPrinter) printObjects(r *alertResult) error {
	for values, err := range r.rows {
		if err != nil {
			return err
		}
		f := new(cli.Fields)
		cli.Opt(f, "cluster", r.cluster)
		for i := range r.columns {
			addValue(f, r.columns[i].name, values[i])
		}
		if err := p.m.Object(f); err != nil {
			return err
		}
	}
	return nil
}

// addValue appends a value of an alert table: a string or a number.
func addValue(f *cli.Fields, name string, v alert.Value) {
	if v.IsText() {
		f.Text(name, v.String())
	} else {
		f.Add(name, v.Any())
	}
}

// head returns the names of the columns, before them "cluster" if there are several.
func (r *alertResult) head() []string {
	var out []string
	if r.cluster != "" {
		out = append(out, "cluster")
	}
	for i := range r.columns {
		out = append(out, r.columns[i].name)
	}
	return out
}

// cells returns a row as it stands in columns of text.
func (r *alertResult) cells(values []alert.Value) []string {
	out := make([]string, 0, len(values)+1)
	if r.cluster != "" {
		out = append(out, r.cluster)
	}
	for i := range values {
		out = append(out, cli.Printable(values[i].String()))
	}
	return out
}

func (p *resultPrinter) printTabs(r *alertResult) error {
	head := r.head()
	if r.cluster == "" || !slices.Equal(head, p.head) { // rows of all clusters stand below one head
		if err := p.m.Line(head...); err != nil {
			return err
		}
	}
	p.head = head
	for values, err := range r.rows {
		if err != nil {
			return err
		}
		if err := p.m.Line(r.cells(values)...); err != nil {
			return err
		}
	}
	return nil
}

func (p *resultPrinter) printVertical(r *alertResult) error {
	n := 0
	head := r.head()
	for values, err := range r.rows {
		if err != nil {
			return err
		}
		if n++; n > 1 {
			if err := p.m.Line(); err != nil {
				return err
			}
		}
		w := tabwriter.NewWriter(p.m.Out, 0, 0, 2, ' ', 0)
		for i, cell := range r.cells(values) {
			fmt.Fprintf(w, "%s\t%s\n", head[i], cell)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// printTable aligns columns: numbers to the right, texts to the left.
func (p *resultPrinter) printTable(r *alertResult) error {
	t := grid{m: p.m, head: r.head()}
	for range len(t.head) - len(r.columns) {
		t.left = append(t.left, true)
	}
	for i := range r.columns {
		t.left = append(t.left, r.columns[i].text)
	}
	for values, err := range r.rows {
		if err != nil {
			return errors.Join(t.flush(), err)
		}
		if err := t.add(r.cells(values)); err != nil {
			return err
		}
	}
	if err := t.flush(); err != nil {
		return err
	}
	return p.m.Line("(" + plural(t.n, "row") + ")")
}

// grid writes aligned columns.
type grid struct {
	m     *cli.Main
	head  []string
	left  []bool
	wait  [][]string // rows that decide how wide columns are
	width []int      // nil until they have
	n     int64
}

func (t *grid) add(cells []string) error {
	t.n++
	if t.width != nil {
		return t.row(cells)
	}
	t.wait = append(t.wait, cells)
	if len(t.wait) < widthRows {
		return nil
	}
	return t.flush()
}

// flush writes the head and the rows that wait.
func (t *grid) flush() error {
	if t.width != nil {
		return nil
	}
	t.width = make([]int, len(t.head))
	rule := make([]string, len(t.head))
	for i := range t.head {
		t.width[i] = textWidth(t.head[i])
		for _, row := range t.wait {
			t.width[i] = max(t.width[i], textWidth(row[i]))
		}
		rule[i] = strings.Repeat("-", t.width[i])
	}
	for _, row := range append([][]string{t.head, rule}, t.wait...) {
		if err := t.row(row); err != nil {
			return err
		}
	}
	t.wait = nil
	return nil
}

func (t *grid) row(cells []string) error {
	var b strings.Builder
	for i, cell := range cells {
		if i > 0 {
			b.WriteString("  ")
		}
		b.WriteString(pad(cell, t.width[i], t.left[i]))
	}
	return t.m.Line(strings.TrimRight(b.String(), " "))
}
