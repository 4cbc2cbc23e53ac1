package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem/bench/internal/result"
)

// Picture is a plot in a document.
type Picture struct {
	Suite string
	Case  string // "" if it is of the whole suite
	Title string
	Path  string // relative to the document, for Markdown; "" leaves it out there
	SVG   []byte // for HTML
}

// document is what a report is written into: Markdown or HTML.
type document interface {
	heading(level int, text string)
	paragraph(text string)
	lines(text string) // as they are
	table(t Table)
	picture(p Picture)
	fold(title string, body func())
}

// Markdown writes the report of f with links to pictures.
func Markdown(w io.Writer, f *result.File, pictures []Picture) error {
	var d markdown
	write(&d, f, pictures)
	_, err := io.WriteString(w, d.String())
	return err
}

// HTML writes the report of f as one page with the pictures in it: it loads nothing.
func HTML(w io.Writer, f *result.File, pictures []Picture) error {
	var d page
	d.WriteString(pageHead)
	write(&d, f, pictures)
	d.WriteString("</main></body></html>\n")
	_, err := io.WriteString(w, d.String())
	return err
}

const reading = "Contenders took turns, round by round. Times are medians of the rounds; ± is the farther end of their " +
	"95 % confidence interval. Rows are compared with the best of the same durability; \"no difference\" is what a " +
	"Mann-Whitney test cannot tell apart at p < 0.05. Allocations are those of the contender's process: where the bench started a server, the client's only. " +
	"The transport is what an operation crosses to the data: a call in the process costs nanoseconds, a socket tens of microseconds, whatever the server."

func write(d document, f *result.File, pictures []Picture) {
	d.heading(1, "Bench report")
	d.table(provenance(f))
	if f.Interrupted {
		d.paragraph("The run was interrupted: cases are missing.")
	}
	d.paragraph(f.Note)
	d.paragraph(reading)
	writeVerdicts(d, f)
	for _, cases := range f.Suites() {
		writeSuite(d, cases, pictures)
	}
	d.heading(2, "Versions")
	d.table(modules(f))
}

func writeSuite(d document, cases [][]*result.Row, pictures []Picture) {
	suite := cases[0][0].Suite
	d.heading(2, "Suite "+suite)
	for _, p := range pictures {
		if p.Suite == suite && p.Case == "" {
			d.picture(p)
		}
	}
	notes := notes(cases)
	if t := contenders(cases, notes); len(t.Rows) > 0 {
		d.heading(3, suite+": contenders")
		d.table(t)
	}
	for _, durability := range durabilities(cases) {
		if t := multiples(cases, durability); len(t.Rows) > 1 {
			d.heading(3, suite+": multiples of the best, durability "+durability)
			d.table(t)
		}
	}
	for _, rows := range cases {
		writeCase(d, rows, notes)
		for _, p := range pictures {
			if p.Suite == suite && p.Case == rows[0].Case {
				d.fold(p.Title, func() { d.picture(p) })
			}
		}
	}
}

// notes returns what is particular to each contender in all cases of a suite.
func notes(cases [][]*result.Row) map[string]string {
	all := map[string]string{}
	for _, rows := range cases {
		for _, r := range rows {
			if r.Status == result.OK && all[r.Contender] == "" {
				all[r.Contender] = r.Note
			}
		}
	}
	return all
}

// contenders says of each contender of a suite how it is reached, in all cases
// together, and what it is.
func contenders(cases [][]*result.Row, notes map[string]string) Table {
	t := Table{Columns: []Column{{"contender", true}, {"transport", true}, {"what it is", true}}}
	at := map[string]int{}
	ways := map[string][]string{}
	for _, rows := range cases {
		for _, r := range rows {
			if r.Status != result.OK {
				continue
			}
			if _, ok := at[r.Contender]; !ok {
				at[r.Contender] = len(t.Rows)
				t.Rows = append(t.Rows, []string{r.Contender, "", notes[r.Contender]})
			}
			if !slices.Contains(ways[r.Contender], r.Over()) {
				ways[r.Contender] = append(ways[r.Contender], r.Over())
			}
		}
	}
	for name, i := range at {
		t.Rows[i][1] = strings.Join(ways[name], ", ")
	}
	return t.compact()
}

// writeCase writes one case. What is particular to a contender in all cases of the
// suite has been said.
func writeCase(d document, rows []*result.Row, said map[string]string) {
	d.heading(3, rows[0].CaseName())
	d.paragraph(rows[0].About)
	if t := caseTable(rows); len(t.Rows) > 0 {
		d.table(t)
	}
	for _, r := range rows {
		if r.Note != said[r.Contender] && r.Status == result.OK {
			d.paragraph(r.Contender + ": " + r.Note)
		}
	}
	if text := unmeasured(rows); text != "" {
		d.lines(text)
	}
}

// provenance is where, when, of what and how f was measured.
func provenance(f *result.File) Table {
	t := Table{Columns: []Column{{"", true}, {"", true}}}
	add := func(name, value string) { t.Rows = append(t.Rows, []string{name, value}) }
	commit := f.Build.Commit
	if commit == "" {
		commit = "unknown"
	}
	if f.Build.Changed {
		commit += ", with changes"
	}
	mode := "full"
	switch {
	case f.Settings.Quick:
		mode = "quick"
	case f.Settings.Scale:
		mode = "scale"
	}
	processes := "one for each contender"
	if f.Settings.InProcess {
		processes = "one for all contenders"
	}
	add("processor", fmt.Sprintf("%s, %d cores", f.Machine.CPU, f.Machine.Cores))
	add("memory", Value(float64(f.Machine.Memory), "B"))
	add("system", fmt.Sprintf("%s/%s, kernel %s, %s", f.Machine.OS, f.Machine.Arch, f.Machine.Kernel, f.Machine.Filesystem))
	add("Go", f.Build.Go)
	add("commit", commit)
	rounds := fmt.Sprintf("%s: %d rounds of %v", mode, f.Settings.Rounds, f.Settings.Time)
	if f.Settings.Limit > 0 {
		rounds += fmt.Sprintf(", or fewer and shorter ones, so that all of it ended within %v", f.Settings.Limit)
	}
	add("run", rounds)
	add("processes", processes)
	add("measured", fmt.Sprintf("%s, in %v", f.Started.UTC().Format("2006-01-02 15:04 UTC"), f.Finished.Sub(f.Started).Round(time.Second)))
	return t
}

func modules(f *result.File) Table {
	t := Table{Columns: []Column{{"module", true}, {"version", true}}}
	for _, path := range slices.Sorted(maps.Keys(f.Build.Modules)) {
		t.Rows = append(t.Rows, []string{path, f.Build.Modules[path]})
	}
	return t
}
