package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/internal/stats"
)

// Verdicts writes how Mainstem did against its peers, for a terminal.
func Verdicts(w io.Writer, f *result.File) error {
	verdicts := verdicts(f, stats.Judge)
	if len(verdicts) == 0 {
		_, err := io.WriteString(w, "no verdict: nowhere were Mainstem and a peer measured at the same durability\n")
		return err
	}
	if _, err := fmt.Fprintf(w, "Mainstem against the best peer of the same durability: %s\n\n", tally(verdicts)); err != nil {
		return err
	}
	if err := verdictTable(verdicts, false).Text(w); err != nil {
		return err
	}
	if l := legend(verdicts); l != "" {
		if _, err := io.WriteString(w, "\n"+l+"\n"); err != nil {
			return err
		}
	}
	served := servedVerdicts(f, verdicts)
	if len(served) == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(w, "\nServers against servers, the best of the same durability and transport: %s\n\n", tally(served)); err != nil {
		return err
	}
	return verdictTable(served, true).Text(w)
}

// servedVerdicts returns the verdicts on servers, none if they are all, which are shown already.
func servedVerdicts(f *result.File, all []stats.Verdict) []stats.Verdict {
	served := verdicts(f, stats.JudgeServed)
	if slices.EqualFunc(served, all, func(a, b stats.Verdict) bool { return a.Ours == b.Ours && a.Peer == b.Peer }) {
		return nil
	}
	return served
}

// The marks beside a verdict on contenders that were not reached in the same way.
const (
	otherWay   = "†"
	unknownWay = "?"
)

// Mark returns the mark of a verdict, "" if both sides were reached in the same way.
func Mark(v stats.Verdict) string {
	return map[stats.Ways]string{stats.OtherWay: otherWay, stats.UnknownWay: unknownWay}[v.Ways()]
}

// legend explains the marks that there are.
func legend(verdicts []stats.Verdict) string {
	seen := map[stats.Ways]bool{}
	for _, v := range verdicts {
		seen[v.Ways()] = true
	}
	var lines []string
	if seen[stats.OtherWay] {
		lines = append(lines, otherWay+" The two are not reached in the same way, such as one by a call in the process and one over a socket: a part of the difference is the way. The table of the case says how.")
	}
	if seen[stats.UnknownWay] {
		lines = append(lines, unknownWay+" The results do not say how both are reached: one may be a call in the process and the other a server.")
	}
	return strings.Join(lines, "\n")
}

func verdicts(f *result.File, judge func([]*result.Row) []stats.Verdict) []stats.Verdict {
	var all []stats.Verdict
	for _, rows := range f.Cases() {
		all = append(all, judge(rows)...)
	}
	return all
}

func tally(verdicts []stats.Verdict) string {
	n := map[stats.Outcome]int{}
	other := 0
	for _, v := range verdicts {
		n[v.Outcome]++
		if v.Ways() == stats.OtherWay {
			other++
		}
	}
	text := fmt.Sprintf("%d won, %d lost, %d even", n[stats.Won], n[stats.Lost], n[stats.Even])
	if n[stats.Open] > 0 {
		text += fmt.Sprintf(", %d open for too few rounds", n[stats.Open])
	}
	if other > 0 {
		text += fmt.Sprintf("; %d of the %d between contenders that are not reached in the same way (%s)", other, len(verdicts), otherWay)
	}
	return text
}

// verdictTable has a row for each verdict, with the transport where it is that of both sides.
func verdictTable(verdicts []stats.Verdict, served bool) Table {
	t := Table{Columns: []Column{
		{"case", true}, {"durability", true}, {"transport", true}, {"Mainstem", true}, {"", false}, {"best peer", true}, {"", false}, {"verdict", true}, {"", true}, {"p", false},
	}}
	for _, v := range verdicts {
		transport := ""
		if served {
			transport = v.Ours.Transport
		}
		t.Rows = append(t.Rows, []string{
			v.Suite + "/" + v.Case, v.Durability, transport,
			v.Ours.Contender, median(v.Ours), v.Peer.Contender, median(v.Peer), verdictText(v), Mark(v), fmt.Sprintf("%.3f", v.Comparison.P),
		})
	}
	return t.compact()
}

// writeVerdicts writes both tables of verdicts of a document.
func writeVerdicts(d document, f *result.File) {
	d.heading(2, "Verdicts")
	v := verdicts(f, stats.Judge)
	if len(v) == 0 {
		d.paragraph("None: nowhere were Mainstem and a peer measured at the same durability.")
		return
	}
	d.paragraph("The best Mainstem contender against the best peer, at the same durability: " + tally(v) + ".")
	d.table(verdictTable(v, false))
	for line := range strings.Lines(legend(v)) {
		d.paragraph(strings.TrimSpace(line))
	}
	if lost := lostTable(v); len(lost.Rows) > 0 {
		d.heading(3, "Why it was lost")
		d.table(lost)
	}
	if served := servedVerdicts(f, v); len(served) > 0 {
		d.heading(3, "Servers against servers")
		d.paragraph("The best Mainstem contender against the best peer, at the same durability, among those that answer over the same transport: " + tally(served) + ".")
		d.table(verdictTable(served, true))
	}
}

func median(r *result.Row) string {
	values, unit, _ := r.Values()
	s := stats.Summarize(values)
	return Value(s.Median, unit) + " ± " + percent(s.Spread())
}

func verdictText(v stats.Verdict) string {
	switch {
	case v.Outcome == stats.Open:
		return fmt.Sprintf("open (fewer than %d rounds tell nothing)", v.Comparison.Needed)
	case v.Outcome == stats.Even:
		return "even (" + noDifference + ")"
	}
	return fmt.Sprintf("%s, %s", v.Outcome, Value(v.Times, "x"))
}

// multiplesLine is one case of a table of multiples.
type multiplesLine struct {
	name  string
	cells map[string]string // by contender
	best  []string
}

// multiples returns, for the cases of a suite at one durability, the best contender
// and how many times as much the others took. It is empty where nobody competes.
func multiples(cases [][]*result.Row, durability string) Table {
	var contenders []string
	var lines []multiplesLine
	for _, rows := range cases {
		same := slices.DeleteFunc(stats.Ranked(rows), func(r *result.Row) bool { return r.Durability != durability })
		if len(same) < 2 {
			continue
		}
		l := multiplesLine{name: same[0].Case, cells: map[string]string{}}
		for _, r := range same {
			if !slices.Contains(contenders, r.Contender) {
				contenders = append(contenders, r.Contender)
			}
			cell := standing(r, same[0])
			if r == same[0] || cell == noDifference {
				l.best = append(l.best, r.Contender)
				cell = "1×"
			}
			l.cells[r.Contender] = cell
		}
		lines = append(lines, l)
	}
	t := Table{Columns: []Column{{"case", true}, {"best", true}}}
	for _, c := range contenders {
		t.Columns = append(t.Columns, Column{c, false})
	}
	for _, l := range lines {
		cells := []string{l.name, strings.Join(l.best, " = ")}
		for _, c := range contenders {
			cells = append(cells, l.cells[c])
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// durabilities returns those of the measured rows of cases, in order of appearance.
func durabilities(cases [][]*result.Row) []string {
	var all []string
	for _, rows := range cases {
		for _, r := range rows {
			if r.Status == result.OK && !slices.Contains(all, r.Durability) {
				all = append(all, r.Durability)
			}
		}
	}
	return all
}
