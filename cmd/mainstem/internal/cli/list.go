package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// listBlock is how many rows of a list are aligned with each other, and kept in memory.
const listBlock = 1000

// List writes rows to standard output: on a terminal in aligned columns below a head, else as lines with columns
// separated by tabs, for scripts. The caller calls End. It belongs to one goroutine.
type List struct {
	m     *Main
	head  []string
	table *tabwriter.Writer // nil: standard output is no terminal
	rows  int               // written so far
}

// NewList returns a list with these columns.
func (m *Main) NewList(head ...string) *List {
	l := &List{m: m, head: head}
	if IsTerminal(m.Stdout) && !m.Flags.JSON {
		l.table = newTable(m.Out)
	}
	return l
}

func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// Row writes one row. A column may be empty.
func (l *List) Row(columns ...string) error {
	if l.table == nil {
		return l.m.Line(columns...)
	}
	if l.rows == 0 {
		fmt.Fprintln(l.table, strings.Join(l.head, "\t"))
	}
	_, err := fmt.Fprintln(l.table, strings.Join(columns, "\t"))
	if l.rows++; err == nil && l.rows%listBlock == 0 {
		err = l.table.Flush()
	}
	return err
}

// End writes the rows that wait to be aligned, also if the rows end with an error. It returns err, or else its own error.
func (l *List) End(err error) error {
	if l.table == nil {
		return err
	}
	if ferr := l.table.Flush(); err == nil {
		err = ferr
	}
	return err
}
