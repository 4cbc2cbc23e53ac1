package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/internal/stats"
)

const noDifference = "no difference"

// Cases writes every case as a table for the terminal, and what failed and was
// skipped.
func Cases(w io.Writer, cases [][]*result.Row) error {
	for _, rows := range cases {
		if _, err := fmt.Fprintf(w, "%s%s\n", rows[0].CaseName(), about(rows)); err != nil {
			return err
		}
		if t := caseTable(rows); len(t.Rows) > 0 {
			if err := t.Text(w); err != nil {
				return err
			}
		}
		if _, err := io.WriteString(w, unmeasured(rows)+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func about(rows []*result.Row) string {
	if rows[0].About == "" {
		return ""
	}
	return ": " + rows[0].About
}

// unmeasured names the rows without a result: each that failed, and those that were
// skipped for the same reason together.
func unmeasured(rows []*result.Row) string {
	var b strings.Builder
	var reasons []string
	skipped := map[string][]string{}
	for _, r := range rows {
		switch r.Status {
		case result.Failed:
			fmt.Fprintf(&b, "  FAILED   %s: %s\n", r.Contender, strings.ReplaceAll(r.Reason, "\n", "\n           "))
		case result.Skipped:
			if skipped[r.Reason] == nil {
				reasons = append(reasons, r.Reason)
			}
			skipped[r.Reason] = append(skipped[r.Reason], r.Contender)
		}
	}
	for _, reason := range reasons {
		fmt.Fprintf(&b, "  skipped  %s: %s\n", strings.Join(skipped[reason], ", "), reason)
	}
	return b.String()
}

// caseTable returns the measured rows of a case, the best first. Rows are compared
// with the best of the same durability.
func caseTable(rows []*result.Row) Table {
	ranked := stats.Ranked(rows)
	if len(ranked) == 0 {
		return Table{}
	}
	t := Table{Columns: []Column{
		{"contender", true}, {"durability", true}, {"transport", true}, {primaryTitle(ranked[0]), false}, {"±", false}, {"of its durability", false},
		{rateTitle(ranked[0]), false}, {"MB/s", false}, {"p50", false}, {"p90", false}, {"p95", false}, {"p99", false}, {"p99.9", false}, {"max", false},
		{"B/op", false}, {"allocs/op", false},
	}}
	metrics := metricNames(ranked)
	for _, m := range metrics {
		t.Columns = append(t.Columns, Column{m, false})
	}
	first := map[string]*result.Row{}
	for _, r := range ranked {
		if first[r.Durability] == nil {
			first[r.Durability] = r
		}
		t.Rows = append(t.Rows, append(caseCells(r, first[r.Durability]), metricCells(r, metrics)...))
	}
	return t.compact()
}

func primaryTitle(r *result.Row) string {
	if r.Primary != "" {
		return r.Primary
	}
	return "time/op"
}

func rateTitle(r *result.Row) string { return Plural(r.Op) + "/s" }

func caseCells(r, best *result.Row) []string {
	values, unit, _ := r.Values()
	s := stats.Summarize(values)
	cells := []string{r.Contender, r.Durability, r.Over(), Value(s.Median, unit), percent(s.Spread()), standing(r, best)}
	if r.Primary != "" {
		cells = append(cells, "", "")
	} else {
		cells = append(cells, rate(s.Median, r.Items), throughput(s.Median, r.BytesPerOp))
	}
	for _, q := range []float64{0.5, 0.9, 0.95, 0.99, 0.999} {
		cells = append(cells, latencyCell(r, q))
	}
	cells = append(cells, maxCell(r))
	if r.Primary != "" {
		return append(cells, "", "")
	}
	bytes := stats.Summarize(r.Each(func(s result.Sample) float64 { return s.Bytes }))
	allocs := stats.Summarize(r.Each(func(s result.Sample) float64 { return s.Allocs }))
	return append(cells, Value(bytes.Median, "B"), Value(allocs.Median, "1"))
}

// standing says how a row compares with the best of its durability.
func standing(r, best *result.Row) string {
	if r == best {
		return "best"
	}
	old, _, more := best.Values()
	values, _, _ := r.Values()
	c := stats.Compare(old, values, stats.DefaultAlpha)
	switch {
	case c.Needed > 0:
		return fmt.Sprintf("(%s, %d rounds needed)", times1(c.Ratio, more), c.Needed)
	case !c.Different():
		return noDifference
	}
	return times1(c.Ratio, more)
}

// times1 writes a ratio to the best so that more is worse.
func times1(ratio float64, more bool) string {
	if more && ratio > 0 {
		ratio = 1 / ratio
	}
	return Value(ratio, "x")
}

func throughput(ns float64, bytes int64) string {
	if bytes == 0 || ns <= 0 {
		return ""
	}
	return digits(float64(bytes) / ns * 1e3)
}

func latencyCell(r *result.Row, q float64) string {
	if d := r.Latency.At(q); d > 0 {
		return Value(float64(d), "ns")
	}
	return ""
}

func maxCell(r *result.Row) string {
	if r.Latency == nil {
		return ""
	}
	return Value(float64(r.Latency.Max), "ns")
}

// metricNames returns the names of all metrics but the primary one, in order.
func metricNames(rows []*result.Row) []string {
	var names []string
	seen := map[string]bool{}
	for _, r := range rows {
		for _, m := range r.Metrics {
			if !seen[m.Name] && m.Name != r.Primary {
				seen[m.Name] = true
				names = append(names, m.Name)
			}
		}
	}
	return names
}

func metricCells(r *result.Row, names []string) []string {
	cells := make([]string, len(names))
	for i, name := range names {
		if m := r.Metric(name); m != nil {
			cells[i] = Value(stats.Summarize(m.Values).Median, m.Unit)
		}
	}
	return cells
}
