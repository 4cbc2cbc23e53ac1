// Package compare says what changed from one run to another, and which of it
// counts.
//
// [Files] compares the rows that both have by time (or their primary metric), by
// bytes and by number of allocations. A change counts if it is larger than a
// threshold and the rounds of the two runs can be told apart: see [Thresholds].
//
// # Guarantees
//
// A row that was measured before and is missing or failed now is Lost, and counts. Runs on
// different machines are compared all the same, and [Report.Machines] says that they are.
//
// # Testing
//
// Recorded samples of an unchanged program, and of one with a path slowed by a fifth,
// are in testdata.
package compare

import (
	"fmt"
	"math"

	"github.com/mainstemdev/mainstem/bench/internal/report"
	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/internal/stats"
)

// Judgement is what a change comes to.
type Judgement string

// The judgements.
const (
	Slower   Judgement = "SLOWER" // or larger: worse by more than the threshold
	Faster   Judgement = "faster" // or smaller: better by more than the threshold
	Small    Judgement = "small"  // a difference, but below the threshold
	Same     Judgement = "no difference"
	TooFew   Judgement = "too few rounds"
	Lost     Judgement = "LOST" // measured before, failed or missing now
	New      Judgement = "new"  // not measured before
	Unusable Judgement = "not comparable"
)

// Change is one number of one row in both runs.
type Change struct {
	Name       string // suite/case/contender
	Measure    string // "time", "bytes", "allocs" or a metric
	Unit       string
	Old, New   stats.Summary
	Comparison stats.Comparison
	Threshold  float64
	Judgement  Judgement
	Reason     string // of Lost and Unusable, if there is more to say
}

// Report is all changes.
type Report struct {
	Changes  []Change
	Machines string // how the machines differ, "" if they do not
}

// Files compares two runs. Rows that were skipped in either do not appear.
func Files(old, new *result.File, t Thresholds) Report {
	r := Report{Machines: machines(old, new)}
	before := map[string]*result.Row{}
	for i := range old.Rows {
		before[old.Rows[i].Name()] = &old.Rows[i]
	}
	for i := range new.Rows {
		row := &new.Rows[i]
		was := before[row.Name()]
		delete(before, row.Name())
		r.Changes = append(r.Changes, rowChanges(was, row, t)...)
	}
	for i := range old.Rows {
		row := &old.Rows[i]
		if before[row.Name()] != nil && row.Status == result.OK {
			r.Changes = append(r.Changes, Change{Name: row.Name(), Measure: "time", Judgement: Lost, Reason: "it is not in the new run"})
		}
	}
	return r
}

func rowChanges(was, is *result.Row, t Thresholds) []Change {
	name := is.Name()
	switch {
	case is.Status == result.Failed && (was == nil || was.Status != result.Failed):
		return []Change{{Name: name, Measure: "time", Judgement: Lost, Reason: is.Reason}}
	case is.Status != result.OK:
		return nil
	case was == nil || was.Status != result.OK:
		return []Change{{Name: name, Measure: "time", Judgement: New}}
	}
	limits := t.of(name)
	old, _, _ := was.Values()
	new, unit, more := is.Values()
	measure := "time"
	if is.Primary != "" {
		measure = is.Primary
	}
	if was.Transport != is.Transport && was.Transport != "" && is.Transport != "" {
		return []Change{{Name: name, Measure: measure, Judgement: Unusable, Reason: fmt.Sprintf("it was reached over %s, now %s", was.Transport, is.Transport)}}
	}
	if was.Primary != is.Primary || len(old) == 0 || len(new) == 0 {
		return []Change{{Name: name, Measure: measure, Judgement: Unusable}}
	}
	changes := []Change{change(name, measure, unit, old, new, more, float64(limits.Time), t.Alpha)}
	if is.Primary != "" {
		return changes
	}
	bytes := func(s result.Sample) float64 { return s.Bytes }
	allocs := func(s result.Sample) float64 { return s.Allocs }
	return append(changes,
		atLeast(change(name, "bytes", "B", was.Each(bytes), is.Each(bytes), false, float64(limits.Bytes), t.Alpha), 64),
		atLeast(change(name, "allocs", "1", was.Each(allocs), is.Each(allocs), false, float64(limits.Allocs), t.Alpha), 0.5))
}

// atLeast makes a change small that is less than least in absolute numbers: a few
// bytes of the runtime's own are a large part of nothing.
func atLeast(c Change, least float64) Change {
	if (c.Judgement == Slower || c.Judgement == Faster) && math.Abs(c.New.Median-c.Old.Median) < least {
		c.Judgement = Small
	}
	return c
}

func change(name, measure, unit string, old, new []float64, more bool, threshold, alpha float64) Change {
	c := Change{
		Name: name, Measure: measure, Unit: unit, Threshold: threshold,
		Old: stats.Summarize(old), New: stats.Summarize(new), Comparison: stats.Compare(old, new, alpha), Judgement: Same,
	}
	worse := c.Comparison.Ratio - 1
	if more && c.Comparison.Ratio > 0 {
		worse = 1/c.Comparison.Ratio - 1
	}
	switch {
	case !c.Comparison.Different() && c.Comparison.Needed > 0 && math.Abs(worse) > threshold:
		c.Judgement = TooFew
	case !c.Comparison.Different():
	case worse > threshold:
		c.Judgement = Slower
	case 1/(1+worse)-1 > threshold:
		c.Judgement = Faster
	default:
		c.Judgement = Small
	}
	return c
}

// Counts returns the changes that fail a build.
func (r Report) Counts() []Change {
	var all []Change
	for _, c := range r.Changes {
		if c.Judgement == Slower || c.Judgement == Lost {
			all = append(all, c)
		}
	}
	return all
}

// Table returns the changes; without all, only those that say something.
func (r Report) Table(all bool) report.Table {
	t := report.Table{Columns: []report.Column{
		{Title: "row", Left: true}, {Title: "what", Left: true}, {Title: "old"}, {Title: "new"}, {Title: "change"}, {Title: "p"}, {Title: "", Left: true},
	}}
	for _, c := range r.Changes {
		if !all && (c.Judgement == Same || c.Judgement == Small) {
			continue
		}
		cells := []string{c.Name, c.Measure, "", "", "", "", string(c.Judgement)}
		if c.Reason != "" {
			cells[6] += ": " + c.Reason
		}
		if c.Old.N > 0 {
			cells[2], cells[3] = report.Value(c.Old.Median, c.Unit), report.Value(c.New.Median, c.Unit)
			cells[5] = fmt.Sprintf("%.4f", c.Comparison.P)
		}
		if c.Comparison.Different() {
			cells[4] = fmt.Sprintf("%+.1f %%", (c.Comparison.Ratio-1)*100)
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

func machines(old, new *result.File) string {
	a, b := old.Machine, new.Machine
	switch {
	case a.CPU != b.CPU || a.Cores != b.Cores:
		return fmt.Sprintf("%s with %d cores before, %s with %d now", a.CPU, a.Cores, b.CPU, b.Cores)
	case a.Filesystem != b.Filesystem:
		return fmt.Sprintf("on %s before, on %s now", a.Filesystem, b.Filesystem)
	case a.Kernel != b.Kernel:
		return fmt.Sprintf("kernel %s before, %s now", a.Kernel, b.Kernel)
	case old.Build.Go != new.Build.Go:
		return fmt.Sprintf("%s before, %s now", old.Build.Go, new.Build.Go)
	case old.Settings.Quick != new.Settings.Quick || old.Settings.InProcess != new.Settings.InProcess:
		return "with other settings before"
	}
	return ""
}
