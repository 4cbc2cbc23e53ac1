package codec

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Row is what a run measured for one contender in one case of this suite.
type Row struct {
	Case      string  // as in [suite.Entry.Case]: "encode/pid"
	Contender string  // as in [suite.Entry.Contender]
	Time      float64 // of one operation, in nanoseconds
	Allocs    float64 // allocations of one operation
	Encoded   float64 // bytes of the encoding
	// Same says that the time cannot be told from that of the fastest contender.
	Same bool
}

// Summary is a run at a glance: for each shape and way the winner, and how many
// times as long as it the others took.
type Summary struct {
	Contenders []string // those who took part, in the order of the rows
	Lines      []Line
}

// Line is one case.
type Line struct {
	Case string
	// Winners are the fastest contender, and those that cannot be told from it.
	Winners []string
	// Times are how many times as long as the fastest each contender took, and Rows what
	// was measured, both by contender; who did not take part is not there.
	Times map[string]float64
	Rows  map[string]Row
}

// Summarize makes the summary of the rows of one run.
func Summarize(rows []Row) Summary {
	var s Summary
	at := map[string]int{}
	for _, r := range rows {
		if !slices.Contains(s.Contenders, r.Contender) {
			s.Contenders = append(s.Contenders, r.Contender)
		}
		if _, ok := at[r.Case]; !ok {
			at[r.Case] = len(s.Lines)
			s.Lines = append(s.Lines, Line{Case: r.Case, Times: map[string]float64{}, Rows: map[string]Row{}})
		}
		s.Lines[at[r.Case]].Rows[r.Contender] = r
	}
	for i := range s.Lines {
		s.Lines[i].decide()
	}
	return s
}

// decide compares the rows of the case.
func (l *Line) decide() {
	var rows []Row
	for _, r := range l.Rows {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), strings.Compare(a.Contender, b.Contender))
	})
	for i, r := range rows {
		l.Times[r.Contender] = r.Time / rows[0].Time
		if i == 0 || r.Same {
			l.Winners = append(l.Winners, r.Contender)
		}
	}
}

// WriteMarkdown writes the summary as Markdown: a table of winners and multiples
// for each way, then the sizes of the encodings.
func (s Summary) WriteMarkdown(w io.Writer) error {
	var out strings.Builder
	for _, way := range []string{"encode", "decode"} {
		lines := s.way(way)
		if len(lines) == 0 {
			continue
		}
		fmt.Fprintf(&out, "### %s: times as long as the fastest\n\n", strings.ToUpper(way[:1])+way[1:])
		s.table(&out, lines, []string{"fastest", "time"}, func(l Line) []string {
			return []string{strings.Join(l.Winners, " = "), fmt.Sprintf("%.3g ns", l.Rows[l.Winners[0]].Time)}
		}, func(l Line, contender string) string { return fmt.Sprintf("%.2f×", l.Times[contender]) })
		fmt.Fprintf(&out, "### %s: allocations\n\n", strings.ToUpper(way[:1])+way[1:])
		s.table(&out, lines, nil, nil, func(l Line, contender string) string { return fmt.Sprintf("%.0f", l.Rows[contender].Allocs) })
	}
	if lines := s.way("encode"); len(lines) > 0 {
		out.WriteString("### Size of the encoding, in bytes\n\n")
		s.table(&out, lines, nil, nil, func(l Line, contender string) string { return fmt.Sprintf("%.0f", l.Rows[contender].Encoded) })
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// way returns the lines of one way.
func (s Summary) way(name string) []Line {
	var lines []Line
	for _, l := range s.Lines {
		if strings.HasPrefix(l.Case, name+"/") {
			lines = append(lines, l)
		}
	}
	return lines
}

// table writes a table with a line for each case and a column for each contender,
// after columns that say something of the whole case.
func (s Summary) table(out *strings.Builder, lines []Line, heads []string, head func(Line) []string, cell func(Line, string) string) {
	columns := slices.Concat([]string{"shape"}, heads, s.Contenders)
	fmt.Fprintf(out, "| %s |\n|---%s|\n", strings.Join(columns, " | "), strings.Repeat("|---:", len(columns)-1))
	for _, l := range lines {
		_, shape, _ := strings.Cut(l.Case, "/")
		cells := []string{shape}
		if head != nil {
			cells = append(cells, head(l)...)
		}
		for _, c := range s.Contenders {
			if _, ok := l.Rows[c]; !ok {
				cells = append(cells, "–")
				continue
			}
			cells = append(cells, cell(l, c))
		}
		fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
	}
	out.WriteByte('\n')
}
