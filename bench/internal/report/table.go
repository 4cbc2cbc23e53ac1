package report

import (
	"fmt"
	"html"
	"io"
	"strings"
	"unicode/utf8"
)

// Table is text in columns.
type Table struct {
	Columns []Column
	Rows    [][]string
}

// Column is a column's title and alignment.
type Column struct {
	Title string
	Left  bool // text; numbers are aligned to the right
}

// compact removes columns that say nothing.
func (t Table) compact() Table {
	var keep []int
	for c := range t.Columns {
		for _, r := range t.Rows {
			if r[c] != "" {
				keep = append(keep, c)
				break
			}
		}
	}
	var out Table
	for _, c := range keep {
		out.Columns = append(out.Columns, t.Columns[c])
	}
	for _, r := range t.Rows {
		var row []string
		for _, c := range keep {
			row = append(row, r[c])
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// Text writes the table for a terminal, indented by two.
func (t Table) Text(w io.Writer) error {
	widths := make([]int, len(t.Columns))
	for c, column := range t.Columns {
		widths[c] = utf8.RuneCountInString(column.Title)
		for _, r := range t.Rows {
			widths[c] = max(widths[c], utf8.RuneCountInString(r[c]))
		}
	}
	var b strings.Builder
	line := func(cell func(c int) string) {
		var l strings.Builder
		for c, column := range t.Columns {
			text := cell(c)
			pad := strings.Repeat(" ", widths[c]-utf8.RuneCountInString(text))
			if column.Left {
				text += pad
			} else {
				text = pad + text
			}
			l.WriteString("  " + text)
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	line(func(c int) string { return t.Columns[c].Title })
	for _, r := range t.Rows {
		line(func(c int) string { return r[c] })
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Markdown writes the table as GitHub's Markdown.
func (t Table) Markdown(w io.Writer) error {
	var b strings.Builder
	for _, c := range t.Columns {
		b.WriteString("| " + escapeMarkdown(c.Title) + " ")
	}
	b.WriteString("|\n")
	for _, c := range t.Columns {
		if c.Left {
			b.WriteString("|---")
		} else {
			b.WriteString("|---:")
		}
	}
	b.WriteString("|\n")
	for _, r := range t.Rows {
		for _, cell := range r {
			b.WriteString("| " + escapeMarkdown(cell) + " ")
		}
		b.WriteString("|\n")
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}

var markdownEscapes = strings.NewReplacer("|", `\|`, "*", `\*`, "_", `\_`, "<", "&lt;", "`", "\\`", "[", `\[`, "\n", " ")

func escapeMarkdown(s string) string { return markdownEscapes.Replace(s) }

// HTML writes the table as HTML.
func (t Table) HTML(w io.Writer) error {
	var b strings.Builder
	cell := func(tag, text string, left bool) {
		class := ""
		if left {
			class = ` class="text"`
		}
		fmt.Fprintf(&b, "<%s%s>%s</%s>", tag, class, html.EscapeString(text), tag)
	}
	b.WriteString("<table>\n<thead><tr>")
	for _, c := range t.Columns {
		cell("th", c.Title, c.Left)
	}
	b.WriteString("</tr></thead>\n<tbody>\n")
	for _, r := range t.Rows {
		b.WriteString("<tr>")
		for c, text := range r {
			cell("td", text, t.Columns[c].Left)
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</tbody></table>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
